"""PREEMPTED: the batch was not as full as the load's name says.

Preemptions throw requests out of the batch and compute them again; requests that wait, or decoding
requests that do not run, make it smaller.
"""

from __future__ import annotations

import numpy as np

from specgauge.analyze import throughput
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "PREEMPTED"

FULL = 0.95
"""Of the slots that must run on average while the batch is full."""
ENTERING_STEPS = 2.0
"""Steps that a slot's next request takes to enter: it is sent when the last chunk has come, and the
step that runs then is over before it is scheduled.  At 100 steps a request that is 2 % of the
slots; at 20 (short answers, a good drafter) a tenth, and no fault of the server."""
MIN_SCRAPES = 5
"""Scrapes inside the full-batch window before its gauges are averaged: a second."""


def check(cell: CellContext) -> Reason | None:
    """Suspect when the server counted preemptions, or its batch was not full when it should be.

    A request that has no token yet and does not wait in the engine's queue is on its way to the
    engine or in its first step, not thrown out: ``front_end`` tells of it.
    """
    if cell.window is None:
        return None
    count = cell.start.counters.delta("vllm:num_preemptions_total", cell.window) or 0
    running, waiting = while_full(cell)
    concurrency = cell.load.concurrency or 0
    turn = entering(cell)
    seen = []
    if count:
        seen.append(f"{round(count)} preemptions: the KV cache was too small for the batch")
    if running is not None and running < FULL * (concurrency - turn - _before_first_token(cell)):
        seen.append(
            f"{running:.1f} of {concurrency} requests were running on average while the batch "
            "should have been full"
        )
    if waiting is not None and waiting > (1 - FULL) * concurrency + turn:
        seen.append(f"{waiting:.1f} requests were waiting on average in that time")
    if not seen:
        return None
    return Reason(
        code=CODE,
        severity="suspect",
        detail="; ".join(seen) + ".",
        remedy="More KV cache (gpu_memory_utilization, kv-cache space), a higher max-num-seqs, "
        "shorter outputs or a lower concurrency.",
        evidence={"preemptions": round(count), "running": running, "waiting": waiting},
    )


def entering(cell: CellContext) -> float:
    """Slots that are empty on average because the next request takes a step or two to enter."""
    steps = float((cell.chunks.groupby("request").size()).median()) if len(cell.chunks) else 0.0
    return (cell.load.concurrency or 0) * ENTERING_STEPS / (steps + ENTERING_STEPS)


def _before_first_token(cell: CellContext) -> float:
    """Requests in flight without a token yet, on average over the cell."""
    ended = cell.requests.dropna(subset=["t_first", "t_last"])
    in_flight = float((ended["t_last"] - ended["t_send"]).sum())
    if in_flight <= 0:
        return 0.0
    waited = float((ended["t_first"] - ended["t_send"]).sum())
    return (cell.load.concurrency or 0) * waited / in_flight


def while_full(cell: CellContext) -> tuple[float | None, float | None]:
    """Mean requests running and waiting over the scrapes in the full-batch window.

    None without such a window, with one slot (between two requests none runs), or too few scrapes.
    """
    span = throughput.full_batch(cell.requests, cell.load.concurrency)
    if span is None or cell.window is None or (cell.load.concurrency or 0) < 2:
        return None, None
    found = []
    for name in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
        times, values = cell.start.counters.sampled(name, cell.window)
        inside = (times >= span.t0) & (times <= span.t1)
        enough = int(inside.sum()) >= MIN_SCRAPES
        found.append(float(np.mean(values[inside])) if enough else None)
    return found[0], found[1]
