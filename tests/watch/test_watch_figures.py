"""Live figures from two planted looks."""

from __future__ import annotations

import json

import pytest

from specgauge.watch.figures import figures, look


def text(name: str, value: float, /, **labels: str) -> tuple[str, str, float]:
    return name, json.dumps(labels), value


def at(t: float, *, tokens: float, drafts: float, accepted: float, steps: float, firsts: float):
    engine = {"engine": "0", "variant": "ngram"}
    return look(
        t,
        [
            text("vllm:generation_tokens_total", tokens, **engine),
            text("vllm:spec_decode_num_drafts_total", drafts, **engine),
            text("vllm:spec_decode_num_accepted_tokens_total", accepted, **engine),
            text(
                "vllm:spec_decode_num_accepted_tokens_per_pos_total",
                accepted * 0.75,
                position="0",
                **engine,
            ),
            text(
                "vllm:spec_decode_num_accepted_tokens_per_pos_total",
                accepted * 0.25,
                position="1",
                **engine,
            ),
            text("vllm:inter_token_latency_seconds_count", steps, **engine),
            text("vllm:inter_token_latency_seconds_sum", steps * 0.02, **engine),
            text("vllm:time_to_first_token_seconds_count", firsts, **engine),
            text("vllm:time_to_first_token_seconds_sum", firsts * 0.3, **engine),
            text("vllm:num_requests_running", 7, **engine),
            text("vllm:prefix_cache_queries_total", 0, **engine),
            text("vllm:prefix_cache_hits_total", 0, **engine),
            text("python_info", 1, **engine),
        ],
    )


def test_definitions() -> None:
    before = at(10, tokens=100, drafts=10, accepted=10, steps=90, firsts=10)
    now = at(15, tokens=350, drafts=50, accepted=70, steps=250, firsts=20)

    seen = figures(before, now, "ngram")

    assert seen is not None
    assert seen.output_tok_s == 50
    assert seen.acceptance_length == pytest.approx(1 + 60 / 40)
    assert seen.draft_coverage == pytest.approx(40 / 160)
    assert seen.tokens_per_step == pytest.approx((250 - 10) / 160)
    assert seen.step_s == pytest.approx(0.02)
    assert seen.ttft_s == pytest.approx(0.3)
    assert seen.acceptance_by_position == pytest.approx((45 / 40, 15 / 40))
    assert seen.running == 7


def test_what_did_not_happen_is_not_zero() -> None:
    idle = at(10, tokens=100, drafts=10, accepted=10, steps=90, firsts=10)
    seen = figures(idle, at(11, tokens=100, drafts=10, accepted=10, steps=90, firsts=10), "ngram")
    assert seen is not None
    assert seen.output_tok_s == 0
    assert seen.ttft_s is None
    assert seen.acceptance_length is None
    assert seen.prefix_hits is None
    assert seen.kv_use is None


def test_restarted_server_has_no_figures_at_first() -> None:
    old = at(10, tokens=1000, drafts=10, accepted=10, steps=90, firsts=10)
    new = at(15, tokens=20, drafts=1, accepted=1, steps=9, firsts=1)
    assert figures(old, new, "ngram") is None
    assert figures(old, new, "vanilla") is None


def test_series_without_a_variant_are_the_given_one_s() -> None:
    samples = [text("vllm:generation_tokens_total", 5.0, engine="0")]
    assert look(0, samples).values == {}
    assert look(0, samples, "eagle3").values == {"eagle3": {"vllm:generation_tokens_total": 5.0}}


def test_running_cell_and_gpu() -> None:
    card = {"uuid": "GPU-a", "pci_bus_id": "00000000:41:00.0", "name": "H200"}
    seen = look(
        0,
        [
            text("specgauge_cell_info", 1, variant="ngram", load="c16", repeat="0", run="r"),
            text("specgauge_gpu_power_watts", 312.5, **card),
            text("specgauge_gpu_sm_clock_hertz", 1.98e9, **card),
            text("specgauge_gpu_processes", 1, owner="ours", **card),
            text("specgauge_gpu_processes", 2, owner="other", **card),
        ],
    )
    assert seen.cells == {"ngram": "c16 repeat 0"}
    (gpu,) = seen.gpus
    assert (gpu.power_w, gpu.clock_mhz, gpu.others, gpu.used_gib) == (312.5, 1980.0, 2, None)
