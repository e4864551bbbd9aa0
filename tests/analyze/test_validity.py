"""Each check sees its plant, and does not see it in a clean cell."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from contexts import CLEAN, WATCHED, changed, codes, context, reason
from synthetic_run import Plant, build_cell

from specgauge.analyze import validity
from specgauge.analyze.context import CellContext, StartContext
from specgauge.analyze.counters import Counters
from specgauge.analyze.figures import observe
from specgauge.analyze.log.traits import EngineTraits
from specgauge.record.schema import METRICS


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("k", [0, 6])
def test_a_clean_cell_is_valid(concurrency: int, k: int) -> None:
    plant = replace(CLEAN, concurrency=concurrency, k=k, coverage=0.3)
    cell = context(build_cell(plant, variant="ngram" if k else "vanilla"))
    found = validity.check_cell(cell)
    assert {r.code for r in found} <= {"TOO_FEW"}
    assert validity.verdict(found) == "VALID"


def test_a_clean_open_cell_is_valid() -> None:
    cell = context(build_cell(Plant(requests=20, concurrency=None, rate=2.0)))
    assert validity.verdict(validity.check_cell(cell)) == "VALID"


def test_incomplete_names_what_happened() -> None:
    built = build_cell(CLEAN)
    failed = context(built, requests=changed(built, 3, state="failed", error="HTTP 500: dead"))
    seen = reason(failed, "INCOMPLETE")
    assert seen.severity == "invalid"
    assert "1 failed" in seen.detail
    assert "HTTP 500: dead" in seen.detail
    cut = context(built, requests=changed(built, 3, state="cut"))
    assert "1 cut off" in reason(cut, "INCOMPLETE").detail
    missing = context(built, requests=built.record.requests.iloc[:-2])
    assert reason(missing, "INCOMPLETE").evidence["missing"] == 2
    retried = context(built, requests=changed(built, 3, index=2))
    assert reason(retried, "INCOMPLETE").evidence["retried"] == 1
    stopped = context(built, document={"state": "incomplete", "error": "the server died"})
    assert "the server died" in reason(stopped, "INCOMPLETE").detail


def test_incomplete_without_a_document() -> None:
    built = build_cell(CLEAN)
    cell = context(built)
    nameless = CellContext(replace(cell.cell, document=None), cell.start, cell.setup)
    assert "never finished" in reason(nameless, "INCOMPLETE").detail


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"usage_completion_tokens": 63}, "1 of 20 requests"),
        ({"output_tokens": 60, "usage_completion_tokens": 60}, "do not add up"),
        ({"usage_prompt_tokens": 39}, "another length"),
        ({"max_tokens": 65}, "shorter than asked"),
        ({"max_tokens": 63}, "longer than asked"),
    ],
)
def test_token_mismatch_within_the_records(values: dict[str, object], words: str) -> None:
    built = build_cell(CLEAN)
    seen = reason(context(built, requests=changed(built, 4, **values)), "TOKEN_MISMATCH")
    assert seen.severity == "invalid"
    assert words in seen.detail


def test_an_output_that_stopped_by_itself_is_no_mismatch() -> None:
    built = build_cell(CLEAN)
    requests = changed(built, 4, max_tokens=100, finish_reason="stop")
    assert "TOKEN_MISMATCH" not in codes(context(built, requests=requests))


def test_the_servers_counter_must_agree() -> None:
    built = build_cell(CLEAN)
    seen = reason(context(built, extra={"vllm:generation_tokens_total": 5.0}), "TOKEN_MISMATCH")
    assert f"{20 * 64} token ids streamed, the server generated {20 * 64 + 5}" in seen.detail


def test_foreign_requests_are_named_and_explain_the_tokens() -> None:
    built = build_cell(CLEAN)
    cell = context(
        built,
        extra={
            "vllm:request_success_total": 2.0,
            "vllm:prompt_tokens_total": 90.0,
            "vllm:generation_tokens_total": 40.0,
        },
    )
    seen = reason(cell, "FOREIGN_TRAFFIC")
    assert seen.severity == "invalid"
    assert seen.evidence == {"requests": 2, "prompt_tokens": 90}
    assert "TOKEN_MISMATCH" not in codes(cell)


def test_first_call_taken_by_the_warmup_is_told() -> None:
    warm = tuple(
        build_cell(Plant(requests=1, ttft_s=ttft), load="warmup", repeat=i).record
        for i, ttft in enumerate((1.8, 0.1))
    )
    built = build_cell(CLEAN)
    seen = reason(context(built, warmup=warm, first=True), "FIRST_CALL")
    assert seen.severity == "info"
    assert seen.evidence["cost_s"] == pytest.approx(1.7)
    assert seen.detail.endswith("it was a warm-up request.")
    assert "FIRST_CALL" not in codes(context(built, warmup=warm, first=False))
    assert "FIRST_CALL" not in codes(context(built, warmup=warm[1:] * 2, first=True))


def test_first_call_inside_a_measured_cell_is_suspect() -> None:
    built = build_cell(CLEAN)
    requests = changed(built, 0, t_first=built.record.requests["t_send"].iloc[0] + 1.7)
    seen = reason(context(built, requests=requests, first=True), "FIRST_CALL")
    assert seen.severity == "suspect"
    assert seen.t1 == pytest.approx(1.7)
    assert "FIRST_CALL" not in codes(context(built, requests=requests, first=False))
    assert "FIRST_CALL" not in codes(context(built, first=True))


def test_the_first_request_sent_again_decides() -> None:
    built = build_cell(CLEAN)
    begin = built.record.requests["t_send"].iloc[0]
    slow = changed(built, 0, t_first=begin + 1.7)
    fast_again, slow_again = (
        build_cell(Plant(requests=1, ttft_s=ttft), load="first-call").record for ttft in (0.1, 1.6)
    )
    seen = reason(context(built, requests=slow, first=True, again=fast_again), "FIRST_CALL")
    assert seen.severity == "suspect"
    assert seen.evidence["cost_s"] == pytest.approx(1.6)
    long_prompt = context(built, requests=slow, first=True, again=slow_again)
    assert "FIRST_CALL" not in codes(long_prompt)
    assert "FIRST_CALL" not in codes(context(built, first=True, again=fast_again))


def test_a_repeat_from_the_prefix_cache_needs_the_neighbours_word() -> None:
    """Long prompts: the first takes 1.7 s to read as all others do, the repeat's is cached."""
    built = build_cell(replace(CLEAN, ttft_s=1.7))
    cached = build_cell(Plant(requests=1, ttft_s=0.1), load="first-call").record
    assert "FIRST_CALL" not in codes(context(built, first=True, again=cached))
    assert cached.document is not None
    emptied = cached.document.model_copy(update={"prefix_cache_was_reset": True})
    read_again = replace(cached, document=emptied)
    assert reason(context(built, first=True, again=read_again), "FIRST_CALL").t1 == (
        pytest.approx(1.7)
    )


def test_preemptions() -> None:
    cell = context(build_cell(CLEAN), extra={"vllm:num_preemptions_total": 3.0})
    assert reason(cell, "PREEMPTED").evidence["preemptions"] == 3


def test_merged_chunks_taint_step_figures_only() -> None:
    built = build_cell(CLEAN)
    chunks = built.record.chunks.copy()
    drop = chunks["seq"] % 10 == 5
    chunks.loc[chunks["seq"] % 10 == 6, "tokens"] = 2
    cell = context(built, chunks=chunks[~drop])
    seen = reason(cell, "COALESCED")
    assert (seen.severity, seen.scope) == ("suspect", "step")
    assert validity.verdict(validity.check_cell(cell)) == "VALID"


def test_step_figures_of_merged_chunks_are_the_servers() -> None:
    """Every tenth step leaves with the next one: the stream shows too few steps, all too long."""
    built = build_cell(replace(CLEAN, k=6, coverage=0.4), variant="ngram")
    chunks = built.record.chunks.copy()
    held = (chunks["seq"] % 10 == 5) & (chunks["seq"].shift(-1) == chunks["seq"] + 1)
    after = held.shift(1, fill_value=False)
    chunks.loc[after, "tokens"] += chunks.loc[held, "tokens"].to_numpy()
    cell = context(built, chunks=chunks[~held])
    clean, seen = observe(context(built)), observe(cell)
    assert (clean.steps_from, seen.steps_from) == ("stream", "server")
    assert seen.tokens_per_step == pytest.approx(clean.tokens_per_step, rel=1e-6)
    assert seen.draft_coverage == pytest.approx(clean.draft_coverage, rel=1e-6)
    check = seen.acceptance_check
    assert check is not None
    assert check.identity == pytest.approx(check.tokens_per_step, abs=0.05)
    assert seen.step_ms.mean == pytest.approx(30.0)
    assert seen.step_ms.p50 == pytest.approx(30.0)  # wherever the hidden steps lie
    assert (seen.step_ms.p90, seen.step_ms.p99) == (None, None)
    assert seen.tpot_ms.mean == pytest.approx(clean.tpot_ms.mean)
    assert "by the server's own count" in reason(cell, "COALESCED").detail
    unwatched = CellContext(
        cell.cell, StartContext(cell.start.record, Counters(pd.DataFrame(columns=METRICS.names)),
                                WATCHED), cell.setup)  # fmt: skip
    assert observe(unwatched).steps_from == "stream"


@pytest.mark.parametrize(("off", "seen"), [(0, False), (120, False), (121, True), (-1, True)])
def test_accepted_tokens_that_differ_taint_step_figures_only(off: int, seen: bool) -> None:
    """``off``: tokens that the server accepted and no chunk shows; 20 requests x K 6 may be cut."""
    built = build_cell(replace(CLEAN, k=6, coverage=0.5), variant="ngram")
    cut = int(built.truth["accepted"] - built.truth["stream_accepted"])
    name = "vllm:spec_decode_num_accepted_tokens_total"
    cell = context(built, extra={name: float(off - cut)})
    assert ("ACCEPTANCE_MISMATCH" in codes(cell)) is seen
    if seen:
        found = reason(cell, "ACCEPTANCE_MISMATCH")
        assert (found.severity, found.scope) == ("suspect", "step")
        assert found.evidence["accepted_server"] == built.truth["stream_accepted"] + off
        assert validity.verdict(validity.check_cell(cell)) == "VALID"


def test_monitor_off_is_unknown_and_taints_nothing() -> None:
    cell = context(build_cell(CLEAN), own=EngineTraits())
    assert reason(cell, "MONITOR_OFF").severity == "unknown"
    assert validity.verdict(validity.check_cell(cell)) == "VALID"


def test_too_few_strikes_only_what_it_names() -> None:
    seen = reason(context(build_cell(Plant(requests=16))), "TOO_FEW")
    assert (seen.severity, seen.scope) == ("info", "claim")
    assert "p50 (20)" in seen.detail
    assert "p90 (100)" in seen.detail
    assert "full-batch" not in seen.detail
    small = build_cell(Plant(requests=15, concurrency=4))
    assert "full-batch throughput (16)" in reason(context(small), "TOO_FEW").detail
