"""Which cells of a start stood still, so that they must be repeated while its server lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specgauge.analyze import freezes, prefill, silences
from specgauge.analyze.log import traits
from specgauge.analyze.records import CellRecord
from specgauge.analyze.throughput import duration
from specgauge.analyze.validity.freeze import SHARE
from specgauge.record.layout import CONFIRM, PREFILL, RunPaths, StartPaths, is_measured
from specgauge.record.reader import read_cell, read_log


@dataclass(frozen=True)
class Frozen:
    """A cell to repeat."""

    load: str
    repeat: int
    seconds: float
    """Frozen, all its freezes together."""


def frozen_cells(
    run: RunPaths, variant: str, k: int, hit_rates: Mapping[tuple[str, int], float]
) -> list[Frozen]:
    """Complete cells of start ``k`` whose freezes make up a suspect share of them.

    ``hit_rates``: share of the prompt tokens of (load, repeat) that the prefix cache had.  A cell
    without is counted cold and allowed more prefill than it may have had.  The prefill rate comes
    from this start's cells and warm-up, and from the run's earlier starts.
    """

    def hits(cell: CellRecord) -> float | None:
        return hit_rates.get((cell.load, cell.repeat))

    cells = _read(variant, k, run.start(variant, k))
    measured = [c for c in cells if is_measured(c.load) and _complete(c)]
    if not any(_candidates(c) for c in measured):
        return []
    pool = [s for c in cells for s in prefill.samples(c.requests, c.chunks, hits(c))]
    for name, other, paths in run.starts():
        if (name, other) != (variant, k):
            for cell in _read(name, other, paths):
                pool += prefill.samples(cell.requests, cell.chunks, None)
    ahead = traits.read(read_log(run.start(variant, k).server_log, 0.0)).tokens_ahead
    found = []
    for cell in measured:
        seen = freezes.find(cell.requests, cell.chunks, hits(cell), pool, ahead)
        seconds = sum(f.seconds for f in seen)
        span = duration(cell.requests)
        if span is not None and seconds >= SHARE * span.seconds and seconds > 0:
            found.append(Frozen(cell.load, cell.repeat, seconds))
    return found


def _read(variant: str, k: int, paths: StartPaths) -> list[CellRecord]:
    return [
        read_cell(variant, k, load, repeat, at)
        for load, repeat, at in paths.cells()
        if not load.startswith((CONFIRM, PREFILL))
    ]


def _complete(cell: CellRecord) -> bool:
    return (
        cell.document is not None
        and cell.document.state == "complete"
        and bool((cell.requests["state"] == "ok").all())
    )


def _candidates(cell: CellRecord) -> bool:
    """Whether it has any silence that could be a freeze, prefill not yet taken off."""
    limit = freezes.threshold(freezes.usual_step(cell.requests, cell.chunks))
    return bool(silences.find(cell.requests, cell.chunks, limit))
