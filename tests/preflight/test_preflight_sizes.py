"""Bytes by the shape, against what vLLM and the files themselves said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planted import EAGLE3_32B, GIB, QWEN3_06B, QWEN3_32B

from specgauge.preflight.arches import kernels_for
from specgauge.preflight.need import Demand, Supply, fit
from specgauge.preflight.sizes import (
    eagle3_bytes,
    is_eagle3,
    kv_bytes_per_token,
    longest,
    shape,
    weight_bytes,
)

SMOLLM2 = {
    "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "vocab_size": 49152,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "bytes_"),
    [
        (QWEN3_32B, 61.03 * GIB),  # "Model loading took 61.03 GiB" (vLLM 0.26, H200; the seed too)
        (QWEN3_06B, 1.19e9),  # the seed's "1.2 GB"
        (SMOLLM2, 269_060_552),  # the file's size
    ],
)
def test_weights(config: dict[str, object], bytes_: float) -> None:
    assert weight_bytes(config) == pytest.approx(bytes_, rel=2e-3)


def test_eagle3_drafter_in_memory_and_on_disk() -> None:
    # The H200's server took 62.49 GiB with it and 61.03 without; the seed's file has 2.9 GiB.
    assert is_eagle3(EAGLE3_32B)
    assert not is_eagle3(QWEN3_32B)
    assert eagle3_bytes(EAGLE3_32B) == pytest.approx((62.49 - 61.03) * GIB, rel=5e-3)
    assert eagle3_bytes(EAGLE3_32B, on_disk=True) == pytest.approx(2.9 * GIB, rel=5e-3)


def test_embedded_drafter_s_file() -> None:
    folder = Path(__file__).parents[2] / "models" / "eagle3-smollm2-135m"
    config = json.loads((folder / "config.json").read_text())
    size = (folder / "model.safetensors").stat().st_size
    assert is_eagle3(config)
    # (0.5 % of the file are its two tables of token ids.)
    assert eagle3_bytes(config) == pytest.approx(size, rel=0.01)


def test_kv_cache_per_token() -> None:
    # The seed: 22.06 GiB = 90,368 tokens; the H200: 65.75 GiB = 269,312, with eagle3's one
    # layer more 63.5 GiB = 256,080.
    target, drafter = kv_bytes_per_token(QWEN3_32B), kv_bytes_per_token(EAGLE3_32B)
    assert target is not None
    assert drafter is not None
    assert target * 90_368 == pytest.approx(22.06 * GIB, rel=5e-4)
    assert target * 269_312 == pytest.approx(65.75 * GIB, rel=5e-4)
    assert (target + drafter) * 256_080 == pytest.approx(63.5 * GIB, rel=5e-4)


def test_narrower_numbers() -> None:
    whole = weight_bytes(QWEN3_32B)
    assert whole is not None
    fp8 = weight_bytes(QWEN3_32B | {"quantization_config": {"quant_method": "fp8"}})
    awq = weight_bytes(QWEN3_32B | {"quantization_config": {"quant_method": "awq", "bits": 4}})
    outer = 2 * 151936 * 5120 * 2  # embeddings stay in 16 bits
    assert fp8 == pytest.approx((whole - outer) / 2 + outer)
    assert awq == pytest.approx((whole - outer) / 4 + outer)
    assert weight_bytes(QWEN3_32B, "float32") == pytest.approx(2 * whole)
    assert weight_bytes(QWEN3_32B | {"torch_dtype": "float32"}) == whole  # `auto` serves 16 bits
    kv = kv_bytes_per_token(QWEN3_32B)
    assert kv == 2 * (kv_bytes_per_token(QWEN3_32B, kv_dtype="fp8") or 0)


def test_mixture_of_experts() -> None:
    # Qwen3-30B-A3B: 30.5 thousand million parameters, as published.
    config = QWEN3_32B | {
        "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 4, "num_experts": 128, "moe_intermediate_size": 768,
        "intermediate_size": 6144,
    }  # fmt: skip
    assert weight_bytes(config) == pytest.approx(2 * 30.5e9, rel=0.01)


def test_what_is_no_decoder_known_here_is_not_guessed() -> None:
    assert shape({"model_type": "resnet"}) is None
    assert weight_bytes({"hidden_size": 8}) is None
    assert kv_bytes_per_token({}) is None
    latent = QWEN3_32B | {"kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert weight_bytes(latent) is None
    assert kv_bytes_per_token(latent) == 64 * 576 * 2


def test_part_of_a_multimodal_model() -> None:
    outer = {"architectures": ["X"], "text_config": QWEN3_32B}
    assert weight_bytes(outer) == weight_bytes(QWEN3_32B)
    assert longest(outer) == 40960


DEMAND = Demand(
    weights=round(61.03 * GIB), drafter=0, kv_per_token=262144, max_model_len=4096, wanted_tokens=1
)
H200 = Supply(total=round(139.8 * GIB), free=round(139.29 * GIB), utilization=0.92)


def test_fit_gives_vllm_s_own_figures_back() -> None:
    # Its account of that start: 1.61 GiB activations, 0.22 GiB others; 269,312 tokens.
    found = fit(DEMAND, H200, overhead=round(1.83 * GIB))
    assert found.budget == pytest.approx(128.62 * GIB, rel=1e-4)
    assert found.kv_tokens == pytest.approx(269_312, rel=1e-3)
    assert found.fault is None


@pytest.mark.parametrize(
    ("total", "free", "fault"),
    [(95, 94, None), (95, 80, "occupied"), (70, 70, "weights"), (71.5, 71.5, "length")],
)
def test_fit_names_the_fault(total: float, free: float, fault: str | None) -> None:
    supply = Supply(round(total * GIB), round(free * GIB), 0.9)
    assert fit(DEMAND, supply).fault == fault


def test_crowded_is_not_a_fault() -> None:
    demand = Demand(DEMAND.weights, 0, 262144, 2048, wanted_tokens=300_000)
    found = fit(demand, H200)
    assert found.crowded
    assert found.fault is None


@pytest.mark.parametrize(
    ("capability", "arches", "how"),
    [
        ((12, 0), ["sm_90", "sm_100", "sm_120"], "exact"),
        ((12, 0), ["sm_80", "sm_90", "sm_100"], "none"),  # the seed's trap: B200's are not enough
        ((12, 0), ["sm_90", "compute_90"], "ptx"),
        ((8, 9), ["sm_80", "sm_86", "sm_90"], "family"),
        ((8, 0), ["sm_86"], "none"),  # never upwards
        ((9, 0), ["sm_90a"], "exact"),
        ((10, 3), ["sm_100a"], "none"),
        ((12, 1), ["compute_120a"], "none"),
        ((9, 0), [], "none"),
    ],
)
def test_kernels(capability: tuple[int, int], arches: list[str], how: str) -> None:
    assert kernels_for(capability, arches)[0] == how
