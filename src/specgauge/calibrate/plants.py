"""Draws plants: step times, acceptance, coverage, prefill, freezes around their threshold."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from specgauge.analyze.freezes import threshold

RATIOS = ((0.05, 0.5), (0.5, 2.0), (2.0, 6.0))
"""Freeze length / detection threshold: never called, the curve between, always found."""
SHORT, LONG = 60, 5000
"""Prompt tokens.  Long ones take several steps of ``LONG_BUDGET``: waits of a second and more that
are no freeze."""
LONG_BUDGET = 2048
"""vLLM's own with a drafter."""


@dataclass(frozen=True)
class Plant:
    """One server and its load."""

    name: str
    truth: dict[str, Any]
    k: int
    """Tokens proposed; 0: no speculation."""
    concurrency: int
    requests: int
    output_tokens: int
    ratio: float | None
    """Planted freeze / threshold; None: none planted."""
    prompt_tokens: int = SHORT

    @property
    def section(self) -> str:
        """Its section of a truth document."""
        return f"ngram:{self.k}" if self.k else "vanilla"


def draw(number: int, *, concurrency: int, requests: int, output_tokens: int, fast: bool) -> Plant:
    """Plant ``number``; equal numbers give equal plants.

    ``fast``: short steps, for cells on the real clock.
    """
    dice = random.Random(f"plant {number}")
    k = (0, 3, 6)[number % 3]
    base = dice.uniform(6, 14) if fast else dice.uniform(8, 60)
    step = {1: base, 16: base * dice.uniform(1.1, 1.6)}
    truth: dict[str, Any] = {
        "seed": number,
        "step_ms": step,
        "prefill_tokens_per_s": dice.uniform(4_000, 40_000),
        "variants": {"ngram": {
            "acceptance": [dice.uniform(0.3, 0.9) for _ in range(k or 1)],
            "coverage": dice.uniform(0.1, 1.0),
        }},
    }  # fmt: skip
    ratio = None
    if number % 2:
        ratio = dice.uniform(*RATIOS[(number // 2) % len(RATIOS)])
        at = min(concurrency, requests)
        ms = step[1] + (step[16] - step[1]) * (min(at, 16) - 1) / 15
        freeze: dict[str, Any] = {"length_s": ratio * threshold(ms / 1000)}
        if number % 4 == 1:
            freeze |= {"phase": "after_first_token", "when_batch": at,
                       "after_tokens": at * output_tokens // 3}  # fmt: skip
        else:
            freeze |= {"phase": "before_first_token", "at_request": 1}
        truth["freezes"] = [freeze]
    prompt = SHORT
    if not fast and number % 10 == 4:
        prompt = LONG
        truth |= {"max_batched_tokens": LONG_BUDGET, "kv_cache_tokens": 10_000_000}
    return Plant(f"plant {number}", truth, k, concurrency, requests, output_tokens, ratio, prompt)
