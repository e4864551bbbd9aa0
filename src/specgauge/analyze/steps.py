"""Step latency: the gap between a request's chunks, one gap per request-step.

Other tools call it ITL.  Under speculation a step yields several tokens, so it is not a time per
token and never by itself a speed-up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from specgauge.analyze.counters import Counters, Window

AGREE = 0.02
"""Client and server agree on the mean step within this share: the way from the engine to the
socket is in the first and last gap only."""

MERGED_LIMIT = 0.01
"""Share of merged decode chunks up to which step figures of the stream stay within 1 %."""

MEDIAN_KNOWN = 0.05
"""To what the median step must be known where chunks hold several: what long steps of prefill add
to the mean is some tens of per cent."""


def gaps(chunks: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Gaps in seconds between consecutive chunks of the same request, all requests pooled."""
    ordered = chunks.sort_values(["request", "seq"], kind="stable")
    found = ordered.groupby("request")["t"].diff().dropna()
    return found.to_numpy(dtype=np.float64)


def server_mean(counters: Counters, window: Window) -> float | None:
    """The server's own mean step: growth of its inter-token latency sum / count, seconds."""
    count = counters.delta("vllm:inter_token_latency_seconds_count", window)
    total = counters.delta("vllm:inter_token_latency_seconds_sum", window)
    return total / count if count and total is not None else None


def server_steps(counters: Counters, window: Window) -> int | None:
    """Request-steps after the first token that the server counted in ``window``."""
    count = counters.delta("vllm:inter_token_latency_seconds_count", window)
    return None if count is None else round(count)


def median_beside(seen: npt.NDArray[np.float64], counted: int) -> float | None:
    """The median step of which ``seen`` are the gaps and the server counted ``counted`` steps.

    A gap of j steps hides j - 1, so at most as many gaps as steps are hidden are not one step, and
    the lengths of at most twice as many steps are not known.  Wherever those lie, the median does
    not move further than by so many ranks.  None where that is more than ``MEDIAN_KNOWN`` of it.
    """
    hidden = counted - seen.size
    if not seen.size or hidden < 0:
        return None
    low, high = (counted / 2 - 2 * hidden) / seen.size, (counted / 2 + hidden) / seen.size
    if low < 0 or high > 1:
        return None
    least, middle, most = np.quantile(seen, (low, 0.5, high))
    known = max(middle - least, most - middle) <= MEDIAN_KNOWN * middle
    return float(middle) if known else None


@dataclass(frozen=True)
class Merged:
    """Chunks that carry more than one step of their request."""

    chunks: int
    of: int

    @property
    def share(self) -> float:
        """Of the decode chunks; 0 without any."""
        return self.chunks / self.of if self.of else 0.0


def merged(chunks: pd.DataFrame, k: int | None, drafts: float | None, steps: int | None) -> Merged:
    """Decode chunks that the server, or the way to here, put together from several steps.

    Three witnesses, the largest counts: chunks of more than K+1 tokens, drafts without a decode
    chunk of their own, and steps that the server counted but no chunk shows.  Each is a lower
    bound: two merged one-token steps look like one step with an accepted draft.
    """
    decode = chunks[chunks["seq"] > 0]
    counts = [0]
    if k is not None:
        counts.append(int((decode["tokens"] > k + 1).sum()))
    if drafts is not None:
        counts.append(round(drafts) - len(decode))
    if steps is not None:
        counts.append(steps - len(decode))
    return Merged(max(counts), len(decode))
