"""Acceptance of drafts: length, coverage, efficiency, by position and over time, cross-checked.

Sources: growth of vLLM's counters over the cell, and the token ids of the chunks.  Acceptance
length is conditional on a draft, so it always stands beside draft coverage and tokens per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from specgauge.analyze.counters import Counters, Window

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"

POINT_DRAFTS = 10
"""Fewest drafts behind one point over time: about what one of vLLM's ten-second lines covers for
ngram at one request (5 % of 23 steps a second).  The number accepted spreads by 1 to 2, so a point
is good to about half a token: enough for a course over time, too little for a comparison."""
POINT_SECONDS = 1.0
"""Shortest time behind one point: five scrapes, so that a late one does not shift it."""


@dataclass(frozen=True)
class Drafting:
    """What the server counted over a cell."""

    drafts: float
    draft_tokens: float
    accepted: float
    per_position: tuple[float, ...]
    """Drafts whose token at that position was accepted."""

    @property
    def length(self) -> float | None:
        """Acceptance length: 1 + accepted / drafts."""
        return 1 + self.accepted / self.drafts if self.drafts else None

    @property
    def efficiency(self) -> float | None:
        """(1 + accepted per draft) / (1 + tokens per draft): tokens used / positions computed."""
        if not self.drafts:
            return None
        return (1 + self.accepted / self.drafts) / (1 + self.draft_tokens / self.drafts)

    @property
    def by_position(self) -> tuple[float, ...]:
        """P(at least j tokens accepted | a draft), j = 1, 2, …"""
        return tuple(n / self.drafts for n in self.per_position) if self.drafts else ()

    @property
    def distribution(self) -> tuple[float, ...]:
        """P(exactly j tokens accepted | a draft), j = 0, 1, …: differences of neighbours."""
        if not self.by_position:
            return ()
        return tuple(a - b for a, b in pairwise((1.0, *self.by_position, 0.0)))


def drafting(counters: Counters, window: Window) -> Drafting | None:
    """Growth of the speculation counters over ``window``; None where the server has none."""
    drafts, tokens, accepted = (
        counters.delta(name, window) for name in (DRAFTS, DRAFT_TOKENS, ACCEPTED)
    )
    if drafts is None or tokens is None or accepted is None:
        return None
    positions = counters.delta_by(PER_POSITION, "position", window)
    ordered = tuple(positions[key] for key in sorted(positions, key=int))
    return Drafting(drafts, tokens, accepted, ordered)


def decode_chunks(chunks: pd.DataFrame) -> int:
    """Chunks after each request's first: one per request-step unless merged."""
    return int((chunks["seq"] > 0).sum())


def tokens_per_step(chunks: pd.DataFrame) -> float | None:
    """Tokens of the decode chunks / decode chunks."""
    decode = chunks[chunks["seq"] > 0]
    return float(decode["tokens"].sum()) / len(decode) if len(decode) else None


def tokens_per_step_by_request(chunks: pd.DataFrame) -> float | None:
    """Mean over requests of each one's tokens per step: a long answer counts as much as a short."""
    decode = chunks[chunks["seq"] > 0]
    each = decode["tokens"].groupby(decode["request"]).mean()
    return float(each.mean()) if len(each) else None


def coverage(drafts: float, chunks: pd.DataFrame) -> float | None:
    """Draft coverage: drafts / decode chunks."""
    steps = decode_chunks(chunks)
    return drafts / steps if steps else None


@dataclass(frozen=True)
class CrossCheck:
    """The stream's accepted tokens against the server's."""

    accepted_server: float
    accepted_stream: float
    """Sum of (tokens - 1) over decode chunks."""
    tail_allowed: float
    """Accepted tokens that may be missing from the stream: K for each request's cut tail."""
    merged: int
    """Merged decode chunks: each makes the stream look one or more accepted tokens richer."""
    tokens_per_step: float | None
    identity: float | None
    """1 + coverage x (acceptance length - 1)."""

    @property
    def agrees(self) -> bool:
        """Whether the difference is a tail: -merged <= server - stream <= allowed."""
        return -self.merged <= self.accepted_server - self.accepted_stream <= self.tail_allowed


def cross_check(
    drafted: Drafting, chunks: pd.DataFrame, k: int | None, merged: int = 0
) -> CrossCheck:
    """Compare the counters with the chunks.

    Accepted tokens are counted before the tail of a request is cut, so the server may be ahead by
    up to K per request; K is taken from the counters' positions where the config does not say.
    """
    decode = chunks[chunks["seq"] > 0]
    limit = k if k is not None else len(drafted.per_position)
    share, length = coverage(drafted.drafts, chunks), drafted.length
    identity = None if share is None else 1 + share * ((length or 1.0) - 1)
    return CrossCheck(
        accepted_server=drafted.accepted,
        accepted_stream=float((decode["tokens"] - 1).sum()),
        tail_allowed=float(limit * chunks["request"].nunique()),
        merged=merged,
        tokens_per_step=tokens_per_step(chunks),
        identity=identity,
    )


def over_time(counters: Counters, window: Window) -> list[tuple[float, float]]:
    """(time, acceptance length) through a cell, from the scrapes.

    Each point covers at least ``POINT_SECONDS`` and ``POINT_DRAFTS`` drafts and lies at the end
    of its span; what is left at the end joins no point.
    """
    times, drafts = counters.sampled(DRAFTS, window)
    _, accepted = counters.sampled(ACCEPTED, window)
    points: list[tuple[float, float]] = []
    if not times.size or accepted.size != times.size:
        return points
    begin = 0
    for i in range(1, times.size):
        grown = drafts[i] - drafts[begin]
        if grown == 0:
            begin = i  # nothing drafted: do not stretch the next point over quiet time
        elif grown >= POINT_DRAFTS and times[i] - times[begin] >= POINT_SECONDS:
            points.append((float(times[i]), float(1 + (accepted[i] - accepted[begin]) / grown)))
            begin = i
    return points


def by_category(requests: pd.DataFrame, chunks: pd.DataFrame) -> dict[str, float]:
    """Tokens per step of each prompt category (all of a category's decode chunks pooled)."""
    decode = chunks[chunks["seq"] > 0]
    category = requests.drop_duplicates("index").set_index("index")["category"]
    groups = decode["tokens"].groupby(decode["request"].map(category))
    return {str(name): float(np.mean(tokens)) for name, tokens in groups}
