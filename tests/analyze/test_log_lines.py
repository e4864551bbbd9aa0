"""Statistics lines and traits of vLLM's log, by field name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specgauge.analyze.log import lines, traits
from specgauge.analyze.records import LogLine


def line(text: str, t: float = 1.0) -> LogLine:
    return LogLine(t, "O", text)


SPEC = (
    "(APIServer pid=1) INFO 11-29 15:49:03 [metrics.py:120] SpecDecoding metrics: Mean acceptance "
    "length: 2.20, Accepted throughput: 251.59 tokens/s, Drafted throughput: 628.18 tokens/s, "
    "Accepted: 2516 tokens, Drafted: 6282 tokens, Per-position acceptance rate: 0.607, 0.371, "
    "0.224, Avg Draft acceptance rate: 40.1%"
)


def test_spec_decoding_fields() -> None:
    found = lines.spec_decoding(line(SPEC, 7.0))
    assert found is not None
    assert (found.t, found.acceptance_length, found.accepted, found.drafted) == (7, 2.2, 2516, 6282)
    assert found.per_position == (0.607, 0.371, 0.224)
    assert found.draft_acceptance_rate == pytest.approx(0.401)
    assert found.accepted_tok_s == 251.59
    assert found.drafted_tok_s == 628.18


def test_another_order_and_missing_fields_do_not_shift_values() -> None:
    found = lines.spec_decoding(
        line("metrics: Drafted: 30 tokens, Mean acceptance length: 1.50, Accepted: 5 tokens")
    )
    assert found is not None
    assert (found.acceptance_length, found.accepted, found.drafted) == (1.5, 5, 30)
    assert found.per_position == ()
    assert found.draft_acceptance_rate is None


def test_nan_is_no_number() -> None:
    found = lines.spec_decoding(
        line(
            "SpecDecoding metrics: Mean acceptance length: nan, Accepted throughput: 0.00 tokens/s,"
            " Drafted throughput: 0.00 tokens/s, Accepted: 0 tokens, Drafted: 0 tokens, "
            "Per-position acceptance rate: nan, nan, Avg Draft acceptance rate: nan%"
        )
    )
    assert found is not None
    assert found.acceptance_length is None
    assert found.per_position == (None, None)
    assert found.draft_acceptance_rate is None
    assert found.drafted == 0


@pytest.mark.parametrize("cache", ["GPU KV cache", "CPU KV cache", "KV cache"])
def test_engine_line_whatever_the_cache_is_called(cache: str) -> None:
    found = lines.engine(
        line(
            "Engine 000: Avg prompt throughput: 74.0 tokens/s, Avg generation throughput: 1,461.0 "
            f"tokens/s, Running: 3 reqs, Waiting: 1 reqs, {cache} usage: 0.6%, "
            "Prefix cache hit rate: 40.3%"
        )
    )
    assert found is not None
    assert (found.prompt_tok_s, found.generation_tok_s) == (74.0, 1461.0)
    assert (found.running, found.waiting) == (3, 1)
    assert found.kv_cache_usage == pytest.approx(0.006)
    assert found.prefix_cache_hit_rate == pytest.approx(0.403)


def test_lines_come_in_time_order_not_by_value() -> None:
    texts = [(3.0, "5.09"), (1.0, "2.18"), (2.0, "1.00")]
    log = [line(f"SpecDecoding metrics: Mean acceptance length: {v}, x", t) for t, v in texts]
    assert [x.acceptance_length for x in lines.all_spec_decoding(log)] == [2.18, 1.0, 5.09]


@pytest.mark.parametrize(
    ("text", "backend", "kernel"),
    [
        ("Triton kernel JIT compilation during inference: _topk_topp_kernel", "Triton",
         "_topk_topp_kernel"),
        ("CuTeDSL JIT compilation during inference: f (shape 3)", "CuTeDSL", "f (shape 3)"),
    ],
)  # fmt: skip
def test_jit_line(text: str, backend: str, kernel: str) -> None:
    found = lines.jit(line(f"WARNING {text}. This causes a latency spike; consider warmup."))
    assert found is not None
    assert (found.backend, found.kernel) == (backend, kernel)
    assert found.name == kernel.removesuffix(" (shape 3)")


def test_ordinary_lines_hold_nothing() -> None:
    ordinary = line('INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK')
    assert lines.spec_decoding(ordinary) is None
    assert lines.engine(ordinary) is None
    assert lines.jit(ordinary) is None


def sample_logs(samples: Path) -> list[Path]:
    found = sorted(samples.glob("*/*/server.log"))
    assert len(found) >= 12
    return found


def read_plain(path: Path) -> list[LogLine]:
    return [
        line(text, float(i)) for i, text in enumerate(path.read_text(errors="replace").split("\n"))
    ]


def test_every_captured_statistics_line_parses(samples: Path) -> None:
    """Every field of every line has a number, unless the line itself says nan."""
    counted = {"spec": 0, "engine": 0, "CPU": 0, "GPU": 0}
    for path in sample_logs(samples):
        log = read_plain(path)
        spec = [x for x in log if "SpecDecoding metrics" in x.text]
        engine = [x for x in log if "Avg generation throughput" in x.text]
        assert len(lines.all_spec_decoding(log)) == len(spec)
        assert len(lines.all_engine(log)) == len(engine)
        for raw in spec:
            found = lines.spec_decoding(raw)
            assert found is not None
            listed = re.findall(r"[\d.]+|nan", raw.text.split("rate: ")[1].split(", Avg")[0])
            assert len(found.per_position) == len(listed) > 0
            values = (found.acceptance_length, found.accepted, found.drafted, *found.per_position)
            assert "nan" in raw.text or None not in values, raw.text
            if found.accepted and found.drafted:
                rate = found.draft_acceptance_rate
                assert rate == pytest.approx(found.accepted / found.drafted, abs=0.001)
        for raw in engine:
            parsed = lines.engine(raw)
            assert parsed is not None
            assert None not in vars(parsed).values(), raw.text
            counted["CPU"] += "CPU KV cache usage" in raw.text
            counted["GPU"] += "GPU KV cache usage" in raw.text
        counted["spec"] += len(spec)
        counted["engine"] += len(engine)
    assert counted["spec"] >= 46
    assert counted["CPU"] > 0
    assert counted["GPU"] > 0


def test_traits_of_the_captured_servers(samples: Path) -> None:
    def of(path: str) -> traits.EngineTraits:
        return traits.read(read_plain(samples / path / "server.log"))

    gpu = of("0.26.0-h200/vanilla")
    assert (gpu.vllm_version, gpu.runner, gpu.async_scheduling) == ("0.26.0", "V2", True)
    assert (gpu.kv_cache_tokens, gpu.jit_monitor) == (269_312, True)
    assert gpu.attention_backend == "FLASH_ATTN"
    ngram = of("0.26.0-h200/ngram-dummy-weights")
    assert (ngram.runner, ngram.async_scheduling) == ("V1", False)
    assert ngram.runner_reason is not None
    assert "ngram" in ngram.runner_reason
    cpu = of("0.32.0-cpu/vanilla")
    assert (cpu.vllm_version, cpu.runner, cpu.runner_reason) == ("0.32.0", "V1", "requires Triton")
    assert (cpu.jit_monitor, cpu.async_scheduling, cpu.enforce_eager) == (False, False, True)
    assert of("0.32.0-cpu/eagle3_spec").kv_cache_tokens == 838_784
    assert of("0.32.0-cpu/ngram_k6_4_6").async_scheduling is False
    assert of("0.27.1-cpu/vanilla").vllm_version == "0.27.1"


def test_the_captured_compile_is_found(samples: Path) -> None:
    found = lines.all_jit(read_plain(samples / "0.26.0-h200/ngram-dummy-weights/server.log"))
    assert [x.kernel for x in found] == ["rejection_greedy_sample_kernel"]


def test_a_line_of_megabytes_costs_no_time() -> None:
    """The pattern alone takes minutes for it (it grows with the square of the length)."""
    assert lines.jit(LogLine(0.0, "O", "x" * 3_000_000)) is None
