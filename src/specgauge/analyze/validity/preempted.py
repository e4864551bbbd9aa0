"""PREEMPTED: requests were thrown out of the batch and computed again."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "PREEMPTED"


def check(cell: CellContext) -> Reason | None:
    """Suspect when the server counted preemptions inside the cell's window."""
    if cell.window is None:
        return None
    count = cell.start.counters.delta("vllm:num_preemptions_total", cell.window)
    if not count:
        return None
    return Reason(
        code=CODE,
        severity="suspect",
        detail=f"{round(count)} preemptions: the KV cache was too small for the batch.",
        remedy="More KV cache (gpu_memory_utilization, kv-cache space), shorter outputs or a lower "
        "concurrency.",
        evidence={"preemptions": round(count)},
    )
