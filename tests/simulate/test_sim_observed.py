"""What the server says of itself (counters, log windows) against what the engine did."""

from __future__ import annotations

import asyncio
import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from specgauge.analyze.log import lines, traits
from specgauge.analyze.records import LogLine
from specgauge.simulate.arguments import parse
from specgauge.simulate.engine import Engine
from specgauge.simulate.logs import Log, StatsWindow
from specgauge.simulate.metrics import Metrics
from specgauge.simulate.outbox import Outbox
from specgauge.simulate.request import new_request
from specgauge.simulate.startup_log import after_loading, before_loading
from specgauge.simulate.surroundings import LogStyle
from specgauge.simulate.truth import Truth
from specgauge.simulate.virtual import VirtualStep, run_closed

PROMPT = 40


def run(engine: Engine, requests: int = 12, concurrency: int = 4) -> list[VirtualStep]:
    def make(index, now):
        ids = [50 + (index % 6) * 100 + i for i in range(PROMPT)]
        return new_request(
            engine.truth, engine.section, ids, 30, arrival=index + 1, now=now, ignore_eos=True
        )

    return run_closed(engine, make, requests, concurrency)


def engine_of(truth: dict, section: str = "vanilla", k: int = 0) -> Engine:
    return Engine(Truth.model_validate(truth), section, k, 256)


def samples(metrics: Metrics) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            assert not sample.name.startswith("vllm:") or sample.labels["model_name"] == "m"
            key = sample.name + sample.labels.get("position", "") + sample.labels.get("le", "")
            found[key] = found.get(key, 0.0) + sample.value
    return found


def test_counters_are_sums_of_what_happened():
    truth = {
        "variants": {"ngram": {"acceptance": [0.7, 0.5], "coverage": 0.4}},
        "preemptions": [{"after_tokens": 50, "requests": 2}],
    }
    engine = engine_of(truth, "ngram:2", 2)
    metrics = Metrics("m", engine)
    steps = run(engine)
    for passed in steps:
        metrics.observe(passed.step, passed.emissions, engine, passed.t_end)
    got = samples(metrics)
    emissions = [e for s in steps for e in s.emissions]
    drafts = [e.draft for e in emissions if e.draft is not None]
    assert got["vllm:generation_tokens_total"] == 12 * 30
    assert got["vllm:prompt_tokens_total"] == got["vllm:prefix_cache_queries_total"] == 12 * PROMPT
    assert got["vllm:prefix_cache_hits_total"] == 6 * 32  # each prompt a second time
    assert got["vllm:prompt_tokens_cached_total"] == 6 * 32
    assert got["vllm:num_preemptions_total"] == 2
    assert got["vllm:spec_decode_num_drafts_total"] == len(drafts)
    for j in range(2):
        name = f"vllm:spec_decode_num_accepted_tokens_per_pos_total{j}"
        assert got[name] == sum(d.accepted > j for d in drafts)
    gaps = [e.gap_s for e in emissions if e.gap_s is not None]
    assert got["vllm:inter_token_latency_seconds_count"] == len(gaps) == len(emissions) - 12
    assert got["vllm:inter_token_latency_seconds_sum"] == pytest.approx(sum(gaps))
    below = sum(g <= 0.01 for g in gaps)
    assert got["vllm:inter_token_latency_seconds_bucket0.01"] == below
    decode = got["vllm:request_decode_time_seconds_sum"]
    prefill = got["vllm:request_prefill_time_seconds_sum"]
    assert got["vllm:request_inference_time_seconds_sum"] == pytest.approx(decode + prefill)
    ttft = [e.request.t_first - e.request.t_arrival for e in emissions if e.first]
    assert got["vllm:time_to_first_token_seconds_sum"] == pytest.approx(sum(ttft))


def test_no_speculative_counters_without_speculation():
    engine = engine_of({})
    assert not [n for n in samples(Metrics("m", engine)) if "spec_decode" in n]


def window(style: dict, engine: Engine, until: float = 10.0) -> list[str]:
    stats = StatsWindow(LogStyle.model_validate(style), engine.drafter.k)
    stats.reset(0.0)
    for passed in run(engine):
        stats.observe(passed.step, passed.emissions)
    return [text for text, _ in stats.messages(engine, until)]


def line(text: str) -> LogLine:
    return LogLine(0.0, "O", text)


def test_window_lines_are_read_back_with_their_figures():
    truth = {"variants": {"ngram": {"acceptance": [0.7, 0.5], "coverage": 0.4}}}
    engine = engine_of(truth, "ngram:2", 2)
    throughput, speculation = window({"device": "CPU"}, engine)
    assert "CPU KV cache usage" in throughput
    read = lines.engine(line(throughput))
    assert read is not None
    assert read.generation_tok_s == pytest.approx(36.0)
    assert read.prompt_tok_s == pytest.approx((12 * PROMPT - 6 * 32) / 10, abs=0.05)
    assert (read.running, read.waiting) == (0, 0)
    assert read.prefix_cache_hit_rate == pytest.approx(6 * 32 / (12 * PROMPT), abs=0.001)
    drafted = lines.spec_decoding(line(speculation))
    again = [e.draft for s in run(engine_of(truth, "ngram:2", 2)) for e in s.emissions if e.draft]
    accepted = sum(d.accepted for d in again)
    assert drafted is not None
    assert (drafted.accepted, drafted.drafted) == (accepted, 2 * len(again))
    assert drafted.acceptance_length == pytest.approx(1 + accepted / len(again), abs=0.005)
    assert len(drafted.per_position) == 2


def test_older_wording_and_nan():
    quiet = {"variants": {"ngram": {"coverage": 0}}}
    assert len(window({}, engine_of(quiet, "ngram:2", 2))) == 1
    for wording in ("0.9", "0.32"):
        style = {"undrafted": "nan", "wording": wording}
        text = window(style, engine_of(quiet, "ngram:2", 2))[1]
        read = lines.spec_decoding(line(text))
        assert read is not None
        assert (read.accepted, read.drafted) == (0, 0)
        assert read.acceptance_length is None
        assert read.draft_acceptance_rate is None
        assert "nan" in text


def test_an_idle_server_falls_silent():
    engine = engine_of({})
    stats = StatsWindow(LogStyle(), 0)
    assert [len(stats.messages(engine, 10.0 * n)) for n in range(1, 4)] == [1, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "style", "runner", "scheduling"),
    [
        ([], {}, "V2", True),
        (["--no-async-scheduling"], {}, "V2", False),
        ([], {"device": "CPU"}, "V1", True),
        (
            ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}'],
            {},
            "V1",
            False,
        ),
    ],
)
def test_start_up_lines_state_the_traits(arguments, style, runner, scheduling, capsys):
    truth = Truth.model_validate({"version": "0.27.1", "log": {"wording": "0.27", **style}})
    given = parse(["m", *arguments], {})
    before_loading(Log(), truth, given)
    after_loading(Log(), truth, given, 1.0, 8000)
    read = traits.read(line(text) for text in capsys.readouterr().out.splitlines())
    assert read.vllm_version == "0.27.1"
    assert read.runner == runner
    assert read.async_scheduling is scheduling
    assert read.kv_cache_tokens == 265_200
    assert read.jit_monitor is (style == {})


def test_a_slow_reader_gets_fewer_larger_chunks():
    request = new_request(Truth(), "vanilla", [1, 2], 10, arrival=1, now=0.0)

    async def slow():
        outbox = Outbox(request, 0.0, None)
        outbox.put((5,), None)
        outbox.put((6, 7), None)
        both = await outbox.take()
        outbox.put((8,), "length")
        return both, await outbox.take()

    both, last = asyncio.run(slow())
    assert (both.token_ids, both.steps, both.finished) == ((5, 6, 7), 2, None)
    assert (last.token_ids, last.steps, last.finished) == ((8,), 1, "length")


def test_prompts_differ_in_coverage_as_planted():
    truth = {"variants": {"ngram": {"acceptance": [1], "coverage": 0.5, "coverage_spread": 0.8}}}
    engine = engine_of(truth, "ngram:1", 1)
    shares = []
    for index in range(60):
        request = new_request(
            engine.truth, "ngram:1", [index * 7 + 20, 3], 400, arrival=index + 1, now=0.0
        )
        drafts = [engine.drafter.draw(request.rng, request.coverage_factor) for _ in range(400)]
        shares.append(sum(d is not None for d in drafts) / 400)
    mean = sum(shares) / 60
    assert mean == pytest.approx(0.5, abs=0.09)
    # A uniform factor in 1 -/+ 0.8 has a standard deviation of 0.8 / sqrt(3).
    spread = math.sqrt(sum((s - mean) ** 2 for s in shares) / 59)
    assert spread == pytest.approx(0.5 * 0.8 / math.sqrt(3), rel=0.3)
