"""Which differences are claimed: p-values corrected for how many are claimed at once (Holm)."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze import stats
from specgauge.analyze.document import Comparison

ALPHA = 0.05
"""Family-wise error of the claims in a headline."""


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """``comparisons`` with adjusted p-values and what is significant by them.

    The headline claims are a family, the other observed ones are another.  A freeze taken off
    gives its claim another number, not one more claim: it is adjusted within the headline, in its
    raw one's place.  INVALID rows claim nothing and are no members.
    """
    headline = [i for i, c in enumerate(comparisons) if c.headline]
    others = [i for i, c in enumerate(comparisons) if not c.headline and c.basis == "observed"]
    derived = {
        (c.variant, c.load, c.metric): i for i, c in enumerate(comparisons) if c.basis == "derived"
    }
    adjusted = {**_family(comparisons, headline), **_family(comparisons, others)}
    replaced = [
        derived.get((c.variant, c.load, c.metric), i)
        for i, c in enumerate(comparisons)
        if c.headline
    ]
    # without headline claims (a matched baseline's) they are a family of their own
    of_derived = _family(comparisons, replaced or list(derived.values()))
    adjusted.update({i: p for i, p in of_derived.items() if i in derived.values()})
    return [
        c.model_copy(update={"p_holm": adjusted[i], "significant": adjusted[i] < ALPHA})
        if i in adjusted
        else c
        for i, c in enumerate(comparisons)
    ]


def _family(comparisons: Sequence[Comparison], members: Sequence[int]) -> dict[int, float]:
    """Adjusted p-value by position."""
    known = [
        (i, p)
        for i in members
        if (p := comparisons[i].p) is not None and comparisons[i].verdict != "INVALID"
    ]
    return dict(zip((i for i, _ in known), stats.holm([p for _, p in known]), strict=True))
