"""Prefix-cache hit rate of a cell: growth of hits / growth of queries, in tokens."""

from __future__ import annotations

from specgauge.analyze.counters import Counters, Window


def hit_rate(counters: Counters, window: Window) -> float | None:
    """0 to 1; None without the counters or without a query.  Never the log's rolling figure."""
    hits = counters.delta("vllm:prefix_cache_hits_total", window)
    queries = counters.delta("vllm:prefix_cache_queries_total", window)
    return hits / queries if queries and hits is not None else None
