"""CACHE_WARM: one side had more of its prompts in the prefix cache than the other."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze.confirmation import BLOCK
from specgauge.analyze.document import Cell, Reason

CODE = "CACHE_WARM"

SHARE = 0.10
"""Of the prompt tokens from which it is suspect: at the seed's 123 in and 512 out, a tenth of the
prompts is some 0.1 % of a cell at 10,000 tokens/s of prefill, and up to a tenth of its TTFT."""

HIDDEN_STATES = ("eagle", "eagle3", "mtp", "dflash", "dspark")
"""Their drafters need the target's hidden states: vLLM recomputes the last block found."""


def check(pairs: Sequence[tuple[Cell, Cell]], method: str | None) -> Reason | None:
    """Of the paired cells (variant's, baseline's): the widest difference in uncached tokens.

    A block per request, and one more where the drafter loses its last block, is no difference.
    """
    allowed_blocks = 2 if method in HIDDEN_STATES else 1
    worst: tuple[float, Cell, Cell] | None = None
    for mine, base in pairs:
        a, b = mine.observed.uncached_prompt_tokens, base.observed.uncached_prompt_tokens
        if a is None or b is None:
            continue
        difference = a - b
        if abs(difference) <= allowed_blocks * BLOCK * mine.observed.requests:
            continue
        if worst is None or abs(difference) > abs(worst[0]):
            worst = (difference, mine, base)
    if worst is None:
        return None
    return reason(worst[0], worst[1], worst[2])


def reason(difference: float, mine: Cell, base: Cell) -> Reason:
    """The reason for two cells whose uncached tokens differ."""
    prompt = max(mine.observed.prompt_tokens, 1)
    share = abs(difference) / prompt
    a, b = mine.observed.uncached_prompt_tokens, base.observed.uncached_prompt_tokens
    same = mine.variant == base.variant
    other = f"repeat {base.repeat}" if same else base.variant
    this = f"repeat {mine.repeat}" if same else mine.variant
    return Reason(
        code=CODE,
        severity="suspect" if share > SHARE else "info",
        scope="claim",
        detail=f"{mine.load}: of {prompt} prompt tokens {this} had {a:.0f} left to read, {other} "
        f"{b:.0f} ({share:.0%} of the prompts apart): TTFT and throughput are not alike.",
        remedy="Use 'prefix_cache: reset', or prompts that no earlier cell used.",
        evidence={"uncached": a, "uncached_other": b, "share": share},
    )


def between_repeats(first: Cell, later: Cell) -> Reason | None:
    """Info for a repeat of a load that found its prompts cached: both sides repeat alike."""
    a, b = later.observed.uncached_prompt_tokens, first.observed.uncached_prompt_tokens
    if a is None or b is None or abs(a - b) <= 2 * BLOCK * later.observed.requests:
        return None
    return reason(a - b, later, first).model_copy(update={"severity": "info"})
