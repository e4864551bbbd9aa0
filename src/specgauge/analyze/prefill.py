"""How fast a run's servers read prompts: samples of (uncached tokens, seconds), pooled.

A first token comes at the end of a step that also computed its prompt.  A long prompt is cut to the
server's token budget and read over several steps, in which others may go on decoding: what those
steps take beyond an ordinary one is the prompt's time.  Prompts that came with it (first tokens
within a step) were computed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from specgauge.analyze import silences, steps
from specgauge.analyze.silences import Floats

HIDDEN_STEPS = 0.2
"""Of a step: prefill that takes less is hidden in the step's own spread, and counts as this much,
so that a fast server's prefill is over- rather than underestimated."""
MIN_ALONE = 5
"""Prompts that nobody decoded beside, before their own rate counts: two of them may be frozen."""
MIN_PURE = 10
"""Gaps without any prefill from which their median is the ordinary step."""


@dataclass(frozen=True)
class Sample:
    """The first tokens that came out of one step."""

    t1: float
    tokens: float
    """Uncached prompt tokens computed for them."""
    seconds: float
    """What the steps since ``t0`` took beyond ordinary ones."""
    t0: float | None = None
    """The first tokens before these, or these requests' send."""
    alone: bool = False
    """No chunk came since ``t0``: the steps that read them are in ``seconds``, not taken off."""
    seen: float = 0.0
    """``seconds`` as far as they show: 0 where reading is hidden in the step's own spread."""

    def saw(self, t: float) -> bool:
        """Whether the moment ``t`` lies in it."""
        return t == self.t1 or (self.t0 is not None and self.t0 < t <= self.t1)


def uncached(requests: pd.DataFrame, hit_rate: float | None) -> pd.Series:
    """Uncached prompt tokens by request index.

    From the request's own usage where the server told, else with the cell's share of hits (0 to
    1; None counts as 0).
    """
    prompt = requests["prompt_tokens"].astype(np.float64)
    cached = requests["cached_tokens"].astype(np.float64).fillna(prompt * (hit_rate or 0.0))
    found = pd.Series((prompt - cached).clip(lower=0).to_numpy(), index=requests["index"])
    return found[~found.index.duplicated()]


def first_tokens(requests: pd.DataFrame) -> pd.Series:
    """Time of the first token by request index; NaN where there was none."""
    first = pd.Series(
        requests["t_first"].to_numpy(dtype=np.float64), index=requests["index"].to_numpy()
    )
    return first[~first.index.duplicated()]


def median_step(chunks: pd.DataFrame) -> float:
    """The cell's median gap between chunks, seconds; 0 without any."""
    gaps = steps.gaps(chunks)
    return float(np.median(gaps)) if gaps.size else 0.0


def ordinary_step(requests: pd.DataFrame, chunks: pd.DataFrame) -> float | None:
    """The median gap between chunks in which no request waited for its first token, seconds.

    Where prompts are long most gaps hold some prefill and the cell's median is no ordinary step.
    None with fewer than ``MIN_PURE`` such gaps.
    """
    pure = _pure_gaps(requests, chunks)
    return float(np.median(pure)) if pure.size >= MIN_PURE else None


def least_step(requests: pd.DataFrame, chunks: pd.DataFrame) -> float:
    """What a step without prefill takes at least, seconds; 0 where no gap is without.

    For cells with too few such gaps for their median: a step that holds prefill, taken off, would
    leave too little time for the prompts, and too high a rate makes freezes of their reading.
    """
    pure = _pure_gaps(requests, chunks)
    return float(pure.min()) if pure.size else 0.0


def waited(requests: pd.DataFrame, chunks: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Each gap between a request's chunks: its begin, its end, and how many requests waited in it
    for their first token (none: at most 0)."""
    ordered = chunks.sort_values(["request", "seq"], kind="stable")
    end = ordered["t"].to_numpy(dtype=np.float64)
    begin = ordered.groupby("request")["t"].shift().to_numpy(dtype=np.float64)
    inner = ~np.isnan(begin)
    begin, end = begin[inner], end[inner]
    sent = requests[requests["t_send"].notna() & requests["t_first"].notna()]
    send = np.sort(sent["t_send"].to_numpy(dtype=np.float64))
    first = np.sort(sent["t_first"].to_numpy(dtype=np.float64))
    waiting = np.searchsorted(send, end) - np.searchsorted(first, begin, side="right")
    return begin, end, waiting.astype(np.float64)


def _pure_gaps(requests: pd.DataFrame, chunks: pd.DataFrame) -> Floats:
    begin, end, waiting = waited(requests, chunks)
    return np.asarray((end - begin)[waiting <= 0])


def samples(
    requests: pd.DataFrame, chunks: pd.DataFrame, hit_rate: float | None
) -> tuple[Sample, ...]:
    """One a step that first tokens came out of."""
    known = ordinary_step(requests, chunks)
    step = least_step(requests, chunks) if known is None else known
    tokens = uncached(requests, hit_rate)
    seen = silences.flights(requests)
    events = np.unique(chunks["t"].to_numpy(dtype=np.float64))
    begins, ends = np.array(silences.busy(seen)).reshape(-1, 2).T
    found: list[Sample] = []
    previous = -np.inf
    for t1, together in _together(seen, max(step, silences.SAME_STEP_S)):
        span = int(np.searchsorted(begins, t1)) - 1
        if span < 0 or t1 > ends[span]:
            continue
        t0 = max(float(begins[span]), previous, float(seen.send[together].min()))
        previous = float(seen.first[together].max())
        read = float(tokens.reindex(list(seen.index[together])).sum())
        if read > 0:
            low, high = np.searchsorted(events, (t0, previous), side="right")
            inside = events[low:high]
            beyond = np.diff(np.concatenate(([t0], inside))) - step
            seconds = float(beyond[beyond > HIDDEN_STEPS * step].sum())
            alone = bool(inside.size) and float(inside[0]) >= t1
            least = max(seconds, HIDDEN_STEPS * step)
            found.append(Sample(previous, read, least, t0, alone, seconds))
    return tuple(found)


def _together(seen: silences.Flights, within_s: float) -> list[tuple[float, npt.NDArray[np.int64]]]:
    """(time, positions) of the first tokens of each step, in time order."""
    order = np.argsort(seen.first, kind="stable")
    order = order[~np.isnan(seen.first[order])]
    groups: list[tuple[float, list[int]]] = []
    for at in order:
        t = float(seen.first[at])
        if groups and t <= groups[-1][0] + within_s and seen.send[at] < groups[-1][0]:
            groups[-1][1].append(int(at))
        else:
            groups.append((t, [int(at)]))
    return [(t, np.array(members, dtype=np.int64)) for t, members in groups]


def computed(
    silence: silences.Silence,
    first: pd.Series,
    tokens: pd.Series,
    step_s: float,
    ahead: float = 0.0,
) -> float:
    """Most uncached prompt tokens that the server can have read in ``silence``.

    Those of the requests whose first tokens end it, and of the prompts after them at most one, as
    they are read in the order in which they came: had it been done, its first token would be there
    too.  But ``ahead`` tokens may have been read whose outputs are not out yet.
    ``first``, ``tokens``: time of the first token and uncached tokens, by request index.
    """
    pending = list(silence.pending)
    done = first.reindex(pending) <= silence.t1 + max(step_s, silences.SAME_STEP_S)
    wanted = tokens.reindex(pending).fillna(0.0)
    rest = wanted[~done.to_numpy(dtype=bool)]
    if not len(rest):
        return float(wanted.sum())
    return float(wanted.sum() - rest.sum() + min(rest.sum(), max(rest.max(), ahead)))


def rate(
    pool: Sequence[Sample], judged_t1: float | None = None, *, alone: bool = False
) -> float | None:
    """Uncached prompt tokens per second: the median of the samples, weighted by their tokens.

    A frozen sample is an outlier that a median forgives; the one that saw ``judged_t1`` has no
    say in its own case.  ``alone``: for prompts that nobody decoded beside.  Then nothing tells how
    many steps they took, and their rate is that of other such prompts where that is lower and
    there are ``MIN_ALONE`` of them.  None without another sample.
    """
    usable = [s for s in pool if s.seconds > 0 and (judged_t1 is None or not s.saw(judged_t1))]
    found = _median_rate(usable)
    others = [s for s in usable if s.alone]
    if found is None or not alone or len(others) < MIN_ALONE:
        return found
    return min(found, _median_rate(others) or found)


def _median_rate(samples: Sequence[Sample]) -> float | None:
    if not samples:
        return None
    rates = np.array([s.tokens / s.seconds for s in samples])
    weights = np.array([s.tokens for s in samples])
    order = np.argsort(rates)
    passed = np.cumsum(weights[order])
    return float(rates[order][np.searchsorted(passed, passed[-1] / 2)])
