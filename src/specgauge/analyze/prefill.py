"""How fast a run's servers read prompts: samples of (uncached tokens, seconds), pooled.

A first token comes at the end of a step that also computed its prompt.  The gap before it, less an
ordinary step, is the prompt's time.  Prompts that came with it (first tokens within a step) were
computed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from specgauge.analyze import silences, steps

HIDDEN_STEPS = 0.2
"""Of a step: prefill that takes less is hidden in the step's own spread, and counts as this much,
so that a fast server's prefill is over- rather than underestimated."""
SAME_STEP_S = 1e-3
"""A first token that follows another chunk sooner came out of the same step."""


@dataclass(frozen=True)
class Sample:
    """One gap that ended with first tokens."""

    t1: float
    tokens: float
    """Uncached prompt tokens computed in it."""
    seconds: float
    """Its length less an ordinary step."""


def uncached(requests: pd.DataFrame, hit_rate: float | None) -> pd.Series:
    """Uncached prompt tokens by request index.

    From the request's own usage where the server told, else with the cell's share of hits (0 to
    1; None counts as 0).
    """
    prompt = requests["prompt_tokens"].astype(np.float64)
    cached = requests["cached_tokens"].astype(np.float64).fillna(prompt * (hit_rate or 0.0))
    found = pd.Series((prompt - cached).clip(lower=0).to_numpy(), index=requests["index"])
    return found[~found.index.duplicated()]


def median_step(chunks: pd.DataFrame) -> float:
    """The cell's median gap between chunks, seconds; 0 without any."""
    gaps = steps.gaps(chunks)
    return float(np.median(gaps)) if gaps.size else 0.0


def samples(
    requests: pd.DataFrame, chunks: pd.DataFrame, hit_rate: float | None
) -> tuple[Sample, ...]:
    """One a gap that ended with first tokens."""
    step = median_step(chunks)
    tokens = uncached(requests, hit_rate)
    seen = silences.flights(requests)
    found = []
    for t0, t1 in silences.before_first_tokens(seen, chunks):
        if t1 - t0 < SAME_STEP_S:
            continue
        together = seen.index[(seen.first >= t1) & (seen.first <= t1 + max(step, 0.01))
                              & (seen.send < t1)]  # fmt: skip
        read = float(tokens.reindex(list(together)).sum())
        if read > 0:
            found.append(Sample(t1, read, max(t1 - t0 - step, HIDDEN_STEPS * step)))
    return tuple(found)


def rate(pool: Sequence[Sample], judged_t1: float | None = None) -> float | None:
    """Uncached prompt tokens per second: the median of the samples, weighted by their tokens.

    A frozen sample is an outlier that a median forgives; the one that ends at ``judged_t1`` has no
    say in its own case.  None without another sample.
    """
    usable = [s for s in pool if s.t1 != judged_t1 and s.seconds > 0]
    if not usable:
        return None
    rates = np.array([s.tokens / s.seconds for s in usable])
    weights = np.array([s.tokens for s in usable])
    order = np.argsort(rates)
    passed = np.cumsum(weights[order])
    return float(rates[order][np.searchsorted(passed, passed[-1] / 2)])
