"""What the simulator really did, one JSON object a line, with times of ``CLOCK_MONOTONIC``.

Each line goes to the kernel by itself, so that it outlives a SIGKILL.  Kinds:

- ``start``: pid, port, method, section, k, start (which one, from 0), start_factor,
  epoch_offset (``t`` + offset = Unix time)
- ``ready``: the server answers from now on
- ``request``: request (order of arrival), prompt_tokens, max_tokens; t = arrival
- ``step``: t0, t1, planned_s, batch, running, waiting, prefill_tokens, cached_tokens, tokens,
  drafts, draft_tokens, accepted (before the tail is cut), preempted
- ``freeze``: t0, t1, length_s (planted), log, batch; ``first_call``: t0, t1
- ``chunk``: request, seq, tokens, steps (more than one: merged), t just before it was written
- ``done``: request, tokens, finish_reason, cached_tokens; t just before the last bytes
- ``jit_line``, ``foreign``, ``fault``, ``abort`` (a client left), ``preempt``, ``reset``,
  ``child`` (pid), ``term``, ``death`` (how, exit_code: below 0 a signal)

A file that several servers share has their lines one after the other, each begun by ``start``.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from specgauge.errors import UsageError


class TruthLog:
    """Appends the lines to a file; without a path it writes nothing.

    Raises:
        UsageError: the file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._fd: int | None = None
        if path is None:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o644)
        except OSError as error:
            raise UsageError(f"--truth-out {path}: cannot be written: {error.strerror}") from error

    def write(self, kind: str, **fields: Any) -> None:
        """One line; ``t`` is now unless given or unless ``t0`` is."""
        if self._fd is None:
            return
        if "t" not in fields and "t0" not in fields:
            fields = {"t": time.monotonic(), **fields}
        line = json.dumps({"kind": kind, **fields}, separators=(",", ":"))
        os.write(self._fd, line.encode() + b"\n")

    def chunk(self, request: int, seq: int, tokens: int, steps: int, t: float) -> None:
        """The commonest line, without the cost of a JSON encoder."""
        if self._fd is not None:
            os.write(
                self._fd,
                b'{"kind":"chunk","t":%.9f,"request":%d,"seq":%d,"tokens":%d,"steps":%d}\n'
                % (t, request, seq, tokens, steps),
            )


def read_truth_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a truth log; a last line cut by a kill is left out."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]
