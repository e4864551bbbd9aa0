"""Latencies of requests: TTFT, E2E and TPOT, in seconds, one value a request.

n = output tokens of the request, n1 = tokens in its first chunk:
TTFT = first chunk - send; E2E = last chunk - send; TPOT = (E2E - TTFT) / (n - n1).
For open loads TTFT and E2E are also taken from the scheduled arrival, so that a client or a queue
that sends late is not forgiven.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from specgauge.analyze.records import SloSetup


def per_request(requests: pd.DataFrame, chunks: pd.DataFrame) -> pd.DataFrame:
    """Latencies of the requests that ended well.

    Returns:
        One row per ``ok`` request, indexed by its ``index``: ``prompt_id``, ``category``,
        ``ttft``, ``e2e``, ``tpot`` (seconds; NaN where it has no token after its first chunk),
        ``ttft_scheduled``, ``e2e_scheduled`` (NaN for closed loads), ``output_tokens``,
        ``first_tokens``.
    """
    ok = requests[requests["state"] == "ok"].set_index("index").sort_index()
    first = chunks[chunks["seq"] == 0].drop_duplicates("request").set_index("request")["tokens"]
    first_tokens = first.reindex(ok.index).astype(np.float64)
    send = ok["t_send"].astype(np.float64)
    begin, end = ok["t_first"].astype(np.float64), ok["t_last"].astype(np.float64)
    scheduled = ok["t_scheduled"].astype(np.float64)
    later = (ok["output_tokens"].astype(np.float64) - first_tokens).where(lambda n: n > 0)
    return pd.DataFrame(
        {
            "prompt_id": ok["prompt_id"],
            "category": ok["category"],
            "ttft": begin - send,
            "e2e": end - send,
            "tpot": (end - begin) / later,
            "ttft_scheduled": begin - scheduled,
            "e2e_scheduled": end - scheduled,
            "output_tokens": ok["output_tokens"],
            "first_tokens": first_tokens,
        }
    )


@dataclass(frozen=True)
class Goodput:
    """Requests that met every limit."""

    met: int
    of: int
    per_s: float | None
    """Requests per second that met them."""


def goodput(latencies: pd.DataFrame, slo: SloSetup, planned: int, duration_s: float) -> Goodput:
    """How many of ``planned`` requests met ``slo``; TTFT and E2E count from the schedule.

    A request that failed or was never sent has not met it.  A request of a single chunk has no
    TPOT and cannot break that limit.
    """
    met = pd.Series(True, index=latencies.index)
    for column, limit in (
        ("ttft_scheduled", slo.ttft_ms),
        ("e2e_scheduled", slo.e2e_ms),
    ):
        if limit is not None:
            met &= latencies[column] * 1000 <= limit
    if slo.tpot_ms is not None:
        met &= ~(latencies["tpot"] * 1000 > slo.tpot_ms)
    count = int(met.sum())
    return Goodput(count, planned, count / duration_s if duration_s > 0 else None)
