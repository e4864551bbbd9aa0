"""A tiny random Llama for the tests, in memory and as a folder."""

from __future__ import annotations

import torch

from training.target import LayerWeights, LlamaShape, Target

SHAPE = LlamaShape(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    vocab_size=64,
    rms_norm_eps=1e-5,
    rope_theta=1000.0,
    max_position_embeddings=128,
)


def random_target(seed: int = 0) -> Target:
    generator = torch.Generator().manual_seed(seed)

    def weight(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator) * size[-1] ** -0.5

    width = (SHAPE.num_attention_heads + 2 * SHAPE.num_key_value_heads) * SHAPE.head_dim
    layers = tuple(
        LayerWeights(
            input_norm=torch.ones(32),
            qkv=weight(width, 32),
            out=weight(32, 32),
            post_norm=torch.ones(32),
            gate_up=weight(96, 32),
            down=weight(32, 48),
        )
        for _ in range(SHAPE.num_hidden_layers)
    )
    return Target(SHAPE, weight(64, 32) * 3, layers, torch.ones(32))
