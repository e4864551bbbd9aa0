"""Which Python runs the server: from a program such as ``vllm`` to its interpreter."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

_SHEBANG_BYTES = 4096


def python_of(program: str) -> str | None:
    """The interpreter of ``program`` (an absolute path): itself, or its first line's.

    Installers write ``#!/venv/bin/python``, or for long paths a shell line ``'''exec' /venv/…``.
    None: neither, as with a compiled program.
    """
    path = Path(program)
    if re.fullmatch(r"python[\d.]*", path.name):
        return str(path)
    try:
        with path.open("rb") as file:
            head = file.read(_SHEBANG_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return None
    if not head or not head[0].startswith("#!"):
        return None
    for line in (head[0][2:], *(text for text in head[1:3] if "exec" in text)):
        try:
            words = shlex.split(line.replace("'''exec'", "").replace('"exec"', ""))
        except ValueError:
            continue
        for word in words:
            if re.fullmatch(r"python[\d.]*", Path(word).name) and os.path.isabs(word):
                return word
    return None
