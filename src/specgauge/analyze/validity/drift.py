"""DRIFT: the baseline at the end against the baseline at the beginning."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze.document import Cell, Reason
from specgauge.analyze.records import DRIFT_ROLE
from specgauge.analyze.stats import geometric_mean

CODE = "DRIFT"

LIMIT = 0.03
"""Starts of the same server differ by about 1 %; three times that is the machine changing."""


def check(cells: Sequence[Cell], baseline: str, load: str) -> Reason | None:
    """Suspect, for every comparison under ``load``, when its throughput moved by more than 3 %."""
    mine = [c for c in cells if c.variant == baseline and c.load == load and c.verdict != "INVALID"]
    last = [c for c in mine if c.role == DRIFT_ROLE and c.excluded_because == DRIFT_ROLE]
    first_round = min((c.round for c in mine if not c.excluded), default=None)
    first = [c for c in mine if not c.excluded and c.round == first_round]
    begin, end = _throughput(first), _throughput(last)
    if begin is None or end is None:
        return None
    change = end / begin - 1
    if abs(change) <= LIMIT:
        return None
    return Reason(
        code=CODE,
        severity="suspect",
        detail=f"{load}: {baseline} went from {begin:.1f} to {end:.1f} tok/s ({change:+.1%}) "
        "between the first and the last start.",
        remedy="Something changed while measuring (heat, other work on the machine): more rounds, "
        "interleaved, on a quiet machine.",
        evidence={"first_tok_s": begin, "last_tok_s": end, "change": change},
    )


def _throughput(cells: Sequence[Cell]) -> float | None:
    return geometric_mean([c.observed.output_tok_s for c in cells if c.observed.output_tok_s])
