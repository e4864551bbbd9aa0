"""How a ratio reads: never rounded onto 1 from either side."""

from __future__ import annotations

PLACES = (2, 3, 4)
"""Decimals: two, more where two would turn a difference into none."""


def bound(value: float) -> str:
    """``1.27``; ``0.996``, which two decimals would call 1.00; ``0.0042``."""
    if 0 < value < 0.1:
        return f"{value:.2g}"
    for places in PLACES:
        text = f"{value:,.{places}f}"
        if value == 1 or float(text.replace(",", "")) != 1:
            return text
    return "1.00"


def times(value: float) -> str:
    """``1.27x``."""
    return f"{bound(value)}x"
