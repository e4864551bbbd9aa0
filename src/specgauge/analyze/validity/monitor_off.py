"""MONITOR_OFF: nothing in the server watched for compiles."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "MONITOR_OFF"


def check(cell: CellContext) -> Reason | None:
    """Unknown unless the log proves that the JIT monitor was activated (never on a CPU)."""
    if cell.start.traits.jit_monitor:
        return None
    return Reason(
        code=CODE,
        severity="unknown",
        detail="The log does not say that a JIT monitor was activated: compiles would go unnamed.",
        remedy="None on a CPU; on a GPU use vLLM 0.21 or newer without enforce_eager.",
    )
