"""Confirmation: what a repeat of a frozen cell on the same server says of its freezes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specgauge.analyze.freezes import Freeze

Word = Literal["CONFIRMED ONE-OFF", "NEW STALL", "RECURS", "UNCONFIRMED"]

BLOCK = 16
"""Tokens of a block of vLLM's prefix cache: two runs of a request may differ by one."""


@dataclass(frozen=True)
class Confirmation:
    """The repeat's word on one cell."""

    word: Word
    why: str


def prefill_agrees(
    original: float | None, repeat: float | None, requests: int, both_reset: bool
) -> bool:
    """Whether the repeat had as many uncached prompt tokens to read, to a block per request.

    ``original``, ``repeat``: by the server's counters; where either is unknown, the cache counts
    as alike if it was emptied before both.
    """
    if original is None or repeat is None:
        return both_reset
    return abs(original - repeat) <= BLOCK * requests


def judge(
    original: Sequence[Freeze], repeat: Sequence[Freeze], prefill_alike: bool
) -> Confirmation:
    """Compare where they stood: phase and batch class (Triton builds each class anew).

    A freeze at the same place RECURS: it belongs to the server.  One elsewhere is a NEW STALL and
    says nothing of the first.  Silence all over confirms a ONE-OFF, if prefill was alike (only
    what stood before a first token depends on it).
    """
    places = {f.where for f in original}
    again = [f for f in repeat if f.where in places]
    if again:
        longest = max(f.seconds for f in again)
        return Confirmation(
            "RECURS", f"the repeat stood still at the same place for {longest:.2f} s: no one-off"
        )
    if repeat:
        new = max(repeat, key=lambda f: f.seconds)
        phase, kind = new.where
        return Confirmation(
            "NEW STALL",
            f"the repeat stood still elsewhere ({phase}, batch {new.silence.running}, "
            f"class {kind}) for {new.seconds:.2f} s: it proves nothing of the first",
        )
    if not prefill_alike and any(not f.silence.decoding for f in original):
        return Confirmation(
            "UNCONFIRMED", "the repeat found another prefix cache than the frozen cell"
        )
    return Confirmation(
        "CONFIRMED ONE-OFF", "a repeat on the same server, with the prefix cache put back, did not"
    )
