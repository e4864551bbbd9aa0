"""Arrival times of open loads."""

from __future__ import annotations

import random


def poisson(rate: float, n: int, seed: int) -> list[float]:
    """Times of ``n`` Poisson arrivals at ``rate`` per second, in seconds from the start barrier.

    The first arrival is at 0: the process is observed from its first request on, so that the
    offered rate is (n - 1) / (last - first).  The same seed gives the same times, whatever the
    machine; scaled times for another rate.

    Raises:
        ValueError: ``rate`` is not positive.
    """
    if not rate > 0:
        raise ValueError(f"an arrival rate must be positive, not {rate}")
    source = random.Random(seed)
    times, now = [], 0.0
    for _ in range(n):
        times.append(now)
        now += source.expovariate(1.0) / rate
    return times
