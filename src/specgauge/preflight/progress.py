"""What takes long shows that it goes on: one changing line at a terminal, now and then one else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

EVERY_S = 15.0
"""Between two lines where they stay (a file, a pipe)."""
_WIDTH = 110
_CLEAR = "\r\x1b[K"


class Line:
    """Call it with text; ``clear`` before anything else is printed."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._terminal = stream.isatty()
        self._last: float | None = None
        self._shown = False

    def __call__(self, text: str) -> None:
        """Show ``text`` instead of the last one."""
        text = " ".join(text.split())[:_WIDTH]
        if not text:
            return
        now = self._clock()
        if self._terminal:
            self._write(f"{_CLEAR}{text}")
            self._shown = True
        elif self._last is None or now - self._last >= EVERY_S:
            self._last = now
            self._write(f"{text}\n")

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._write(_CLEAR)
            self._shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
