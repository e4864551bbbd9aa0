"""Loads: closed (a fixed number of requests in flight) or open (Poisson arrivals)."""

from __future__ import annotations

from pydantic import Field, model_validator

from specgauge.config.base import StrictModel


class Load(StrictModel):
    """One way of sending the workload: give ``concurrency`` or ``rate``, not both."""

    requests: int = Field(gt=0)
    """Requests in the cell; each is sent exactly once."""
    concurrency: int | None = Field(default=None, gt=0)
    """Closed loop: requests in flight; a slot sends its next request when its last is done."""
    rate: float | None = Field(default=None, gt=0)
    """Open loop: mean arrivals per second, exponential gaps (Poisson), whatever the server does."""
    workers: int = Field(default=0, ge=0)
    """Locust worker processes under a master; 0 = one Locust process does it all."""

    @model_validator(mode="after")
    def _one_kind(self) -> Load:
        if (self.concurrency is None) == (self.rate is None):
            raise ValueError("give either 'concurrency' (closed loop) or 'rate' (open loop)")
        if self.workers and self.concurrency and self.concurrency % self.workers:
            raise ValueError(
                "'workers' must divide 'concurrency': each worker sends an equal share of the "
                "requests, so with fewer slots one would end later than the others"
            )
        return self

    @property
    def name(self) -> str:
        """``c16`` for a closed load, ``r4.0`` for an open one."""
        if self.concurrency is not None:
            return f"c{self.concurrency}"
        assert self.rate is not None
        return f"r{float(self.rate)}"
