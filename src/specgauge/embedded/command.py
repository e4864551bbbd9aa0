"""Run another program for minutes without going silent: its output kept, a line of progress."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

Say = Callable[[str], None]

SILENCE_S = 5.0
"""A line of progress at least this often."""
NOISE = ("WARNING: Location ", "WARNING: Running pip as the 'root' user", "[notice]")
"""Starts of lines that help nobody: pip on unused index locations, on root, on its own updates."""


class CommandFailed(Exception):
    """A program ended with another exit code than 0.  ``output``: its last lines, noise removed."""

    def __init__(self, code: int, output: list[str]) -> None:
        super().__init__(f"exit code {code}")
        self.code = code
        self.output = output


def run(
    command: Sequence[str | Path],
    doing: str,
    say: Say,
    *,
    progress: Callable[[str], str] | None = None,
    every_s: float = SILENCE_S,
) -> list[str]:
    """Run ``command`` to its end and return its last 200 lines (both streams), noise removed.

    While it runs, ``say`` gets ``doing`` with the time so far every ``every_s`` seconds, and what
    ``progress`` makes of the program's last line.

    Raises:
        CommandFailed: the exit code is not 0.
        KeyboardInterrupt: the program has been stopped first.
    """
    begin = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines: deque[str] = deque(maxlen=200)
    reader = threading.Thread(target=_collect, args=(process, lines), daemon=True)
    reader.start()
    try:
        while True:
            try:
                process.wait(timeout=every_s)
                break
            except subprocess.TimeoutExpired:
                detail = progress(lines[-1] if lines else "") if progress else ""
                elapsed = time.monotonic() - begin
                say(f"  {doing}: {elapsed:.0f} s{', ' if detail else ''}{detail}")
    except BaseException:
        _stop(process)
        raise
    reader.join(timeout=5)
    if process.returncode != 0:
        raise CommandFailed(process.returncode, list(lines)[-20:])
    return list(lines)


def _collect(process: subprocess.Popen[str], lines: deque[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        text = line.rstrip()
        if text and not text.lstrip().startswith(NOISE):
            lines.append(text)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
