"""Freezes: silences that neither a step nor the prefill that entered in them explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from specgauge.analyze import prefill, silences
from specgauge.analyze.silences import Phase, Silence

STEPS = 10
"""Longer than this many of the cell's median steps: far beyond any step's own spread (p99 is at
most 1.3 medians in clean captures)."""
MIN_S = 0.25
"""And longer than this: a collected garbage or a slow scrape costs tens of milliseconds."""
PREFILL_SLACK = 0.5
"""And by more than this share of the prefill that was taken off: in clean captures one prompt's
rate strays by up to 30 % from the median (batching, other work on the machine)."""

BatchClass = Literal["one", "multiple_of_16", "other"]


def batch_class(batch: int) -> BatchClass:
    """Triton specialises integer arguments on 1 and on divisibility by 16: three builds."""
    if batch == 1:
        return "one"
    return "multiple_of_16" if batch % 16 == 0 else "other"


@dataclass(frozen=True)
class Freeze:
    """One freeze."""

    silence: Silence
    prefill_s: float
    """Prefill that entered in it, by the measured rate."""
    step_s: float
    """The cell's median step, which would have passed anyway."""

    @property
    def seconds(self) -> float:
        """Frozen time: the silence less prefill and one step."""
        return self.silence.seconds - self.prefill_s - self.step_s

    @property
    def where(self) -> tuple[Phase, BatchClass]:
        """Where it stood: a freeze elsewhere is another one."""
        return self.silence.phase, batch_class(self.silence.running)


def threshold(step_s: float) -> float:
    """Silence less prefill beyond which it is a freeze, seconds."""
    return max(STEPS * step_s, MIN_S)


def find(
    requests: pd.DataFrame,
    chunks: pd.DataFrame,
    hit_rate: float | None,
    pool: Sequence[prefill.Sample],
) -> list[Freeze]:
    """The freezes of a cell, in time order.

    A silence with prompts pending is judged only if the prefill rate is known from elsewhere in
    ``pool``: a slow server's prefill must not be called a freeze.
    """
    step = prefill.median_step(chunks)
    limit = threshold(step)
    tokens = prefill.uncached(requests, hit_rate)
    found = []
    for silence in silences.find(requests, chunks, limit):
        entered = float(tokens.reindex(list(silence.pending)).sum())
        cost = 0.0
        if entered > 0:
            speed = prefill.rate(pool, silence.t1)
            if speed is None:
                continue
            cost = entered / speed
        if silence.seconds - cost > max(limit, PREFILL_SLACK * cost):
            found.append(Freeze(silence, cost, step))
    return found


def length_like(freeze: Freeze, requests: pd.DataFrame, chunks: pd.DataFrame) -> float | None:
    """Of another cell with the same requests: its silence before the same first tokens, seconds.

    The longest one that ended with a first token of a request which was pending in ``freeze``.
    None where those requests gave none.
    """
    same = [
        s.seconds
        for s in silences.find(requests, chunks, 0.0)
        if set(s.pending) & set(freeze.silence.pending)
    ]
    return max(same, default=None)
