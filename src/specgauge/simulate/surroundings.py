"""What is planted around the engine: loading, stopping, spread of times, wording of the log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from specgauge.simulate.base import TruthPart


class Loading(TruthPart):
    """From process start to readiness.  The port refuses connections until then."""

    load_s: float = Field(default=0.0, ge=0)
    never_ready: Literal["refused", "503"] | None = None
    reject_flags: list[str] = []
    """Command-line flags that this "version" does not know: usage error, exit 2."""


class Stopping(TruthPart):
    """What happens at SIGTERM."""

    ignore_term: bool = False
    delay_s: float = Field(default=0.0, ge=0)
    exit_code: int = 0
    leave_child: bool = False
    """A child process that ignores TERM and outlives the server (it ends after 10 minutes)."""
    children: int = Field(default=0, ge=0)
    """Child processes that end with TERM, as vLLM's engine core and workers do."""


class Noise(TruthPart):
    """Spread of the step times."""

    step_cv: float = Field(default=0.0, ge=0, lt=1)
    """Standard deviation of a step's time over its mean (normal, cut at 3 sigma)."""
    start_cv: float = Field(default=0.0, ge=0, lt=1)
    """The same for one factor per process: two starts differ."""
    start_seed: int | None = None
    """Fixes those factors; null: another one in every process."""
    start_factors: list[float] | None = None
    """Instead: the factor of each start, in turn (counted in ``SPECGAUGE_SIM_STARTS``)."""
    drift_per_minute: float = 0.0
    """Steps become longer by this share per minute: a machine that throttles."""


class LogStyle(TruthPart):
    """How the log is worded: vLLM's versions and devices differ."""

    device: Literal["GPU", "CPU"] = "GPU"
    jit_monitor: bool = True
    """The line which proves that the JIT monitor watches."""
    interval_s: float | None = Field(default=None, gt=0)
    """Of the throughput lines; null: ``VLLM_LOG_STATS_INTERVAL``, else 10."""
    access: bool = True
    undrafted: Literal["absent", "nan"] = "absent"
    """A window in which nothing was drafted: no SpecDecoding line, or one with ``nan``."""
    wording: Literal["0.9", "0.27", "0.32"] = "0.32"
    """Below 0.32 the KV cache has two lines; 0.9 words the SpecDecoding line differently."""
    routes: bool = True
    """List the routes at start-up."""
