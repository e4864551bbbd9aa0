"""Bytes of weights and of KV cache, from a model's config.json alone.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]

_DTYPE_BYTES = {
    "float32": 4.0, "float": 4.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0,
    "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "fp8_inc": 1.0, "int8": 1.0,
}  # fmt: skip
DEFAULT_DTYPE = "bfloat16"
_FP8_METHODS = ("fp8", "fbgemm_fp8", "modelopt")
_FOUR_BITS = 4


@dataclass(frozen=True)
class Shape:
    """What decides a transformer's size; counts, no bytes."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    """Input and output embeddings are one matrix."""
    experts: int
    """0: dense."""
    mla: int | None
    """Numbers cached per token and layer under multi-head latent attention (DeepSeek's)."""


def shape(config: Config) -> Shape | None:
    """The shape that ``config`` (a config.json) describes; None if it is no decoder known here."""
    text = text_config(config)
    try:
        heads, hidden = int(text["num_attention_heads"]), int(text["hidden_size"])
        experts = int(
            text.get("num_experts")
            or text.get("num_local_experts")
            or text.get("n_routed_experts")
            or 0
        )
        wide = text.get("moe_intermediate_size") if experts else None
        latent = text.get("kv_lora_rank")
        return Shape(
            layers=int(text["num_hidden_layers"]),
            hidden=hidden,
            intermediate=int(wide or text["intermediate_size"]),
            heads=heads,
            kv_heads=int(text.get("num_key_value_heads") or heads),
            head_dim=int(text.get("head_dim") or hidden // heads),
            vocabulary=int(text["vocab_size"]),
            tied=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
            experts=experts,
            mla=int(latent) + int(text.get("qk_rope_head_dim") or 0) if latent else None,
        )
    except (KeyError, TypeError, ValueError):
        return None


def text_config(config: Config) -> Config:
    """The language model's part: of a multimodal model, of a drafter in speculators' layout."""
    for key in ("text_config", "transformer_layer_config", "llm_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return inner
    return config


def weight_bytes(config: Config, dtype: str | None = None) -> int | None:
    """Bytes of all weights, or None if the shape is not known.

    Parameters of a decoder with gated MLPs (Llama, Qwen, Mistral, …): per layer
    ``hidden x (heads + 2 kv_heads) x head_dim + heads x head_dim x hidden`` for attention and
    ``3 x hidden x intermediate`` per expert, beside the embeddings.  Norms are left out: they are
    less than a thousandth.

    Args:
        config: config.json.
        dtype: vLLM's ``--dtype``; ``auto`` or None takes the checkpoint's.
    """
    known = shape(config)
    if known is None or known.mla is not None:
        return None
    embedding = known.vocabulary * known.hidden
    layers = known.layers * _layer(known, known.hidden)
    outer = embedding * (1 if known.tied else 2)
    plain = dtype_bytes(dtype, config)
    return round(layers * _quantized_bytes(config, plain) + outer * plain)


def eagle3_bytes(config: Config, *, on_disk: bool = False) -> int | None:
    """Bytes of an EAGLE3 drafter in memory; ``on_disk`` with its copy of the embeddings.

    Its first layer reads embedding and hidden state side by side (2 x hidden); ``fc`` joins three
    of the target's hidden states; its own output embedding has ``draft_vocab_size`` rows.  vLLM
    gives it the target's input embedding.
    """
    known = shape(config)
    if known is None:
        return None
    wide = known.hidden * (known.heads + 2 * known.kv_heads) * known.head_dim
    parameters = _layer(known, known.hidden) * known.layers + wide + 3 * known.hidden**2
    vocabulary = int(config.get("draft_vocab_size") or known.vocabulary)
    parameters += vocabulary * known.hidden
    if on_disk:
        parameters += known.vocabulary * known.hidden
    return round(parameters * dtype_bytes(None, config))


def is_eagle3(config: Config) -> bool:
    """Whether ``config`` is of an EAGLE3 drafter, in either layout."""
    named = " ".join(config.get("architectures") or [])
    return config.get("speculators_model_type") == "eagle3" or "Eagle3" in named


def kv_bytes_per_token(
    config: Config, dtype: str | None = None, kv_dtype: str | None = None
) -> int | None:
    """Bytes that one token keeps in the KV cache: layers x kv_heads x head_dim x 2 x bytes.

    Args:
        config: config.json.
        dtype: vLLM's ``--dtype``.
        kv_dtype: vLLM's ``--kv-cache-dtype``; ``auto`` or None takes the model's.
    """
    known = shape(config)
    if known is None:
        return None
    each = _DTYPE_BYTES.get(kv_dtype or "auto") or dtype_bytes(dtype, config)
    numbers = known.mla or known.kv_heads * known.head_dim * 2
    return round(known.layers * numbers * each)


def longest(config: Config) -> int | None:
    """The model's own context length in tokens, which vLLM takes without ``--max-model-len``."""
    value = text_config(config).get("max_position_embeddings")
    return int(value) if value else None


def dtype_bytes(dtype: str | None, config: Config) -> float:
    """Bytes of one unquantized number."""
    text = text_config(config)
    own = text.get("dtype") or text.get("torch_dtype") or config.get("dtype")
    own = own or config.get("torch_dtype") or DEFAULT_DTYPE
    name = own if dtype in (None, "auto") else dtype
    each = _DTYPE_BYTES.get(str(name).removeprefix("torch."), 2.0)
    # vLLM's `auto` serves a float32 checkpoint in 16 bits.
    return 2.0 if dtype in (None, "auto") and each > 2.0 else each


def _layer(known: Shape, hidden: int) -> int:
    attention = hidden * (2 * known.heads + 2 * known.kv_heads) * known.head_dim
    router = hidden * known.experts
    return attention + 3 * hidden * known.intermediate * max(known.experts, 1) + router


def _quantized_bytes(config: Config, plain: float) -> float:
    """Bytes of one weight inside the layers."""
    found = config.get("quantization_config")
    if not isinstance(found, Mapping):
        return plain
    method = str(found.get("quant_method", ""))
    if method in _FP8_METHODS:
        return 1.0
    groups = found.get("config_groups")
    if isinstance(groups, Mapping):
        bits = [g.get("weights", {}).get("num_bits") for g in groups.values() if g]
        return max((int(b) / 8 for b in bits if b), default=plain)
    return int(found.get("bits") or found.get("w_bit") or _FOUR_BITS) / 8
