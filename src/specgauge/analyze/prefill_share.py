"""How much of a cell reading prompts took: what steps took beyond ordinary ones meanwhile.

A step that also reads prompts holds up every request in the batch, so where there are many the
mean step says little of decoding.
"""

from __future__ import annotations

import numpy as np

from specgauge.analyze import prefill, steps
from specgauge.analyze.context import CellContext

SAME_BATCH = 0.9
"""Requests decoding on average in the gaps without any prefill / in all gaps.  Where prompts come
all the time only a cell's end is without, and its small batch has faster steps: on an H200 cells
of 16 have 0.93 to 1, of 64 with a small model 0.5 to 0.8."""


def of(cell: CellContext) -> float | None:
    """Seconds beyond ordinary steps while prompts were read / the cell's duration; 0 to 1.

    At least that share: reading that takes less than ``prefill.HIDDEN_STEPS`` of a step does not
    show.  None where chunks hold several steps, where the engine stood still (it would count as
    reading), and where too few gaps of an alike batch (``SAME_BATCH``) are without any reading to
    tell an ordinary step.
    """
    requests, chunks, span = cell.requests, cell.chunks, cell.span
    if span is None or cell.merged.share > steps.MERGED_LIMIT or cell.freezes:
        return None
    if prefill.ordinary_step(requests, chunks) is None or not _alike(cell):
        return None
    read = prefill.samples(requests, chunks, cell.hit_rate)
    return min(sum(sample.seen for sample in read) / span.seconds, 1.0)


def _alike(cell: CellContext) -> bool:
    """Whether as many were decoding in the gaps without any prefill as in all."""
    begin, _, waiting = prefill.waited(cell.requests, cell.chunks)
    begun = np.sort(cell.requests["t_first"].dropna().to_numpy(dtype=np.float64))
    ended = np.sort(cell.requests["t_last"].dropna().to_numpy(dtype=np.float64))
    batch = np.searchsorted(begun, begin, side="right") - np.searchsorted(ended, begin, "right")
    return bool(batch[waiting <= 0].mean() >= SAME_BATCH * batch.mean())
