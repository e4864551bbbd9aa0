"""PREEMPTED: the batch was not as full as the load's name says.

Preemptions throw requests out of the batch and compute them again; requests that wait, or decoding
requests that do not run, make it smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specgauge.analyze import throughput
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "PREEMPTED"

Floats = npt.NDArray[np.float64]

FULL = 0.95
"""Of the decoding requests that must run, and of the slots that may not wait, while the batch is
full.  A gauge read at a moment is held against the requests of that moment: in 40 cells on an H200
it was nowhere more than 0.5 % below them, while over a cell of two seconds, whose requests come and
go in step with the scrapes, the gauge's mean alone said 13 of 16."""
ENTERING_STEPS = 2.0
"""Steps that a slot's next request takes to enter: it is sent when the last chunk has come, and the
step that runs then is over before it is scheduled.  At 100 steps a request that is 2 % of the
slots; at 20 (short answers, a good drafter) a tenth, and no fault of the server."""
_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
MIN_SCRAPES = 5
"""Scrapes inside the full-batch window before its gauges are averaged: a second."""


@dataclass(frozen=True)
class Batch:
    """Means over scrapes of a full batch; None where the server did not say or too seldom."""

    running: float | None = None
    waiting: float | None = None
    decoding: float = 0.0
    """Requests that, by the client's times, had their first token and not yet their last."""


def check(cell: CellContext) -> Reason | None:
    """Suspect when the server counted preemptions, or its batch was not full when it should be.

    A request that has no token yet and does not wait in the engine's queue is on its way to the
    engine or in its first step, not thrown out: ``front_end`` tells of it.
    """
    if cell.window is None:
        return None
    count = cell.start.counters.delta("vllm:num_preemptions_total", cell.window) or 0
    count = max(count, 0)  # a counter may begin anew
    batch = while_full(cell)
    concurrency = cell.load.concurrency or 0
    seen = []
    if count:
        seen.append(f"{round(count)} preemptions: the KV cache was too small for the batch")
    if batch.running is not None and batch.running < FULL * batch.decoding:
        seen.append(
            f"{batch.running:.1f} requests were running on average while the batch should have "
            f"been full, of {batch.decoding:.1f} that had their first token and not yet their last"
        )
    if batch.waiting is not None and batch.waiting > (1 - FULL) * concurrency + entering(cell):
        seen.append(f"{batch.waiting:.1f} requests were waiting on average in that time")
    if not seen:
        return None
    return Reason(
        code=CODE,
        severity="suspect",
        detail="; ".join(seen) + ".",
        remedy="More KV cache (gpu_memory_utilization, kv-cache space), a higher max-num-seqs, "
        "shorter outputs or a lower concurrency.",
        evidence={
            "preemptions": round(count),
            "running": batch.running,
            "decoding": batch.decoding if batch.running is not None else None,
            "waiting": batch.waiting,
        },
    )


def entering(cell: CellContext) -> float:
    """Slots that are empty on average because the next request takes a step or two to enter."""
    steps = float((cell.chunks.groupby("request").size()).median()) if len(cell.chunks) else 0.0
    return (cell.load.concurrency or 0) * ENTERING_STEPS / (steps + ENTERING_STEPS)


def while_full(cell: CellContext) -> Batch:
    """The batch at the scrapes in the full-batch window.

    Empty without such a window, with one slot (between two requests none runs), or too few scrapes.
    """
    span = throughput.full_batch(cell.requests, cell.load.concurrency)
    if span is None or cell.window is None or (cell.load.concurrency or 0) < 2:
        return Batch()
    sampled = [cell.start.counters.sampled(name, cell.window) for name in (_RUNNING, _WAITING)]
    inside = [_between(*s, span.t0, span.t1) for s in sampled]
    enough = [float(np.mean(v)) if v.size >= MIN_SCRAPES else None for _, v in inside]
    return Batch(enough[0], enough[1], _decoding(cell, inside[0][0]))


def _between(times: Floats, values: Floats, t0: float, t1: float) -> tuple[Floats, Floats]:
    kept = (times >= t0) & (times <= t1)
    return times[kept], values[kept]


def _decoding(cell: CellContext, times: Floats) -> float:
    ended = cell.requests.dropna(subset=["t_first", "t_last"])
    firsts = np.sort(ended["t_first"].to_numpy(dtype=np.float64))
    lasts = np.sort(ended["t_last"].to_numpy(dtype=np.float64))
    begun = np.searchsorted(firsts, times, side="right")
    over = np.searchsorted(lasts, times, side="right")
    return float(np.mean(begun - over)) if times.size else 0.0
