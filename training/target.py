"""The target model (a small Llama) as plain functions: packed forward with taps, and its layers.

Written out here, rather than taken from transformers, because two things are needed that it does
not give: the residual stream exactly where vLLM taps it, and layers that a captured decode loop
can call (`decode.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file
from torch import Tensor

from training.attention import Mask, attend
from training.fuse import fuse


@dataclass(frozen=True)
class LlamaShape:
    """Sizes of a Llama model, by the names of its `config.json`."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int

    @classmethod
    def from_folder(cls, folder: Path) -> LlamaShape:
        """Read `folder`/config.json; raises KeyError if it is not a Llama configuration."""
        raw = json.loads((folder / "config.json").read_text())
        rope = raw.get("rope_parameters") or raw
        return cls(
            hidden_size=raw["hidden_size"],
            intermediate_size=raw["intermediate_size"],
            num_hidden_layers=raw["num_hidden_layers"],
            num_attention_heads=raw["num_attention_heads"],
            num_key_value_heads=raw["num_key_value_heads"],
            head_dim=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
            vocab_size=raw["vocab_size"],
            rms_norm_eps=raw["rms_norm_eps"],
            rope_theta=rope["rope_theta"],
            max_position_embeddings=raw["max_position_embeddings"],
        )


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer; q, k, v and gate, up are stacked to save launches."""

    input_norm: Tensor  # [hidden]
    qkv: Tensor  # [(heads + 2 * kv_heads) * head_dim, hidden]
    out: Tensor  # [hidden, heads * head_dim]
    post_norm: Tensor  # [hidden]
    gate_up: Tensor  # [2 * intermediate, hidden]
    down: Tensor  # [hidden, intermediate]


@dataclass(frozen=True)
class Target:
    """The target's weights; the embedding doubles as output head (tied)."""

    shape: LlamaShape
    embedding: Tensor  # [vocab, hidden]
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor  # [hidden]


def load_target(folder: Path, device: torch.device, dtype: torch.dtype) -> Target:
    """Load a Hugging Face folder with one `model.safetensors` and tied embeddings."""
    shape = LlamaShape.from_folder(folder)
    raw = load_file(folder / "model.safetensors")

    def get(name: str) -> Tensor:
        return raw[name].to(device, dtype)

    layers = []
    for index in range(shape.num_hidden_layers):
        prefix = f"model.layers.{index}."
        projections = [get(f"{prefix}self_attn.{name}_proj.weight") for name in "qkv"]
        halves = [get(f"{prefix}mlp.{name}_proj.weight") for name in ("gate", "up")]
        layers.append(
            LayerWeights(
                input_norm=get(f"{prefix}input_layernorm.weight"),
                qkv=torch.cat(projections),
                out=get(f"{prefix}self_attn.o_proj.weight"),
                post_norm=get(f"{prefix}post_attention_layernorm.weight"),
                gate_up=torch.cat(halves),
                down=get(f"{prefix}mlp.down_proj.weight"),
            )
        )
    embedding = get("model.embed_tokens.weight")
    return Target(shape, embedding, tuple(layers), get("model.norm.weight"))


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm in float32, result in x's dtype, as vLLM computes it."""
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)


def rope_angles(positions: Tensor, shape: LlamaShape) -> tuple[Tensor, Tensor]:
    """Cosines and sines ``[*positions, head_dim / 2]`` (float32) of the rotary embedding."""
    half = torch.arange(0, shape.head_dim, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None].float() * shape.rope_theta ** (-half / shape.head_dim)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary angles (broadcast over heads) to ``x [..., head_dim]``, halves convention."""
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return turned.to(x.dtype)


@fuse
def project_qkv(
    x: Tensor, layer: LayerWeights, shape: LlamaShape, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Norm, project and rotate ``x [..., hidden]`` to q, k, v ``[..., heads, head_dim]``.

    cos, sin: ``[..., 1, head_dim / 2]``.
    """
    heads, kv_heads = shape.num_attention_heads, shape.num_key_value_heads
    mixed = F.linear(rms_norm(x, layer.input_norm, shape.rms_norm_eps), layer.qkv)
    mixed = mixed.unflatten(-1, (heads + 2 * kv_heads, shape.head_dim))
    q, k, v = mixed.split([heads, kv_heads, kv_heads], dim=-2)
    return rotate(q, cos, sin), rotate(k, cos, sin), v


@fuse
def finish_layer(x: Tensor, attended: Tensor, layer: LayerWeights, shape: LlamaShape) -> Tensor:
    """Output projection, residual and MLP; ``attended [..., heads * head_dim]``."""
    x = x + F.linear(attended, layer.out)
    normed = rms_norm(x, layer.post_norm, shape.rms_norm_eps)
    gate, up = F.linear(normed, layer.gate_up).chunk(2, dim=-1)
    return x + F.linear(F.silu(gate) * up, layer.down)


def forward_packed(
    target: Target, tokens: Tensor, positions: Tensor, mask: Mask, taps: tuple[int, ...]
) -> tuple[list[Tensor], Tensor]:
    """Run packed rows through the target.

    tokens, positions: ``[rows, length]``; mask: see `attention.py`.
    Returns the residual stream at each tap ``[rows, length, hidden]``, and the final normed state.
    Tap i is the residual stream *before* layer i, so tap ``num_hidden_layers`` is the last
    layer's output before the final norm: vLLM's `EagleModelMixin` counts the same way.
    """
    shape = target.shape
    cos, sin = (part[:, :, None] for part in rope_angles(positions, shape))
    x = F.embedding(tokens, target.embedding)
    tapped = [x] if 0 in taps else []
    for index, layer in enumerate(target.layers, start=1):
        q, k, v = project_qkv(x, layer, shape, cos, sin)
        mixed = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask)
        x = finish_layer(x, mixed.transpose(1, 2).flatten(-2), layer, shape)
        if index in taps:
            tapped.append(x)
    return tapped, rms_norm(x, target.final_norm, shape.rms_norm_eps)
