"""Makes vLLM's compile monitor name every compile, where its version can.

By default a second compile of the same kernel, for another shape, is silent.
"""

from __future__ import annotations

import os
import re
from functools import cache

from specgauge.config.experiment import Server
from specgauge.run.machine import packages_of

FLAG = "jit-monitor-verbose"
SINCE = (0, 26)
"""Oldest release known to have the options: its log line says ``mode=warn``, their default."""
_IMAGE = "SPECGAUGE_VLLM_IMAGE"


def supported(server: Server, program: list[str]) -> bool:
    """Whether the server that ``program`` starts takes the flag; False where nobody can tell.

    By the version that the experiment is about, else by what is installed beside the program, else
    by the image's tag.  Asking the server itself (``--help``) takes ten seconds and more.
    """
    version = server.vllm_version or _installed(program[0]) or _tag(os.environ.get(_IMAGE, ""))
    found = re.match(r"v?(\d+)\.(\d+)", version or "")
    return found is not None and (int(found[1]), int(found[2])) >= SINCE


@cache
def _installed(program: str) -> str | None:
    """vLLM's version in the environment of the program."""
    return packages_of(program).get("vllm")


def _tag(image: str) -> str | None:
    found = re.search(r":v?(\d+\.\d+\S*)$", image)
    return found[1] if found else None
