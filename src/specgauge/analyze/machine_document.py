"""The shape of what a cell's machine told of itself: GPU and CPU."""

from __future__ import annotations

from specgauge.analyze.part import Part


class GpuFigures(Part):
    """What the GPU told while the cell ran, from the first send to the last chunk."""

    energy_j: float | None
    """Of the whole card, its idle draw included."""
    energy_from: str | None
    """``energy counter`` or ``integral of power``."""
    power_w: float | None
    """Energy / duration."""
    sm_clock_mhz: float | None
    """Mean over the samples."""
    temperature_c: float | None  # highest
    utilisation: float | None
    memory_used: float | None
    """Bytes, highest, whoever used them."""
    throttle: dict[str, float] = {}
    """Why the clocks were not at their highest, in words → share of the samples."""


class CpuFigures(Part):
    """CPU time that the cell's output cost, and how long a resting server took for an answer.

    API server and client do the same work for a token whatever the engine does; the engine's own
    thread may spin while the GPU works, so its CPU time says nothing of the CPU's speed.  Waking up
    for each step is part of that work and costs more after a longer sleep: on one idle machine,
    steps twice as long raised both by a quarter to a third.  The resting server's answers know
    nothing of steps.
    """

    bracket_s: float | None = None
    """Between the samples of the accounts around first send and last chunk."""
    engine_share: float | None = None
    """Of first send to last chunk that the busiest main thread of the engine was on a CPU, working
    or spinning.  It sleeps outside of them."""
    api_server_s_per_token: float | None = None
    """CPU seconds of the API server's main thread over the bracket / output tokens."""
    client_s_per_token: float | None = None
    """CPU seconds of the load generator from the start barrier to its end / output tokens."""
    rest_answer_ms: float | None = None
    """Geometric mean time of the scrapes of /metrics with no request under way, in the moments
    before the first send and after the last chunk; null with fewer than eight."""
    rest_answer_error: float | None = None
    """Its standard error, relative."""
