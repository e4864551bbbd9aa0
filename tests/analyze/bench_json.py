"""Captured streams of other clients as our records: no kernel stamps, closed loops only."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from synthetic_run import chunks_frame, requests_frame


def slots(starts: list[float], ends: list[float], concurrency: int) -> list[int]:
    """Slot of each request of a closed loop: the one that was free the longest."""
    free = [-1.0] * concurrency
    found = [0] * len(starts)
    for i in sorted(range(len(starts)), key=lambda j: starts[j]):
        found[i] = int(np.argmin(free))
        free[found[i]] = ends[i]
    return found


def vllm_bench(path: Path) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """(requests, chunks, concurrency) of a ``vllm bench serve --save-detailed`` JSON."""
    data: dict[str, Any] = json.loads(path.read_text())
    times = [
        list(start + ttft + np.cumsum([0.0, *itls]))
        for start, ttft, itls in zip(data["start_times"], data["ttfts"], data["itls"], strict=True)
    ]
    return _records(data["start_times"], times, data["output_lens"], data["max_concurrency"])


def h200(path: Path, t0: float = 0.0) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """(requests, chunks, concurrency) of a captured H200 stream (times from each send)."""
    data: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    starts = [t0 + r["start"] for r in data["requests"]]
    times = [[s + t for t, _ in r["chunks"]] for s, r in zip(starts, data["requests"], strict=True)]
    sizes = [np.diff([0, *(n for _, n in r["chunks"])]).tolist() for r in data["requests"]]
    lengths = [int(sum(size)) for size in sizes]
    return _records(starts, times, lengths, int(data["summary"]["c"]), sizes)


def _records(
    starts: list[float],
    times: list[list[float]],
    lengths: list[int],
    concurrency: int,
    sizes: list[list[int]] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    ends = [t[-1] for t in times]
    where = slots(starts, ends, concurrency)
    requests = [
        {
            "index": i, "prompt_id": f"p{i}", "category": "all", "state": "ok", "slot": where[i],
            "t_send": starts[i], "t_first": times[i][0], "t_last": ends[i], "t_done": ends[i],
            "prompt_tokens": 100, "output_tokens": lengths[i], "max_tokens": lengths[i],
            "usage_completion_tokens": lengths[i], "finish_reason": "length",
        }
        for i in range(len(starts))
    ]  # fmt: skip
    chunks = [
        {"request": i, "seq": j, "t": t, "t_user": t, "kernel": False, "shared_read": 1,
         "tokens": sizes[i][j] if sizes else 1}
        for i, each in enumerate(times)
        for j, t in enumerate(each)
    ]  # fmt: skip
    return requests_frame(requests), chunks_frame(chunks), concurrency
