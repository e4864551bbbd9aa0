"""The original report's experiment as one plant: four variants, two loads, two freezes of 3.2 s.

The step times follow from the report's figures (``seed-results.yaml``) and the drafts planted here:
TPOT x tokens per step for concurrency 1; for concurrency 16 what makes 16 requests of 512 tokens
last as long as the report's cells did.  ``ngram`` and ``eagle3`` stand still for 3.2 s before any
first token of the 16, once in a process, with a line of ``_topk_topp_kernel``.
"""

from __future__ import annotations

from typing import Any

from specgauge.simulate.truth import Truth

KERNEL = "_topk_topp_kernel"
FROZEN_S = 3.2
REQUESTS = 16
OUTPUT_TOKENS = 512

TOKENS_AT_16 = {"vanilla": 8101, "ngram": 8181, "ngram_improved": 8150, "eagle3": 8044}
"""What each variant generated there: some outputs ended before 512 tokens."""

SECTIONS = {
    "vanilla": "vanilla",
    "ngram": "ngram:6",
    "ngram_improved": "ngram:4",
    "eagle3": "eagle3:3",
}
"""The report's variant names to the plant's sections (method and number of speculative tokens)."""

# Conditional acceptance gives the report's median acceptance lengths 2.18, 1.83 and 2.22; coverage
# the tokens per step that its TPOT at concurrency 1 implies.
_VARIANTS: dict[str, dict[str, Any]] = {
    "vanilla": {"step_ms": {1: 44.8, 16: 47.5}},
    "ngram": {
        "step_ms": {1: 44.8, 16: 52.85},
        "coverage": 0.05,
        "acceptance": [0.55, 0.60, 0.55, 0.50, 0.50, 0.50],
    },
    "ngram_improved": {
        "step_ms": {1: 45.0, 16: 55.2},
        "coverage": 0.22,
        "acceptance": [0.48, 0.47, 0.40, 0.35],
    },
    "eagle3": {"step_ms": {1: 47.6, 16: 59.0}, "acceptance": [0.64, 0.58, 0.57]},
}


def seed_plant(scale: float = 1.0, first_of_c16: int = REQUESTS + 1) -> Truth:
    """The document for all four servers.

    Args:
        scale: multiplies every time; 0.1 lasts a tenth (its freezes are then 0.32 s).
        first_of_c16: number, in order of arrival from 1, of the first request at concurrency 16:
            the frozen ones; the report sent 16 at concurrency 1 before, without a warm-up.
    """
    variants = {
        SECTIONS[name]: {
            **variant,
            "step_ms": {size: ms * scale for size, ms in variant["step_ms"].items()},
        }
        for name, variant in _VARIANTS.items()
    }
    return Truth.model_validate(
        {
            "version": "0.27.1",
            "variants": variants,
            "prefill_tokens_per_s": 20_700 / scale,
            "kv_cache_tokens": 90_368,
            "max_model_len": 2048,
            "freezes": [
                {
                    "length_s": FROZEN_S * scale,
                    "at_request": first_of_c16,
                    "phase": "before_first_token",
                    "log": KERNEL,
                    "variants": [SECTIONS["ngram"], SECTIONS["eagle3"]],
                }
            ],
            "log": {"wording": "0.27"},
        }
    )
