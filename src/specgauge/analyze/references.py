"""Published results beside ours: plausibility, never a pass mark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specgauge.analyze.document import Cell, Comparison, Reference
from specgauge.analyze.part import Verdict
from specgauge.analyze.records import Published
from specgauge.analyze.stats import mean


def _duration(cell: Cell) -> float | None:
    """Without what a repeat confirmed as a one-off freeze."""
    seconds = cell.observed.duration_s
    if seconds is None or cell.derived is None or cell.derived.verdict != "VALID":
        return seconds
    return seconds - cell.derived.frozen_s


_OF_A_CELL: dict[str, Callable[[Cell], float | None]] = {
    "output_tok_s": lambda c: c.observed.output_tok_s,
    "tpot_ms": lambda c: c.observed.tpot_ms.mean,
    "ttft_ms": lambda c: c.observed.ttft_ms.mean,
    "duration_s": _duration,
    "acceptance_length": lambda c: c.observed.acceptance_length,
    "tokens_per_step": lambda c: c.observed.tokens_per_step,
    "draft_coverage": lambda c: c.observed.draft_coverage,
}


def beside(
    published: Sequence[Published], cells: Sequence[Cell], comparisons: Sequence[Comparison]
) -> list[Reference]:
    """Each published result whose variant and load we measured too, with ours.

    A speed-up stands beside our corrected one where that is VALID and the raw one is not, or where
    its author took something off too; a duration beside ours less confirmed freezes.
    """
    found = []
    for theirs in published:
        if theirs.metric == "speedup":
            ours, verdict = _speedup(theirs, comparisons)
        else:
            ours, verdict = _figure(theirs, cells)
        if ours is None:
            continue
        found.append(
            Reference(
                source=theirs.source,
                variant=theirs.variant,
                load=theirs.load,
                metric=theirs.metric,
                basis="derived" if theirs.basis == "derived" else "observed",
                theirs=theirs.value,
                ours=ours,
                difference=ours / theirs.value - 1,
                verdict=verdict,
                conditions=dict(theirs.conditions),
            )
        )
    return found


def _speedup(
    theirs: Published, comparisons: Sequence[Comparison]
) -> tuple[float | None, Verdict | None]:
    ours = [
        c
        for c in comparisons
        if (c.variant, c.load, c.metric) == (theirs.variant, theirs.load, "output_tok_s")
    ]
    bases = {c.basis: c for c in ours}
    chosen, corrected = bases.get("observed"), bases.get("derived")
    if corrected is not None and (theirs.basis == "derived" or _is_better(corrected, chosen)):
        chosen = corrected
    return (chosen.speedup, chosen.verdict) if chosen else (None, None)


def _is_better(corrected: Comparison, raw: Comparison | None) -> bool:
    return corrected.verdict == "VALID" and (raw is None or raw.verdict != "VALID")


def _figure(theirs: Published, cells: Sequence[Cell]) -> tuple[float | None, Verdict | None]:
    mine = [
        c for c in cells if (c.variant, c.load) == (theirs.variant, theirs.load) and not c.excluded
    ]
    values = [v for c in mine if (v := _OF_A_CELL[theirs.metric](c)) is not None]
    suspect = any(c.verdict != "VALID" for c in mine)
    return mean(values), "SUSPECT" if suspect else "VALID"
