"""A process of ours beside a server: it watches, and writes its file when its stdin ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence


class SideProcess:
    """``python -m module *words``.

    It must end once its stdin does: so it also ends, and writes, when we are killed.  A process
    group of its own keeps the terminal's Ctrl-C from it.
    """

    def __init__(self, module: str, words: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", module, *words]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
        )

    def stop(self, limit_s: float) -> str | None:
        """Have it write and end; after ``limit_s`` it is killed.  May be repeated.

        Returns what went wrong, for people: the last line of its stderr, where it left one.
        """
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            _out, complaint = process.communicate(timeout=limit_s)  # closes its stdin
        except subprocess.TimeoutExpired:
            complaint = f"not done within {limit_s:g} s".encode()
        finally:
            process.kill()
            process.wait()
        status = process.returncode
        if status == 0:
            return None
        how = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
        return (complaint.decode("utf-8", "replace").strip().splitlines() or [how])[-1]
