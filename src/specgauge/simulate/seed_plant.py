"""The seed's whole experiment as one plant: four variants, two loads, two freezes of 3.2 s.

The step times follow from the seed's figures (``seed-results.yaml``) and the drafts planted here:
TPOT x tokens per step for concurrency 1; for concurrency 16 what makes 16 requests of 512 tokens
last as long as the seed's cells did.  ``ngram`` and ``eagle3`` stand still for 3.2 s before any
first token of the 16, once in a process, with a line of ``_topk_topp_kernel``; ``ngram_improved``
had its compile at the end of concurrency 1.
"""

from __future__ import annotations

from typing import Any

from specgauge.simulate.truth import Truth

KERNEL = "_topk_topp_kernel"
FROZEN_S = 3.2
REQUESTS = 16
OUTPUT_TOKENS = 512

K = {"vanilla": 0, "ngram": 6, "ngram_improved": 4, "eagle3": 3}
"""``num_speculative_tokens`` by the seed's variant names."""

_DRAFTS: dict[str, dict[str, Any]] = {
    "vanilla": {},
    # Conditional acceptance that gives the seed's median acceptance lengths 2.18, 1.83 and 2.22.
    "ngram": {"coverage": 0.05, "acceptance": [0.55, 0.60, 0.55, 0.50, 0.50, 0.50]},
    "ngram_improved": {"coverage": 0.22, "acceptance": [0.48, 0.47, 0.40, 0.35]},
    "eagle3": {"coverage": 1.0, "acceptance": [0.64, 0.58, 0.57]},
}
_STEP_MS: dict[str, dict[int, float]] = {
    "vanilla": {1: 44.8, 16: 47.4},
    "ngram": {1: 44.8, 16: 52.2},
    "ngram_improved": {1: 45.0, 16: 55.3},
    "eagle3": {1: 47.6, 16: 58.5},
}


def seed_plant(variant: str, scale: float = 1.0, first_of_c16: int = REQUESTS + 1) -> Truth:
    """The server of one of the seed's variants.

    ``ngram`` and ``ngram_improved`` share a method, so each variant has a document of its own.

    Args:
        variant: ``vanilla``, ``ngram``, ``ngram_improved`` or ``eagle3``.
        scale: multiplies every time; 0.1 lasts a tenth (its freezes are then 0.32 s).
        first_of_c16: number, in order of arrival from 1, of the first request at concurrency 16:
            the frozen ones; the seed sent 16 at concurrency 1 before, without a warm-up.

    Raises:
        KeyError: another name.
    """
    step_ms = {size: ms * scale for size, ms in _STEP_MS[variant].items()}
    freezes: list[dict[str, Any]] = []
    if variant in ("ngram", "eagle3"):
        freezes.append(
            {
                "length_s": FROZEN_S * scale,
                "at_request": first_of_c16,
                "phase": "before_first_token",
                "log": KERNEL,
            }
        )
    return Truth.model_validate(
        {
            "version": "0.27.1",
            "step_ms": step_ms,
            "variants": {method_of(variant): _DRAFTS[variant]},
            "prefill_tokens_per_s": 20_700 / scale,
            "kv_cache_tokens": 90_368,
            "max_model_len": 2048,
            "freezes": freezes,
            "log": {"wording": "0.27"},
        }
    )


def method_of(variant: str) -> str:
    """The speculative method of a seed variant."""
    return "ngram" if variant.startswith("ngram") else variant
