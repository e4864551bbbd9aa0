"""FRONT_END: requests in flight that the engine did not have."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.validity.preempted import FULL, entering, while_full

CODE = "FRONT_END"


def check(cell: CellContext) -> Reason | None:
    """Info when more than 5 % of the load's requests were neither in the batch nor in the queue.

    They were with the API server (HTTP, tokenizer, writing out tokens), which one process does for
    all: with a small model on a fast GPU it, not the model, sets the pace, and a drafter has less
    to save than the step times say.
    """
    running, waiting = while_full(cell)
    concurrency = cell.load.concurrency or 0
    if running is None or waiting is None:
        return None
    outside = concurrency - running - waiting
    if outside - entering(cell) <= (1 - FULL) * concurrency:
        return None
    return Reason(
        code=CODE,
        severity="info",
        detail=f"Of {concurrency} requests in flight {running:.1f} were in the engine's batch and "
        f"{waiting:.1f} in its queue on average; {outside:.1f} were with the API server "
        f"({outside / concurrency:.0%} of their time).",
        remedy="None needed: read the concurrency as that of the clients. Longer answers, a larger "
        "model or more API servers (--api-server-count) fill the batch.",
        evidence={"running": running, "waiting": waiting, "outside": outside},
    )
