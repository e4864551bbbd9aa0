"""TOO_FEW: a claim without the samples or rounds for it is struck; nothing else is."""

from __future__ import annotations

from specgauge.analyze import throughput
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.stats import MIN_ROUNDS, samples_for

CODE = "TOO_FEW"

PERCENTILES = (0.5, 0.9, 0.99)


def check(cell: CellContext) -> Reason | None:
    """Names the percentiles and the full-batch throughput that lack requests."""
    requests = len(cell.latencies)
    struck = [f"p{q * 100:g} ({samples_for(q)})" for q in PERCENTILES if requests < samples_for(q)]
    concurrency = cell.load.concurrency
    if concurrency and len(cell.requests) < throughput.FULL_BATCH_REQUESTS * concurrency:
        needed = throughput.FULL_BATCH_REQUESTS * concurrency
        struck.append(f"full-batch throughput ({needed})")
    if not struck:
        return None
    return Reason(
        code=CODE,
        severity="info",
        scope="claim",
        detail=f"Not given for {requests} requests (needed): {', '.join(struck)}.",
        remedy="More requests in the load.",
        evidence={"requests": requests},
    )


def rounds(count: int) -> Reason | None:
    """Strikes win and loss from a comparison of fewer than three rounds."""
    if count >= MIN_ROUNDS:
        return None
    return Reason(
        code=CODE,
        severity="info",
        scope="claim",
        detail=f"{count} round{'s' if count != 1 else ''}: a point, no interval; neither a win nor "
        "a loss is claimed.",
        remedy=f"At least {MIN_ROUNDS} rounds; five resolve about 2 %.",
        evidence={"rounds": count},
    )
