"""COMPILE_CACHE: one side's server started with compiled kernels on disk, the other's without."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze.document import Reason
from specgauge.record.documents import Launch

CODE = "COMPILE_CACHE"


def is_warm(launch: Launch | None) -> bool | None:
    """Whether any of its cache folders held a file before it started; None if none was watched."""
    if launch is None or not launch.cache_before:
        return None
    return any(state.files for state in launch.cache_before)


def check(pairs: Sequence[tuple[Launch | None, Launch | None]]) -> Reason | None:
    """Suspect: the same kernel cost 417 ms cold and 23 ms from the disk.  Pairs as (variant's,
    baseline's)."""
    found = [(is_warm(mine), is_warm(base)) for mine, base in pairs]
    unequal = [(a, b) for a, b in found if None not in (a, b) and a is not b]
    if not unequal:
        return None
    variant_warm = sum(bool(a) for a, _ in unequal)
    side = "the baseline" if variant_warm == 0 else "the variant"
    if 0 < variant_warm < len(unequal):
        side = "now one side, now the other"
    return Reason(
        code=CODE,
        severity="suspect",
        scope="claim",
        detail=f"In {len(unequal)} of {len(found)} rounds only {side} started with compiled "
        "kernels on disk.",
        remedy="'compile_cache: per-variant' (cold in the first round for all, warm after) or "
        "'fresh'; or run once more now that the cache is filled.",
        evidence={"rounds": len(unequal)},
    )
