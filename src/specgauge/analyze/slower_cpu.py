"""Whether a slower start ran on slower CPUs, by what the records of both say.  Pure.

CPU time per token of API server and client rises with slower CPUs, and with longer steps alone:
waking up costs more after a longer sleep (twice the step, a quarter to a third more on an idle
machine).  A resting server's answers to the scraper are the same work at the same pace always, but
scatter.  Only the three together tell slower CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specgauge.analyze.document import Cell
from specgauge.analyze.document_cpu import CpuFigures
from specgauge.analyze.stats import geometric_mean

NOTED = 0.10
"""A rise of less counts as none: at rest, and with brackets a second wider than the load, the
figures of like starts differ by some per cent."""
UNCHANGED = 0.05
"""Only where it rose by less is it said not to have: the paces differ by 10 % and more
(``validity.unsteady``), and 9 % would be most of that."""
SURE = 2.0
"""Standard errors by which the resting server's answers must differ."""
CLOCK = 0.01
"""Relative difference of the card's clock below which it did not change."""


@dataclass(frozen=True)
class Change:
    """Slower start / faster start, less one."""

    api_server: float | None
    client: float | None
    rest: float | None
    rest_error: float | None
    clock: float | None
    starved: bool = False
    """The slower start's server waited for CPUs that others had: its answers at rest may have."""


def between(slow: Sequence[Cell], fast: Sequence[Cell], starved: bool = False) -> Change:
    """What changed from the cells of one start to those of a faster one, under one load."""
    rest, error = _rest_change(slow, fast)
    return Change(
        _change(slow, fast, lambda c: _cpu(c).api_server_s_per_token),
        _change(slow, fast, lambda c: _cpu(c).client_s_per_token),
        rest,
        error,
        _change(slow, fast, lambda c: c.observed.gpu.sm_clock_mhz if c.observed.gpu else None),
        starved,
    )


def sentence(seen: Change) -> str:
    """What that says of the CPUs' speed; empty where the accounts are not there."""
    if seen.api_server is None:
        return ""
    named = {"API server": seen.api_server, "client": seen.client}
    work = {name: change for name, change in named.items() if change is not None}
    listed = ", ".join(f"{name} {change:+.0%}" for name, change in work.items())
    risen = [change >= NOTED for change in work.values()]
    rest_risen = _rest_risen(seen)
    if len(risen) == 2 and all(risen) and rest_risen:
        how = "ran slower, or were taken away (SERVER_STARVED)," if seen.starved else "ran slower"
        return (
            f"The machine's CPUs {how} in the slowest start than in the fastest: CPU time per "
            f"output token {listed}; {_rest(seen)}{_clock(seen)}."
        )
    if not any(change >= UNCHANGED for change in work.values()) and not rest_risen:
        return (
            f"CPU time per output token did not rise with it ({listed}): the CPUs' speed does not "
            "explain it."
        )
    at_rest = f"; {_rest(seen)}" if seen.rest is not None else ""
    return (
        f"CPU time per output token: {listed}{at_rest}. Longer steps alone raise that of a token, "
        "so whether the CPUs ran slower is not told."
    )


def evidence(seen: Change) -> dict[str, float | int | str | None]:
    """The changes that are known."""
    named = {
        "api_server_cpu_per_token": seen.api_server,
        "client_cpu_per_token": seen.client,
        "rest_answer": seen.rest,
        "rest_answer_error": seen.rest_error,
        "sm_clock": seen.clock,
    }
    return {name: value for name, value in named.items() if value is not None}


def _rest(seen: Change) -> str:
    return (
        f"the resting server's answer to the scraper {seen.rest:+.0%} "
        f"(standard error {seen.rest_error or 0:.0%})"
    )


def _clock(seen: Change) -> str:
    if seen.clock is None:
        return ""
    if abs(seen.clock) <= CLOCK:
        return "; the card's clock did not change"
    return f"; the card's clock changed by {seen.clock:+.1%}"


def _rest_risen(seen: Change) -> bool:
    if seen.rest is None or seen.rest_error is None:
        return False
    return seen.rest >= NOTED and math.log1p(seen.rest) >= SURE * seen.rest_error


def _cpu(cell: Cell) -> CpuFigures:
    return cell.observed.cpu or CpuFigures()


def _change(
    slow: Sequence[Cell], fast: Sequence[Cell], figure: Callable[[Cell], float | None]
) -> float | None:
    above, below = (geometric_mean([v for c in x if (v := figure(c))]) for x in (slow, fast))
    return above / below - 1 if above and below else None


def _rest_change(slow: Sequence[Cell], fast: Sequence[Cell]) -> tuple[float | None, float | None]:
    """(change, standard error of its logarithm)."""
    change = _change(slow, fast, lambda c: _cpu(c).rest_answer_ms)
    if change is None:
        return None, None
    errors = [[e for c in x if (e := _cpu(c).rest_answer_error) is not None] for x in (slow, fast)]
    variance = sum(sum(e * e for e in x) / len(x) ** 2 for x in errors if x)
    return change, math.sqrt(variance)
