"""A variant: a name and one ``--speculative-config`` (or none: the baseline)."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from specgauge.config.base import StrictModel
from specgauge.config.names import PlainName

ServerArgs = dict[str, Any]
"""vLLM flags without dashes: true → --flag, false → --no-flag, null → left out, list → --flag a b,
mapping → --flag JSON."""

KNOWN_SPECULATIVE_KEYS = frozenset(
    {
        "method", "model", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max",
        "draft_tensor_parallel_size", "quantization", "max_model_len", "revision", "code_revision",
        "disable_padded_drafter_batch", "parallel_drafting", "draft_sample_method",
        "num_speculative_tokens_per_batch_size", "rejection_sample_method",
        "synthetic_acceptance_length", "synthetic_acceptance_rates", "enforce_eager",
        "suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests",
        "suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob",
        "attention_backend", "moe_backend", "draft_load_config", "use_local_argmax_reduction",
        "speculative_token_tree", "disable_by_batch_size", "disable_logprobs",
    }
)  # fmt: skip
"""Fields of vLLM's SpeculativeConfig (0.27.1 to 0.32.0).  Others are passed with a warning."""


class Variant(StrictModel):
    """One way of serving the target model.  ``speculative_config`` goes to vLLM as given."""

    name: PlainName
    description: str = ""
    speculative_config: dict[str, Any] | None = None
    drafter: str | None = None
    """Name of one of the model's ``drafters``; fills ``speculative_config.model``."""
    server_args: ServerArgs = {}
    server_env: dict[str, str] = {}
    matched_baseline: str | None = None
    """A variant without speculation that shares this one's runner and scheduling."""

    @field_validator("speculative_config")
    @classmethod
    def _makes_sense(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and not value:
            raise ValueError("empty; leave it out (or null) for no speculation")
        k = (value or {}).get("num_speculative_tokens")
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
            raise ValueError(f"'num_speculative_tokens' must be a whole number, 1 or more: {k!r}")
        return value

    def unknown_keys(self) -> list[str]:
        """Keys of ``speculative_config`` that this release has never seen (passed all the same)."""
        return sorted(set(self.speculative_config or {}) - KNOWN_SPECULATIVE_KEYS)

    @property
    def num_speculative_tokens(self) -> int | None:
        """K, or None without speculation or where the drafter's own config decides."""
        value = (self.speculative_config or {}).get("num_speculative_tokens")
        return int(value) if value is not None else None
