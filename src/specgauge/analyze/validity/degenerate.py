"""DEGENERATE: repetition or text after the end flatters the drafter."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "DEGENERATE"

LIMIT = 0.05
"""Difference in tokens per step: as much of a speed-up would be the degenerate part's."""


REAL = "Sample as in production, or use prompts that ask for long answers."
RUNNING_ON = (
    "Let outputs end (ignore_eos: false), sample as in production, or use prompts that ask for "
    "long answers."
)
SYNTHETIC = (
    "None here: acceptance is drawn and not these outputs' doing, but how often a draft is found "
    "is. Real outputs repeat less and are drafted for less often: read the speed-up as what full "
    "coverage costs and gives, or serve real weights."
)


def _what(cell: CellContext) -> str:
    return "repeat themselves or run on after their end" if _runs_on(cell) else "repeat themselves"


def _runs_on(cell: CellContext) -> bool:
    """Whether outputs could go on after their end."""
    document = cell.cell.document
    return document is None or document.ignore_eos


def _remedy(cell: CellContext) -> str:
    if _is_synthetic(cell):
        return SYNTHETIC
    return RUNNING_ON if _runs_on(cell) else REAL


def _is_synthetic(cell: CellContext) -> bool:
    config = cell.variant.speculative_config or {}
    return config.get("rejection_sample_method") == "synthetic"


def check(cell: CellContext) -> Reason | None:
    """Suspect when tokens per step before it differ by more than 5 % from the whole, or hardly
    anything lies before it; info where outputs degenerate without that.  Nothing where only few do
    (under a tenth) and it is alike.
    """
    if cell.variant.speculative_config is None:
        return None
    found = cell.degeneration
    if found is None or not found.requests:
        return None
    suspect = found.difference is None or abs(found.difference) > LIMIT
    if not suspect and found.requests < 0.1 * found.of:
        return None
    before = "hardly any output before that"
    if found.before is not None and found.difference is not None:
        before = f"{found.before:.2f} before that ({found.difference:+.0%})"
    return Reason(
        code=CODE,
        severity="suspect" if suspect else "info",
        detail=f"{found.requests} of {found.of} outputs {_what(cell)}: "
        f"{found.tokens_per_step:.2f} tokens per step in all, {before}.",
        remedy=_remedy(cell),
        evidence={
            "requests": found.requests,
            "tokens_per_step": found.tokens_per_step,
            "tokens_per_step_before": found.before,
        },
    )


def check_speedup(whole: float | None, before: float | None) -> Reason | None:
    """Of a comparison: its TPOT speed-up over whole outputs and over what lies before the onsets.

    Suspect when they differ by more than 5 %.
    """
    if not whole or not before or abs(whole / before - 1) <= LIMIT:
        return None
    return Reason(
        code=CODE,
        severity="suspect",
        scope="claim",
        detail=f"TPOT speed-up {whole:.2f}x over whole outputs, {before:.2f}x up to where they "
        "repeat themselves or run on after their end.",
        remedy="Read the speed-up before that; sample as in production.",
        evidence={"speedup": whole, "speedup_before": before},
    )
