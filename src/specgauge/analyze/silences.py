"""Silences of a cell: spans in which requests were in flight and no chunk of any of them came.

Pure arithmetic on the client's records; whether a silence is a freeze is ``freezes``' business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

Phase = Literal["arrival", "steady", "drain"]
Floats = npt.NDArray[np.float64]

SAME_STEP_S = 0.01
"""First tokens at most this far apart (or a step, if that is longer) came out of the same step."""


@dataclass(frozen=True)
class Silence:
    """No chunk from ``t0`` to ``t1`` (seconds on the cells' clock) while ``running`` > 0."""

    t0: float
    """The chunk before it, or the send with which the server's idleness ended."""
    t1: float
    """The chunk that ends it."""
    running: int
    """Requests in flight just before ``t1``."""
    decoding: int
    """Those of them that had a token before ``t0``: without any, the silence is TTFT."""
    pending: tuple[int, ...]
    """Indices of those that had none until ``t1``: their prefill lies in the silence."""
    phase: Phase
    """``arrival``: some were pending.  ``drain``: none was, and no request came after it."""
    begun: tuple[int, ...] = ()
    """Of the pending ones those whose first tokens end it."""

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.t1 - self.t0

    @property
    def kind(self) -> Literal["after-token", "before-token"]:
        """Between chunks, or before any first token (then it *is* TTFT)."""
        return "after-token" if self.decoding else "before-token"


@dataclass(frozen=True)
class Flights:
    """Times of each request: sent, first chunk, last sign of life; NaN where there was none."""

    index: npt.NDArray[np.int64]
    send: Floats
    first: Floats
    end: Floats


def flights(requests: pd.DataFrame) -> Flights:
    """Of the requests that were sent, in order of sending."""
    sent = requests[requests["t_send"].notna()].sort_values("t_send", kind="stable")
    send = sent["t_send"].to_numpy(dtype=np.float64)
    last = sent["t_last"].fillna(sent["t_done"]).to_numpy(dtype=np.float64)
    return Flights(
        index=sent["index"].to_numpy(dtype=np.int64),
        send=send,
        first=sent["t_first"].to_numpy(dtype=np.float64),
        end=np.where(np.isnan(last), send, last),
    )


def find(requests: pd.DataFrame, chunks: pd.DataFrame, at_least_s: float) -> list[Silence]:
    """Every silence of ``at_least_s`` or longer, in time order."""
    seen = flights(requests)
    events = np.unique(chunks["t"].to_numpy(dtype=np.float64))
    found = []
    for begin, end in busy(seen):
        inside = events[(events > begin) & (events <= end)]
        bounds = np.concatenate(([begin], inside, [] if end in inside else [end]))
        long = np.flatnonzero(np.diff(bounds) >= at_least_s)
        found += [_describe(seen, float(bounds[i]), float(bounds[i + 1])) for i in long]
    return found


def busy(seen: Flights) -> list[tuple[float, float]]:
    """Spans with at least one request in flight."""
    spans: list[tuple[float, float]] = []
    for send, end in zip(seen.send, seen.end, strict=True):
        if spans and send <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], float(end)))
        else:
            spans.append((float(send), float(end)))
    return spans


def _describe(seen: Flights, t0: float, t1: float) -> Silence:
    flying = (seen.send < t1) & (seen.end >= t1)
    decoding = flying & (seen.first <= t0)
    pending = flying & ~(seen.first < t1)
    phase: Phase = "steady"
    if pending.any():
        phase = "arrival"
    elif not (seen.send >= t1).any() and flying.sum() < _most(seen):
        phase = "drain"
    return Silence(
        t0=t0,
        t1=t1,
        running=int(flying.sum()),
        decoding=int(decoding.sum()),
        pending=tuple(int(i) for i in seen.index[pending]),
        phase=phase,
        begun=tuple(int(i) for i in seen.index[pending & (seen.first <= t1 + SAME_STEP_S)]),
    )


def _most(seen: Flights) -> int:
    """Most requests in flight at once."""
    times = np.concatenate((seen.send, seen.end))
    steps = np.concatenate((np.ones(len(seen.send)), -np.ones(len(seen.end))))
    order = np.lexsort((steps, times))
    return int(np.cumsum(steps[order]).max(initial=0))
