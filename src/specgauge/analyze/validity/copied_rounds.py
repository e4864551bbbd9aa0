"""COPIED_ROUNDS: rounds with the very same times as others are no measurements of their own."""

from __future__ import annotations

from specgauge.analyze.document import Reason

CODE = "COPIED_ROUNDS"


def check(measured: int, of: int) -> Reason | None:
    """Suspect for a comparison of which only ``measured`` of ``of`` rounds are no copies."""
    if measured >= of:
        return None
    return Reason(
        code=CODE,
        severity="suspect",
        scope="claim",
        detail=f"{of - measured} of {of} rounds have the times or the ratio of another to a "
        "billionth: no two starts of a server are that alike, so they are copies, and count once.",
        remedy="Look for a start's folder that was copied over another's, or a clock that does "
        "not run; then measure the missing rounds.",
        evidence={"rounds": of, "measured": measured},
    )
