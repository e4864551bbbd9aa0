"""Where something was seen, in few words: ``ngram c1, c4 (starts 0 to 2)``."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CELL = re.compile(r"(?P<variant>[^\s,()]+) (?P<load>[^\s,()]+)(?: start (?P<start>\d+))?")


def place(variant: str, load: str, start: int | None) -> str:
    """``ngram c16 start 1``; without a start where its variant has one only."""
    return f"{variant} {load}" + (f" start {start}" if start is not None else "")


def brief(where: Sequence[str]) -> list[str]:
    """``where`` with a variant's loads of the same starts as one entry, by first appearance.

    Entries that are no cell's (``run``, a comparison, a judged figure) stay as they are.
    """
    starts: dict[tuple[str, str], set[int]] = {}
    bare: dict[tuple[str, str], None] = {}
    order: dict[str, None] = {}
    for entry in where:
        found = _CELL.fullmatch(entry)
        order.setdefault(found["variant"] if found else entry)
        if found and found["start"] is not None:
            starts.setdefault((found["variant"], found["load"]), set()).add(int(found["start"]))
        elif found:
            bare.setdefault((found["variant"], found["load"]))
    told: list[str] = []
    for name in order:
        loads: dict[str, list[str]] = {}
        for variant, load in bare:
            if variant == name:
                loads.setdefault("", []).append(load)
        for (variant, load), seen in starts.items():
            if variant == name:
                loads.setdefault(f" ({_starts(sorted(seen))})", []).append(load)
        told += [f"{name} {', '.join(of)}{which}" for which, of in loads.items()] or [name]
    return told


def _starts(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"start {numbers[0]}"
    whole = list(numbers) == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2
    return "starts " + (f"{numbers[0]} to {numbers[-1]}" if whole else ", ".join(map(str, numbers)))
