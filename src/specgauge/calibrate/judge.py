"""Planted against measured: one line a quantity, each with its limit."""

from __future__ import annotations

from dataclasses import dataclass

from specgauge.analyze.document import Cell

RELATIVE = 0.02
"""Throughput, TPOT, acceptance length, coverage."""
TTFT_MS = 3.0
"""TTFT: this or 2 %, whichever is more."""
FREEZE_SHARE, FREEZE_S = 0.05, 0.05
"""Freeze length: 5 % or 50 ms."""


@dataclass(frozen=True)
class Planted:
    """What a server really did in a cell."""

    output_tok_s: float
    tpot_ms: float
    ttft_ms: float
    acceptance_length: float | None
    draft_coverage: float | None
    frozen_s: float
    """0: nothing was planted."""


@dataclass(frozen=True)
class Error:
    """One quantity of one plant."""

    plant: str
    what: str
    planted: float
    measured: float | None
    error: float | None
    """measured - planted, relative but for TTFT (ms) and freezes (s)."""
    ok: bool


def judge(plant: str, planted: Planted, cell: Cell) -> list[Error]:
    """Every quantity of a cell; a freeze's length only where one was planted and found."""
    seen = cell.observed
    found = [
        _relative(plant, "throughput", planted.output_tok_s, seen.output_tok_s),
        _relative(plant, "TPOT", planted.tpot_ms, seen.tpot_ms.mean),
        _absolute(plant, "TTFT", planted.ttft_ms, seen.ttft_ms.mean,
                  max(RELATIVE * planted.ttft_ms, TTFT_MS)),
    ]  # fmt: skip
    if planted.acceptance_length is not None:
        found.append(
            _relative(plant, "acceptance length", planted.acceptance_length, seen.acceptance_length)
        )
    if planted.draft_coverage is not None:
        found.append(_relative(plant, "coverage", planted.draft_coverage, seen.draft_coverage))
    if planted.frozen_s and (measured := frozen(cell)):
        limit = max(FREEZE_SHARE * planted.frozen_s, FREEZE_S)
        found.append(_absolute(plant, "freeze", planted.frozen_s, measured, limit))
    return found


def frozen(cell: Cell) -> float:
    """Seconds that the analysis calls frozen."""
    return cell.derived.frozen_s if cell.derived else 0.0


def _relative(plant: str, what: str, planted: float, measured: float | None) -> Error:
    error = None if measured is None or not planted else measured / planted - 1
    return Error(
        plant, what, planted, measured, error, error is not None and abs(error) <= RELATIVE
    )


def _absolute(plant: str, what: str, planted: float, measured: float | None, limit: float) -> Error:
    error = None if measured is None else measured - planted
    return Error(plant, what, planted, measured, error, error is not None and abs(error) <= limit)
