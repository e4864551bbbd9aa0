"""COALESCED: chunks that hold more than one step of their request."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "COALESCED"

LIMIT = 0.01
"""Share of merged decode chunks below which step figures stay within 1 %."""


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
        f"({merged.share:.1%}): take step latency from the server's own mean, and tokens per step "
        "and coverage as too high.",
        remedy="None needed for throughput, TTFT and TPOT.",
        evidence={"merged": merged.chunks, "decode_chunks": merged.of},
    )
