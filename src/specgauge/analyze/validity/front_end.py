"""FRONT_END: requests in flight that the engine did not have."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.validity.preempted import FULL, entering, while_full

CODE = "FRONT_END"

_QUEUED, _RUNNING = "vllm:request_queue_time_seconds", "vllm:request_inference_time_seconds"
"""Histograms of one sample a request: queued until scheduled, scheduled until its last token."""


def check(cell: CellContext) -> Reason | None:
    """Info when more than 5 % of the load's requests were neither in the batch nor in the queue.

    They were with the API server (HTTP, tokenizer, writing out tokens), which one process does for
    all: with a small model on a fast GPU it, not the model, sets the pace, and a drafter has less
    to save than the step times say.
    """
    batch = while_full(cell)
    running, waiting = batch.running, batch.waiting
    concurrency = cell.load.concurrency or 0
    if running is None or waiting is None:
        return None
    timed = _outside_by_times(cell)
    outside = concurrency - running - waiting if timed is None else concurrency * timed
    if outside - entering(cell) <= (1 - FULL) * concurrency:
        return None
    inside = (
        f"{running:.1f} were in the engine's batch and {waiting:.1f} in its queue"
        if timed is None
        else f"{concurrency - outside:.1f} were in the engine's batch or queue, by its own times,"
    )
    return Reason(
        code=CODE,
        severity="info",
        detail=f"Of {concurrency} requests in flight {inside} on average; {outside:.1f} were with "
        f"the API server ({outside / concurrency:.0%} of their time).",
        remedy="None needed: read the concurrency as that of the clients. Longer answers, a larger "
        "model or more API servers (--api-server-count) fill the batch.",
        evidence={"running": running, "waiting": waiting, "outside": outside},
    )


def _outside_by_times(cell: CellContext) -> float | None:
    """Share of the requests' time that the engine did not have them; None where it did not time it.

    The client's seconds in flight less the engine's own (queued and running), both over the cell.
    The gauges say it too, and too high: a few scrapes a second miss short batches, and in a step
    that reads long prompts the requests that arrive are counted nowhere.  On an H200 they said 9 %
    of a 32B model at c64 where the times said 3 %, and 15 % of a 135M one where these said 7 %.
    """
    if cell.window is None or not cell.window.closed:
        return None
    counters = cell.start.counters
    counted = counters.delta(f"{_RUNNING}_count", cell.window)
    parts = [counters.delta(f"{name}_sum", cell.window) for name in (_QUEUED, _RUNNING)]
    ended = cell.requests.dropna(subset=["t_send", "t_last"])
    in_flight = float((ended["t_last"] - ended["t_send"]).sum())
    if None in parts or counted != len(ended) or len(ended) != len(cell.requests):
        return None
    held = sum(part or 0.0 for part in parts)
    return max(1 - held / in_flight, 0.0) if in_flight > 0 else None
