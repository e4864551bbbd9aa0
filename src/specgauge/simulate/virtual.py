"""The engine on a virtual clock: many planted cells in no time, with the same records of truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specgauge.simulate.engine import Emission, Engine, Step
from specgauge.simulate.request import Request


@dataclass(frozen=True)
class VirtualStep:
    """A step that has passed: from ``step.t_begin`` to ``t_end``, both virtual seconds."""

    step: Step
    t_end: float
    emissions: tuple[Emission, ...]


def run_closed(
    engine: Engine,
    make_request: Callable[[int, float], Request],
    requests: int,
    concurrency: int,
    *,
    t_begin: float = 0.0,
) -> list[VirtualStep]:
    """A closed load: ``concurrency`` requests in flight until ``requests`` are done.

    Args:
        engine: a fresh engine, or one that has already run.
        make_request: index and arrival time to the request.
        requests: how many in all.
        concurrency: how many at once.
        t_begin: virtual time of the first arrivals.
    """
    now = t_begin
    sent = 0
    while sent < min(concurrency, requests):
        engine.submit(make_request(sent, now))
        sent += 1
    passed: list[VirtualStep] = []
    while engine.active:
        step = engine.plan(now)
        now += step.duration_s
        emissions = engine.finish(step, now)
        passed.append(VirtualStep(step, now, tuple(emissions)))
        for emission in emissions:
            if emission.finished and sent < requests:
                engine.submit(make_request(sent, now))
                sent += 1
    return passed
