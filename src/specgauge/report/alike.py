"""Reasons of one kind as one row: where only numbers differ, from the lowest to the highest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from specgauge.analyze.document import Reason
from specgauge.analyze.validity import (
    coalesced,
    cpu_bound,
    degenerate,
    first_call,
    forced_trait,
    front_end,
    lossy,
    server_starved,
    throttled,
    too_few,
    unsteady,
)
from specgauge.report.places import brief

KINDS = frozenset(
    module.CODE
    for module in (coalesced, cpu_bound, degenerate, first_call, forced_trait, front_end, lossy,
                   server_starved, throttled, too_few, unsteady)
)  # fmt: skip
"""Codes that a run may give for every cell alike.  A freeze, a stranger or a mismatch keeps a row
of its own: there each number counts."""

_NUMBER = re.compile(r"(?<![\w.,])[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?=x\b|\W|$)")
"""A number that stands by itself: not the 16 of ``c16``."""

MOST_PLACES = 6
"""Places that a row names; of more it says how many."""


@dataclass(frozen=True)
class Seen:
    """A reason and where it was seen."""

    reason: Reason
    where: tuple[str, ...]

    @property
    def places(self) -> str:
        """``ngram c1, c16 (starts 0 to 2)``; of many the first, and how many more."""
        told = brief(self.where)
        shown = ", ".join(told[:MOST_PLACES])
        more = len(told) - MOST_PLACES
        return f"{shown} and {more} more" if more > 0 else shown


def together(rows: Sequence[Seen]) -> list[Seen]:
    """``rows`` with those of one kind as one, in the place of the first.

    Of one kind: same code (of ``KINDS``), severity, scope and remedy, and the same words.  INVALID
    reasons and judged claims stand by themselves, as their numbers belong together; speed-ups
    before outputs degenerate, which every row may have, follow their places.
    """
    groups: dict[tuple[object, ...], list[Seen]] = {}
    for at, row in enumerate(rows):
        reason = row.reason
        judged = reason.scope == "claim" and reason.severity != "info"
        told_apart = reason.severity == "invalid" or (judged and reason.code != degenerate.CODE)
        kind: tuple[object, ...] = (at,)
        rounds = reason.evidence.get("rounds")
        # Each round's ratio is told there.
        told_apart = told_apart or (isinstance(rounds, int) and rounds > 1)
        if reason.code in KINDS and not told_apart:
            words = _NUMBER.sub("#", reason.detail)
            kind = (reason.code, reason.severity, reason.scope, reason.remedy, words)
        groups.setdefault(kind, []).append(row)
    return [_one(group) for group in groups.values()]


def _one(group: Sequence[Seen]) -> Seen:
    if len(group) == 1:
        return group[0]
    columns = zip(*(_NUMBER.findall(row.reason.detail) for row in group), strict=True)
    spans = iter([_span(column) for column in columns])
    first = group[0].reason
    detail = _NUMBER.sub(lambda _: next(spans), first.detail)
    judged = first.scope == "claim" and first.severity != "info"
    where = dict.fromkeys(
        f"{place} ({', '.join(_NUMBER.findall(row.reason.detail))})" if judged else place
        for row in group
        for place in row.where
    )
    return replace(group[0], reason=first.model_copy(update={"detail": detail}), where=tuple(where))


def _span(texts: Sequence[str]) -> str:
    ordered = sorted(texts, key=lambda text: float(text.replace(",", "")))
    low, high = ordered[0], ordered[-1]
    return low if low == high else f"{low} to {high}"
