"""The part of ``analysis/summary.json`` that tells of server starts."""

from __future__ import annotations

from specgauge.analyze.part import Part


class Traits(Part):
    """Engine traits of one start, as its log states them."""

    variant: str
    start: int
    vllm_version: str | None
    runner: str | None
    async_scheduling: bool | None
    kv_cache_tokens: int | None
    attention_backend: str | None
    jit_monitor: bool
    cuda_graph_tokens: int | None = None
    """Tokens of the widest captured CUDA graph; null without graphs."""
    cuda_graph_mode: str | None = None
    """``FULL_AND_PIECEWISE``, ``PIECEWISE``, …; null without graphs."""
    ready_s: float | None
    """Seconds from the process's start to its first answer."""


class Start(Part):
    """One server start, complete or not."""

    variant: str
    start: int
    round: int
    role: str
    state: str
    error: str | None
    traits: Traits
