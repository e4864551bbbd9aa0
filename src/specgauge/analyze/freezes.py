"""Freezes: silences that neither a step nor the prefill that entered in them explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from specgauge.analyze import prefill, silences
from specgauge.analyze.silences import Phase, Silence

STEPS = 10
"""Longer than this many of the cell's median steps without prefill: far beyond any step's own
spread (p99 is at most 1.3 medians in clean captures)."""
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
    """The cell's usual step, which would have passed anyway."""

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


def usual_step(requests: pd.DataFrame, chunks: pd.DataFrame) -> float:
    """The cell's median step, of those without prefill where there are enough, seconds.

    Where prompts are long most steps read some, and ten times their median is deaf to stalls of
    seconds.  What a step reads is taken off the silence that holds it, so it is no part of the
    limit.  Never more than the median of all: of few steps without prefill most may be a stall's.
    """
    ordinary = prefill.ordinary_step(requests, chunks)
    median = prefill.median_step(chunks)
    return median if ordinary is None else min(ordinary, median)


def find(
    requests: pd.DataFrame,
    chunks: pd.DataFrame,
    hit_rate: float | None,
    pool: Sequence[prefill.Sample],
    ahead: float = 0.0,
) -> list[Freeze]:
    """The freezes of a cell, in time order.

    A silence with prompts pending is judged only if the prefill rate is known from elsewhere in
    ``pool``: a slow server's prefill must not be called a freeze.  ``ahead``: see
    ``prefill.computed``.
    """
    seen = _candidates(requests, chunks, hit_rate, pool, ahead)
    return [f for f in seen if isinstance(f, Freeze)]


def unjudged(
    requests: pd.DataFrame,
    chunks: pd.DataFrame,
    hit_rate: float | None,
    pool: Sequence[prefill.Sample],
    ahead: float = 0.0,
) -> list[Silence]:
    """Long silences of which nobody can say how much was prefill, in time order."""
    seen = _candidates(requests, chunks, hit_rate, pool, ahead)
    return [s for s in seen if isinstance(s, Silence)]


def _candidates(
    requests: pd.DataFrame,
    chunks: pd.DataFrame,
    hit_rate: float | None,
    pool: Sequence[prefill.Sample],
    ahead: float,
) -> Iterator[Freeze | Silence]:
    """Silences over the threshold: those that are freezes, and those that cannot be judged."""
    step = usual_step(requests, chunks)
    limit = threshold(step)
    tokens = prefill.uncached(requests, hit_rate)
    first = prefill.first_tokens(requests)
    for silence in silences.find(requests, chunks, limit):
        read = prefill.computed(silence, first, tokens, step, ahead)
        cost = 0.0
        if read > 0:
            speed = prefill.rate(pool, silence.t1, alone=not silence.decoding)
            if speed is None:
                yield silence
                continue
            cost = read / speed
        if silence.seconds - cost > max(limit, PREFILL_SLACK * cost):
            yield Freeze(silence, cost, step)


def length_like(freeze: Freeze, requests: pd.DataFrame, chunks: pd.DataFrame) -> float | None:
    """Of another cell with the same requests: its silence before the same first tokens, seconds.

    While none decoded: the longest one in which requests that were pending in ``freeze`` waited and
    none decoded (the silences of a wave's later prompts, between others' chunks, are not that), or
    else any of theirs.  Between chunks: the one that the same first tokens ended.  None without.
    """
    wanted = freeze.silence
    found = silences.find(requests, chunks, 0.0)
    if wanted.decoding:
        alike = [s for s in found if set(s.begun) & set(wanted.begun)]
    else:
        same = [s for s in found if set(s.pending) & set(wanted.pending)]
        alike = [s for s in same if not s.decoding] or same
    return max((s.seconds for s in alike), default=None)
