"""ACCEPTANCE_MISMATCH: accepted draft tokens by the server's counters and by the stream differ."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.validity import coalesced
from specgauge.analyze.validity.foreign_traffic import foreign

CODE = "ACCEPTANCE_MISMATCH"


def check(cell: CellContext) -> Reason | None:
    """Suspect for the step figures alone, when more than cut tails and merged chunks is missing.

    Not where something else explains it: requests that did not end well, somebody else's requests
    (FOREIGN_TRAFFIC), chunks merged above COALESCED's limit.
    """
    seen = cell.acceptance_check
    if seen is None or seen.agrees or (cell.requests["state"] != "ok").any():
        return None
    others = foreign(cell)
    if cell.merged.share > coalesced.LIMIT or (others is not None and others.present):
        return None
    return Reason(
        code=CODE,
        severity="suspect",
        scope="step",
        detail=f"The server accepted {seen.accepted_server:.0f} draft tokens, the stream shows "
        f"{seen.accepted_stream:.0f}; cut tails explain at most {seen.tail_allowed:.0f}"
        + (f", merged chunks {seen.merged}" if seen.merged else "")
        + ": acceptance length, coverage and tokens per step do not fit together.",
        remedy="None needed for throughput, TTFT and TPOT. Look for a counter that another version "
        "of vLLM counts otherwise, or for a proxy that regroups the stream.",
        evidence={
            "accepted_server": seen.accepted_server,
            "accepted_stream": seen.accepted_stream,
            "tail_allowed": seen.tail_allowed,
        },
    )
