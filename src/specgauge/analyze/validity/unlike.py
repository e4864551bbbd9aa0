"""UNLIKE: the two sides of a comparison differ in something that somebody chose."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze import fingerprint
from specgauge.analyze.document import Reason
from specgauge.analyze.fingerprint import Fingerprint

CODE = "UNLIKE"


def check(pairs: Sequence[tuple[Fingerprint, Fingerprint]]) -> Reason | None:
    """Invalid for the comparison; names the differences.  ``pairs``: (variant's, baseline's)."""
    found = dict.fromkeys(
        text for mine, base in pairs for text in fingerprint.differences(mine, base)
    )
    if not found:
        return None
    return Reason(
        code=CODE,
        severity="invalid",
        scope="claim",
        detail="The sides differ beside the draft: " + "; ".join(found) + ".",
        remedy="Give both sides the same setting; what a method forces belongs into a matched "
        "baseline (matched_baseline).",
        evidence={"differences": len(found)},
    )
