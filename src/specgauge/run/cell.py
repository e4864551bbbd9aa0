"""Measures one cell on a running server: quiet, load, quiet, ``cell.json``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from specgauge.config.experiment import Experiment
from specgauge.interrupts import uninterrupted
from specgauge.load.cell import LoadInterrupted, run_load
from specgauge.load.clock import epoch_offset_ns
from specgauge.load.plan import CellPlan, LoadProgress, LoadResult
from specgauge.record.atomic import write_json
from specgauge.record.documents import CellDocument, ClockOffset
from specgauge.record.layout import CellPaths
from specgauge.run.machine import host_load


@dataclass(frozen=True)
class CellPlace:
    """Where a cell belongs."""

    variant: str
    start: int
    load: str
    repeat: int


def measure(
    place: CellPlace,
    plan: CellPlan,
    paths: CellPaths,
    experiment: Experiment,
    was_reset: bool,
    quiet_s: float,
    on_progress: Callable[[LoadProgress], None],
    should_stop: Callable[[], str | None],
) -> CellDocument:
    """Send ``plan`` and record it under ``paths``; ``cell.json`` comes last, so it says "whole".

    ``quiet_s`` on both sides leaves room for a scrape of the counters at rest.

    Raises:
        EnvironmentFault: the records cannot be written.
        KeyboardInterrupt: passed on after the records are written.
    """
    time.sleep(quiet_s)
    before = epoch_offset_ns() / 1e9
    load_before = host_load()
    began = time.monotonic()

    def document(result: LoadResult, error: str | None) -> CellDocument:
        complete = not result.stopped and error is None
        load_after = host_load()
        facts = {f"{name}_before": value for name, value in load_before.items()}
        facts |= {f"{name}_after": value for name, value in load_after.items()}
        return CellDocument(
            variant=place.variant,
            start=place.start,
            load=place.load,
            repeat=place.repeat,
            concurrency=plan.concurrency,
            rate=plan.rate,
            state="complete" if complete else "incomplete",
            error=error,
            planned_requests=len(plan.requests),
            t_begin=began,
            t_go=result.t_go,
            t_end=result.t_end,
            clock=ClockOffset(begin=before, end=epoch_offset_ns() / 1e9),
            clients=result.clients,
            locust_version=result.locust_version,
            locust_exit_code=result.exit_code,
            output_tokens=max(request.max_tokens for request in plan.requests),
            ignore_eos=plan.ignore_eos,
            temperature=plan.temperature,
            prefix_cache=experiment.prefix_cache,
            prefix_cache_was_reset=was_reset,
            host_load=facts,
        )

    try:
        result = run_load(plan, paths, on_progress=on_progress, should_stop=should_stop)
    except LoadInterrupted as stop:
        with uninterrupted():
            write_json(paths.cell, document(stop.result, "interrupted").model_dump(mode="json"))
        raise
    cell = document(result, result.error)
    if cell.state == "complete":
        time.sleep(quiet_s)
    write_json(paths.cell, cell.model_dump(mode="json"))
    return cell
