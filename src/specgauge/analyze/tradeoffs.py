"""What a faster setting costs elsewhere: latencies that are worse than the baseline's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specgauge.analyze.derived import FREEZE
from specgauge.analyze.document import Cell, Spread
from specgauge.analyze.stats import mean

WORSE = 0.10
"""Relative difference from which it is named: TTFT and tails of one start stray by half of that."""


def _of(spread: Callable[[Cell], Spread | None], field: str) -> Callable[[Cell], float | None]:
    def value(cell: Cell) -> float | None:
        found = spread(cell)
        number = getattr(found, field) if found is not None else None
        return None if number is None else float(number)

    return value


def _ttft(cell: Cell) -> Spread:
    """From the schedule for open loads."""
    return cell.observed.ttft_scheduled_ms or cell.observed.ttft_ms


def _e2e(cell: Cell) -> Spread:
    return cell.observed.e2e_scheduled_ms or cell.observed.e2e_ms


_NAMED = (
    ("TTFT", _of(_ttft, "mean")),
    ("TTFT p99", _of(_ttft, "p99")),
    ("TPOT", _of(lambda c: c.observed.tpot_ms, "mean")),
    ("TPOT p99", _of(lambda c: c.observed.tpot_ms, "p99")),
    ("E2E p99", _of(_e2e, "p99")),
)


def worse(cells: Sequence[Cell], variant: str, baseline: str, load: str) -> list[str]:
    """``TTFT 177 → 230 ms``: means over the counted cells of both; p99 where samples suffice.

    Cells that stood still have no say: their waits are the freeze's, which has its own row.
    """
    sides = [
        [c for c in cells if (c.variant, c.load) == (name, load) and not c.excluded
         and not _froze(c)]
        for name in (baseline, variant)
    ]  # fmt: skip
    found = []
    for name, value in _NAMED:
        base, mine = (mean([v for c in side if (v := value(c)) is not None]) for side in sides)
        if base and mine and mine > base * (1 + WORSE):
            found.append(f"{name} {_ms(base)} → {_ms(mine)} ms")
    return found


def _froze(cell: Cell) -> bool:
    return any(r.code == FREEZE and r.severity == "suspect" for r in cell.reasons)


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
