"""What runs, how far, how long still: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Hashable, Iterator, Mapping

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.status import Status

_PLAIN_EVERY_S = 10.0
_PLAIN_DETAIL = 100
"""Characters of a detail in a plain line."""
_LEAST_DETAIL = 8
"""Columns below which a detail says nothing."""
_SPINNER = 3
"""Columns of the turning sign, the space after it, and one left free: a full line may wrap."""
_SEPARATOR = " · "

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PREFIX = re.compile(
    r"^(\(\w[^()]*pid=\d+\)\s*)?"  # (APIServer pid=4678)
    r"((DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:.]+ |[DIWEF]\d{4} [\d:.]+ \d+ )?"
    r"(\[?[^\s\]]+:\d+\])?\s*"  # [api_utils.py:347], or torch's path.py:53]
)
"""What vLLM and torch put before each line of their logs."""
_BLOCKS = re.compile(r"[\u2580-\u259f]+")
"""What vLLM's name is drawn with when it starts."""


class Durations:
    """Mean duration of each kind of step seen so far, to say how long the rest will take.

    ``typical`` stands in for kinds not seen yet.
    """

    def __init__(self, typical: Mapping[str, float] | None = None) -> None:
        self._seen: dict[Hashable, list[float]] = {}
        self._typical = {(name,): seconds for name, seconds in (typical or {}).items()}

    def add(self, kind: Hashable, seconds: float) -> None:
        """Note that a step of ``kind`` took ``seconds``."""
        self._seen.setdefault(kind, []).append(seconds)

    def mean(self, kind: Hashable) -> float | None:
        """Mean seconds of ``kind``; None if never seen and not typical."""
        values = self._seen.get(kind)
        return sum(values) / len(values) if values else self._typical.get(kind)  # type: ignore[call-overload]

    def total(self, kinds: list[Hashable]) -> float | None:
        """Expected seconds for ``kinds`` one after the other; None if any was never seen."""
        means = [self.mean(kind) for kind in kinds]
        return None if any(m is None for m in means) else sum(m for m in means if m is not None)


def words(seconds: float) -> str:
    """``40 s``, ``3 min``, ``2 h 05 min``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def readable(line: str) -> str:
    """A line of a server's log without what stands before its message; one line, no colours."""
    plain = _BLOCKS.sub(" ", _PREFIX.sub("", _COLOURS.sub("", line).strip()))
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())


def cut(text: str, columns: int) -> str:
    """``text`` in at most ``columns`` columns of a terminal; one that was cut ends with ``…``."""
    if cell_len(text) <= columns:
        return text
    return set_cell_size(text, max(0, columns - 1)).rstrip() + "…"


class Progress:
    """Steps of known kinds; the time left is the sum of what earlier ones of a kind took."""

    def __init__(self, console: Console, durations: Durations, steps: list[Hashable]) -> None:
        self._console = console
        self._durations = durations
        self._left = list(steps)
        self._all = len(steps)
        self._title = ""
        self._kind: Hashable = None
        self._began = time.monotonic()
        self._printed_at = 0.0
        self._status: Status | None = None
        if console.is_terminal:
            self._status = console.status("")
            self._status.start()

    def begin(self, kind: Hashable, title: str) -> None:
        """A step of ``kind`` begins; ``title`` says what runs."""
        self._kind, self._title, self._began = kind, title, time.monotonic()
        self._printed_at = 0.0
        self.tick("")

    def tick(self, detail: str, fraction: float | None = None) -> None:
        """Say how far the step is; ``fraction`` of it (0..1) if known."""
        now = time.monotonic()
        if self._status is None and now - self._printed_at < _PLAIN_EVERY_S:
            return
        self._printed_at = now
        elapsed = now - self._began
        left = self._time_left(elapsed, fraction)
        detail = readable(detail)
        if self._status is None:
            line = _line(self._title, cut(detail, _PLAIN_DETAIL), f"{elapsed:.0f} s", left)
            self._console.print(escape(line), highlight=False, soft_wrap=True)
            return
        width = self._console.width - _SPINNER
        fixed = _line(self._title, f"{elapsed:.0f} s", left)
        room = width - cell_len(fixed) - len(_SEPARATOR)
        if room >= _LEAST_DETAIL:
            fixed = _line(self._title, cut(detail, room), f"{elapsed:.0f} s", left)
        self._status.update(escape(cut(fixed, width)))

    def _time_left(self, elapsed: float, fraction: float | None) -> str:
        later = list(self._left)
        if self._kind in later:
            later.remove(self._kind)
        rest = self._durations.total(later)
        usual = self._durations.mean(self._kind)
        if fraction is not None and fraction > 0.05:
            own: float | None = elapsed * (1 - fraction) / fraction
        else:
            own = None if usual is None else max(0.0, usual - elapsed)
        done = self._all - len(self._left)
        share = f"step {done + 1} of {self._all}" if self._all else ""
        if own is not None and rest is not None:
            return f"{share}, about {words(own + rest)} left"
        if own is not None and fraction is not None:
            return f"{share}, this step {words(own)} more"
        if rest is not None and self._kind not in self._left:
            return f"{share}, about {words(rest)} left after this"  # nobody foresaw this step
        return f"{share}, time left not known yet"

    def end(self, kind: Hashable) -> None:
        """The step is over; its duration helps to foretell the next of its kind."""
        if kind == self._kind:
            self._durations.add(kind, time.monotonic() - self._began)
        self.skip([kind])

    @contextlib.contextmanager
    def step(self, kind: Hashable, title: str) -> Iterator[None]:
        """Around a step; one that fails is not over, and teaches nothing about its duration."""
        self.begin(kind, title)
        yield
        self.end(kind)

    def skip(self, kinds: list[Hashable]) -> None:
        """These steps will not come any more."""
        for kind in kinds:
            if kind in self._left:
                self._left.remove(kind)

    def note(self, text: str, style: str = "") -> None:
        """A line that stays."""
        self._console.print(escape(text), style=style or None, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the live line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def _line(*parts: str) -> str:
    return _SEPARATOR.join(part for part in parts if part)
