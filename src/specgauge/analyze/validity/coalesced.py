"""COALESCED: chunks that hold more than one step of their request."""

from __future__ import annotations

from specgauge.analyze import steps
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "COALESCED"

LIMIT = steps.MERGED_LIMIT


def check(cell: CellContext) -> Reason | None:
    """Suspect for the step figures alone: they then come from the server."""
    merged = cell.merged
    if merged.share <= LIMIT:
        return None
    return Reason(
        code=CODE,
        severity="suspect",
        scope="step",
        detail=f"At least {merged.chunks} of {merged.of} decode chunks hold several steps "
        f"({merged.share:.1%}): "
        + (
            "step latency, tokens per step and coverage are by the server's own count of steps."
            if cell.steps_by_server
            else "step latency, tokens per step and coverage are too high, and nothing else tells."
        ),
        remedy="None needed for throughput, TTFT and TPOT.",
        evidence={"merged": merged.chunks, "decode_chunks": merged.of},
    )
