"""FOREIGN_TRAFFIC: the server counted requests or prompt tokens that are not ours."""

from __future__ import annotations

from dataclasses import dataclass

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "FOREIGN_TRAFFIC"


@dataclass(frozen=True)
class Foreign:
    """What the server counted beyond what was sent."""

    requests: int
    prompt_tokens: int


def foreign(cell: CellContext) -> Foreign | None:
    """The surplus over the cell's window; None where the counters or the scrapes are missing.

    Requests count when they finish: one of ours that failed may or may not be among them, so the
    surplus is taken over all that were sent.
    """
    window = cell.window
    if window is None or not window.closed:
        return None
    finished = cell.start.counters.delta("vllm:request_success_total", window)
    prompts = cell.start.counters.delta("vllm:prompt_tokens_total", window)
    if finished is None or prompts is None:
        return None
    sent = cell.requests[cell.requests["t_send"].notna()]
    return Foreign(
        max(round(finished) - len(sent), 0),
        max(round(prompts) - int(sent["prompt_tokens"].sum()), 0),
    )


def check(cell: CellContext) -> Reason | None:
    """Invalid when anybody else's request was served inside the cell's window."""
    found = foreign(cell)
    if found is None or not found.requests:
        return None
    return Reason(
        code=CODE,
        severity="invalid",
        detail=f"The server finished {found.requests} requests and read {found.prompt_tokens} "
        "prompt tokens that this load did not send.",
        remedy="Give the server a port that nobody else uses, then run again.",
        evidence={"requests": found.requests, "prompt_tokens": found.prompt_tokens},
    )
