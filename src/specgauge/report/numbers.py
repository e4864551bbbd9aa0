"""How numbers look: one place for digits, units, dashes and verdict words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specgauge.analyze import words
from specgauge.analyze.claims import ALPHA
from specgauge.analyze.document import Cell, Comparison
from specgauge.analyze.part import Verdict

MISSING = "–"


def number(value: float | None, digits: int) -> str:
    """With ``digits`` decimals, or a dash."""
    return MISSING if value is None else f"{value:,.{digits}f}"


def rate(value: float | None) -> str:
    """Tokens per second: one decimal below 1000, more below 1, none above."""
    if value is None:
        return MISSING
    return number(value, _small(value, 1) if value < 1000 else 0)


def _small(value: float, digits: int) -> int:
    """Decimals: ``digits``, or as many as leave two digits of a value far below 1."""
    return digits if value >= 0.1 or value <= 0 else digits + 2 if value >= 0.001 else digits + 4


def milliseconds(value: float | None) -> str:
    """Two decimals below 10 ms, one below 1000, else none."""
    if value is None:
        return MISSING
    return number(value, _small(value, 2) if value < 10 else 1 if value < 1000 else 0)


def joules(value: float | None) -> str:
    """Three significant digits: energies per token span three orders of magnitude."""
    if value is None or value <= 0:
        return number(value, 0)
    return number(value, max(2 - math.floor(math.log10(value)), 0))


def percent(value: float | None) -> str:
    """A share (0 to 1) in percent."""
    return MISSING if value is None else f"{value:.1%}" if value < 0.1 else f"{value:.0%}"


def coverage(value: float | None) -> str:
    """A share of steps in percent: at most all, however many chunks (under 1 %) held two steps."""
    return percent(None if value is None else min(value, 1.0))


def times(value: float | None) -> str:
    """A speed-up; never rounded onto 1.00x from either side."""
    return MISSING if value is None else words.times(value)


def interval(comparison: Comparison) -> str:
    """The 95 % interval, or a dash below three rounds."""
    if comparison.low is None or comparison.high is None:
        return MISSING
    return f"{words.bound(comparison.low)} to {words.bound(comparison.high)}"


def claim(comparison: Comparison) -> str:
    """What is claimed: INDICATIVE, gain, loss, or no difference shown; nothing if INVALID.

    A gain or loss of a SUSPECT row is in doubt, and recommends nothing.  Unproven: its own interval
    leaves out 1, and corrected for all claims of the headline (Holm) p does not.
    """
    if comparison.speedup is None:
        return MISSING
    if comparison.verdict == "INVALID":
        return "none"
    if comparison.label is not None:
        return comparison.label
    word = "gain" if comparison.speedup > 1 else "loss"
    if not comparison.significant:
        alone = comparison.p is not None and comparison.p < ALPHA
        return f"{word}, unproven" if alone else "no difference shown"
    return word if comparison.verdict == "VALID" else f"{word}, in doubt"


def verdict(word: Verdict, codes: Sequence[str]) -> str:
    """``SUSPECT (DRIFT)``."""
    return f"{word} ({', '.join(codes)})" if codes else word


def tainting(cell: Cell) -> list[str]:
    """Codes behind a cell's verdict."""
    codes = [r.code for r in cell.reasons
             if r.scope == "cell" and r.severity in ("invalid", "suspect")]  # fmt: skip
    return list(dict.fromkeys(codes))
