"""FOREIGN_TRAFFIC: the server counted requests or tokens that are not ours.

A request counts as finished when it ends.  Anybody else's that was served in the cell's window has
either ended in it (``requests``), or was still in flight when it closed, or was given up by its
client (vLLM counts no end then).  The last two leave tokens that nobody here asked for, and one of
two traces: prompt tokens beyond ours, or a request running or waiting while none of ours was.
"""

from __future__ import annotations

from dataclasses import dataclass

from specgauge.analyze.context import CellContext
from specgauge.analyze.counters import Counters
from specgauge.analyze.document import Reason

CODE = "FOREIGN_TRAFFIC"

IN_FLIGHT = ("vllm:num_requests_running", "vllm:num_requests_waiting")

_REMEDY = "Give the server a port that nobody else uses, then run again."


@dataclass(frozen=True)
class Foreign:
    """What the server counted beyond what was sent."""

    requests: int
    """Ended in the window."""
    prompt_tokens: int
    output_tokens: int = 0
    """0 too where one of ours did not end well: what it got is not known."""
    before: int = 0
    """In flight at the last scrape before the cell, when none of ours was."""
    after: int = 0
    """The same after its last request's end; 0 where one of ours did not end well."""

    @property
    def unfinished(self) -> bool:
        """Tokens of requests whose end was not counted, with a trace of such a request.

        Without the trace tokens are only miscounted (TOKEN_MISMATCH).
        """
        return self.output_tokens > 0 and (self.prompt_tokens + self.before + self.after) > 0

    @property
    def present(self) -> bool:
        """Whether anybody else's request took part of the server's steps."""
        return self.requests > 0 or self.unfinished


def foreign(cell: CellContext) -> Foreign | None:
    """The surplus over the cell's window; None where the counters or the scrapes are missing.

    One of ours that failed may or may not be among the requests that ended, so that surplus is
    taken over all that were sent; where not all are on record, over all that were planned.
    """
    window, counters = cell.whole_window, cell.start.counters
    if window is None:
        return None
    finished = counters.delta("vllm:request_success_total", window)
    prompts = counters.delta("vllm:prompt_tokens_total", window)
    if finished is None or prompts is None:
        return None
    sent = cell.requests[cell.requests["t_send"].notna()]
    # as the server counted ours, where it told: a prompt that it lengthened is nobody else's
    read = int(sent["usage_prompt_tokens"].fillna(sent["prompt_tokens"]).sum())
    recorded = len(sent) >= cell.load.requests
    known = recorded and bool((cell.requests["state"] == "ok").all())
    generated = counters.delta("vllm:generation_tokens_total", window) if known else None
    ours = int(cell.requests["output_tokens"].sum())
    return Foreign(
        max(round(finished) - max(len(sent), cell.load.requests), 0),
        max(round(prompts) - read, 0),
        max(round(generated) - ours, 0) if generated is not None else 0,
        _in_flight(counters, window.t0),
        _in_flight(counters, window.t1) if known else 0,
    )


def _in_flight(counters: Counters, t: float) -> int:
    """Requests running or waiting at ``t``; 0 where the server did not tell."""
    return sum(round(counters.at(name, t) or 0) for name in IN_FLIGHT)


def check(cell: CellContext) -> Reason | None:
    """Invalid when anybody else's request was served inside the cell's window.

    Info when one was in flight after the cell and nothing of it was counted: it may have come
    after ours had ended.
    """
    found = foreign(cell)
    if found is None:
        return None
    if found.requests:
        return Reason(
            code=CODE,
            severity="invalid",
            detail=f"The server finished {found.requests} requests and read {found.prompt_tokens} "
            "prompt tokens that this load did not send.",
            remedy=_REMEDY,
            evidence={"requests": found.requests, "prompt_tokens": found.prompt_tokens},
        )
    if not found.unfinished and not found.after:
        return None
    evidence = {"requests": 0, "prompt_tokens": found.prompt_tokens,
                "output_tokens": found.output_tokens, "in_flight_before": found.before,
                "in_flight_after": found.after}  # fmt: skip
    if found.unfinished:
        return Reason(
            code=CODE,
            severity="invalid",
            detail=f"The server generated {found.output_tokens} tokens that this load did not ask "
            f"for, and {_trace(found)}: somebody else's request that had not ended, or was given "
            "up.",
            remedy=_REMEDY,
            evidence=evidence,
        )
    return Reason(
        code=CODE,
        severity="info",
        detail=f"{found.after} requests that are not ours were in flight just after the cell; no "
        "token of theirs was counted in it.",
        remedy="None needed for this cell. Give the server a port that nobody else uses.",
        evidence=evidence,
    )


def _trace(found: Foreign) -> str:
    """What tells that the tokens are somebody's."""
    sides = [f"{count} {side}" for count, side in
             ((found.before, "before its first request"), (found.after, "after its last"))
             if count]  # fmt: skip
    seen = [f"read {found.prompt_tokens} prompt tokens that it did not send"]
    return " and ".join(
        [*(seen if found.prompt_tokens else []),
         *([f"had requests in flight ({', '.join(sides)})"] if sides else [])]
    )  # fmt: skip
