"""SHORT_REQUESTS: between requests this short even a healthy client's turn-around shows."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.validity import client_starved
from specgauge.analyze.validity.client_starved import COST_LIMIT, ordinary_s

CODE = "SHORT_REQUESTS"


def check(cell: CellContext) -> Reason | None:
    """Suspect when turn-arounds of an ordinary length make up more than 1 % of the cell.

    Longer ones are CLIENT_STARVED's.
    """
    found = client_starved.of_cell(cell)
    if found.turn_around <= COST_LIMIT or found.cost > COST_LIMIT:
        return None
    latencies = cell.latencies["e2e"]
    mean_ms = float(latencies.mean()) * 1000 if len(latencies) else None
    length = f" of {mean_ms:.1f} ms" if mean_ms is not None else ""
    closed = found.idle_share is not None
    between = "between a request's end and the next one's send" if closed else "before the sends"
    held = "throughput, on every side alike" if closed else "latencies from the schedule"
    return Reason(
        code=CODE,
        severity="suspect",
        detail=f"With requests{length} the client's ordinary turn-around (mostly within "
        f"{ordinary_s(cell.load.concurrency) * 1000:g} ms {between}) is {found.turn_around:.1%} of "
        f"the cell: it is in {held}.",
        remedy="Longer outputs; else compare TTFT and E2E from the send, which do not hold it.",
        evidence={"share": found.turn_around, "e2e_mean_ms": mean_ms},
    )
