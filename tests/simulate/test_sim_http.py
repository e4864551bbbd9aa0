"""One server, everything a client sees: streams, counters, cache, log lines, truth log."""

from __future__ import annotations

import json
import re

import pytest
from sim_client import body, get, lasted, metrics, post, stream, together

from specgauge.simulate.running import running
from specgauge.simulate.tokens import tokenize

K = 3
SPECULATIVE = json.dumps({"method": "ngram", "num_speculative_tokens": K})
TRUTH = {
    "version": "0.31.9",
    "step_ms": {"1": 4, "16": 6},
    "variants": {"ngram": {"coverage": 0.5, "acceptance": [0.8, 0.6, 0.4]}},
    "log": {"interval_s": 0.5, "device": "CPU"},
}


@pytest.fixture(scope="module")
def server():
    with running(TRUTH, ["--speculative-config", SPECULATIVE, "--max-num-seqs", "8"]) as it:
        yield it


def prompt(number: int, length: int = 40) -> list[int]:
    return [100 + number * 64 + i for i in range(length)]


def test_stream_is_as_vllm_sends_it(server):
    got = stream(server.url, body(prompt(0), 50))
    assert got.done
    assert len(got.token_ids) == 50
    assert got.chunks[0] == 1
    assert max(got.chunks) <= K + 1
    assert got.usage == {"prompt_tokens": 40, "total_tokens": 90, "completion_tokens": 50}
    first, *middle, last, usage = got.events
    assert first["choices"][0]["prompt_token_ids"] == prompt(0)
    assert all(e["choices"][0]["prompt_token_ids"] is None for e in middle)
    assert last["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert set(first) == {"id", "object", "created", "model", "choices"}
    assert set(first["choices"][0]) == {
        *("index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids"),
        "token_ids",
    }


def test_whole_answer_has_the_same_tokens(server):
    streamed = stream(server.url, body(prompt(1), 20))
    status, whole = post(server.url, "/v1/completions", {**body(prompt(1), 20), "stream": False})
    assert status == 200
    assert whole["choices"][0]["token_ids"] == streamed.token_ids
    assert whole["usage"]["completion_tokens"] == 20


def test_ids_are_sent_only_when_asked_for(server):
    value = {**body(prompt(2), 3), "stream": False}
    del value["return_token_ids"]
    assert post(server.url, "/v1/completions", value)[1]["choices"][0]["token_ids"] is None


def test_counters_agree_with_the_streams_and_the_truth(server):
    before, seen = metrics(server.url), len(server.truth_lines())
    got = together(server.url, [body(prompt(10 + i), 40) for i in range(8)])
    after = metrics(server.url)
    delta = {name: after[name] - before.get(name, 0) for name in after}
    lines = server.truth_lines()[seen:]
    steps = [line for line in lines if line["kind"] == "step"]
    chunks = [line for line in lines if line["kind"] == "chunk"]
    tokens = sum(len(g.token_ids) for g in got)
    assert tokens == 320 == delta["vllm:generation_tokens_total"]
    assert tokens == sum(s["tokens"] for s in steps) == sum(c["tokens"] for c in chunks)
    assert delta["vllm:prompt_tokens_total"] == 8 * 40
    assert delta["vllm:request_success_total"] == 8
    assert delta["vllm:time_to_first_token_seconds_count"] == 8
    decode = sum(len(g.chunks) - 1 for g in got)
    assert delta["vllm:inter_token_latency_seconds_count"] == decode
    drafts = sum(s["drafts"] for s in steps)
    accepted = sum(s["accepted"] for s in steps)
    assert delta["vllm:spec_decode_num_drafts_total"] == drafts
    assert delta["vllm:spec_decode_num_draft_tokens_total"] == K * drafts
    assert delta["vllm:spec_decode_num_accepted_tokens_total"] == accepted
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    assert sum(delta[f"{name}[{j}]"] for j in range(K)) == accepted
    cut = accepted - sum(n - 1 for g in got for n in g.chunks[1:])
    assert 0 <= cut <= K * 8


def test_step_times_reach_the_client(server):
    seen = len(server.truth_lines())
    got = stream(server.url, body(prompt(3), 60))
    steps = [line for line in server.truth_lines()[seen:] if line["kind"] == "step"]
    planned = sum(s["planned_s"] for s in steps)
    assert planned == pytest.approx(0.004 * len(steps) + 40 / 20_000)
    # An absolute schedule: the whole keeps its time even where single steps came late.
    assert lasted(steps[-1]["t1"] - steps[0]["t0"], planned)
    chunks = [line for line in server.truth_lines()[seen:] if line["kind"] == "chunk"]
    assert lasted(got.times[-1] - chunks[0]["t"], planned - 0.006)
    assert all(0 <= t - c["t"] < 0.3 for t, c in zip(got.times, chunks, strict=True))


def test_prefix_cache_hits_and_reset(server):
    def hits_of(number):
        before = metrics(server.url)
        stream(server.url, body(prompt(number, 64), 2))
        after = metrics(server.url)
        return (
            after["vllm:prefix_cache_queries_total"] - before["vllm:prefix_cache_queries_total"],
            after["vllm:prefix_cache_hits_total"] - before["vllm:prefix_cache_hits_total"],
        )

    assert [hits_of(30), hits_of(30)] == [(64, 0), (64, 48)]
    assert post(server.url, "/reset_prefix_cache", {})[1] == {"success": True}
    assert hits_of(30) == (64, 0)


def test_text_and_ids_are_the_same_prompt(server):
    text = "Tell me a story about a lighthouse."
    status, answer = post(server.url, "/tokenize", {"model": "model", "prompt": text})
    assert status == 200
    assert answer["count"] == len(answer["tokens"]) > 0
    by_text = stream(server.url, body(text, 5))
    assert by_text.token_ids == stream(server.url, body(answer["tokens"], 5)).token_ids
    chat = post(server.url, "/tokenize", {"messages": [{"role": "user", "content": text}]})[1]
    rendered = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    assert chat["tokens"] == tokenize(rendered, 32_000)


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"model": "other"}, 404, "NotFoundError"),
        ({"max_tokens": 0}, 400, "BadRequestError"),
        ({"prompt": []}, 400, "BadRequestError"),
        ({"max_tokens": 8190}, 400, "BadRequestError"),
    ],
)
def test_errors_are_as_vllm_words_them(server, change, status, kind):
    code, answer = post(server.url, "/v1/completions", body(prompt(0), 5, **change))
    assert (code, answer["error"]["type"], answer["error"]["code"]) == (status, kind, status)


def test_small_endpoints(server):
    assert get(server.url, "/health")[0] == 200
    assert json.loads(get(server.url, "/version")[1]) == {"version": "0.31.9"}
    assert json.loads(get(server.url, "/v1/models")[1])["data"][0]["id"] == "model"
    exposition = get(server.url, "/metrics")[1].decode()
    assert "vllm:generation_tokens_created" in exposition
    assert 'vllm:inter_token_latency_seconds_bucket{engine="0",le="0.025"' in exposition


def test_log_has_the_lines_that_a_reader_looks_for(server):
    stream(server.url, body(prompt(5), 200))
    log = server.log
    for text in (
        "version 0.31.9",
        "Async scheduling not supported with ngram-based speculative decoding",
        "using the V1 model runner instead.",
        "CPU KV cache size: 265,200 tokens",
        "Application startup complete.",
        'POST /v1/completions HTTP/1.1" 200 OK',
    ):
        assert text in log
    assert "JIT monitor activated" not in log  # never on a CPU
    drafted = re.findall(r"SpecDecoding metrics: .*Accepted: (\d+) tokens, Drafted: (\d+)", log)
    rates = re.findall(r"Avg generation throughput: ([\d.]+) tokens/s", log)
    steps = server.truth_lines("step")
    assert 0 < sum(int(a) for a, _ in drafted) <= sum(s["accepted"] for s in steps)
    assert 0 < sum(float(r) for r in rates) * 0.5 <= 1.1 * sum(s["tokens"] for s in steps)
