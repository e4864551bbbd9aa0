"""Progress at a terminal and in a file."""

from __future__ import annotations

import io

from specgauge.preflight.progress import EVERY_S, Line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_file_gets_a_line_now_and_then() -> None:
    now = [0.0]
    stream = io.StringIO()
    line = Line(stream, lambda: now[0])
    for second in range(int(2 * EVERY_S) + 1):
        now[0] = float(second)
        line(f"{second} s")
    line.clear()
    assert stream.getvalue().splitlines() == ["0 s", f"{EVERY_S:.0f} s", f"{2 * EVERY_S:.0f} s"]


def test_terminal_has_one_line_that_goes_away() -> None:
    stream = Terminal()
    line = Line(stream)
    line("10%\n")
    line("20%")
    line("")
    line.clear()
    line.clear()
    assert stream.getvalue() == "\r\x1b[K10%\r\x1b[K20%\r\x1b[K"
