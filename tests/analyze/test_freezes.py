"""Freezes: found with their length where planted, named for their cause, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench_json import h200, vllm_bench
from frozen import stop
from synthetic_run import Built, Event, Plant, build_cell, scrapes

from specgauge.analyze import confirmation, freezes, prefill, silences, validity
from specgauge.analyze.context import CellContext, StartContext
from specgauge.analyze.counters import Counters
from specgauge.analyze.derived import derive
from specgauge.analyze.document import Reason
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.records import CellRecord, LoadSetup, LogLine, RunSetup, StartRecord
from specgauge.record.documents import CacheState, Launch

T0 = 1000.0
PLANT = Plant(requests=20, concurrency=4, output_tokens=64, step_s=0.02, ttft_s=0.04)
KERNEL = "_topk_topp_kernel"


def jit_line(t: float, kernel: str = KERNEL) -> LogLine:
    text = f"WARNING [jit_monitor.py:135] Triton kernel JIT compilation during inference: {kernel}."
    return LogLine(t, "O", f"{text} This causes a latency spike; consider extending warmup.")


def context(
    built: Built, *, log: tuple[LogLine, ...] = (), repeat: Built | None = None, first: bool = False
) -> CellContext:
    document = built.record.document
    assert document is not None
    metrics = scrapes(built.events, document.t_begin - 1, document.t_end + 1).to_pandas()
    confirmations: tuple[CellRecord, ...] = (repeat.record,) if repeat else ()
    start = StartRecord("vanilla", 0, None, None, log, metrics, (built.record,),
                        confirmations=confirmations)  # fmt: skip
    setup = RunSetup("e", "r", "m", "vanilla", (), (LoadSetup(built.record.load, 20, 4),))
    traits = EngineTraits(jit_monitor=True)
    pool = prefill.samples(built.record.requests, built.record.chunks, None)
    pool += (prefill.Sample(1.0, 4000, 0.2),)
    return CellContext(built.record, StartContext(start, Counters(metrics), traits), setup, None,
                       first, pool)  # fmt: skip


def freeze_reasons(cell: CellContext) -> list[Reason]:
    return [r for r in validity.check_cell(cell) if r.code == "FREEZE"]


@pytest.mark.parametrize("seconds", [0.5, 1.0, 3.2])
def test_a_freeze_between_chunks_has_its_length(seconds: float) -> None:
    cell = context(stop(build_cell(PLANT), T0 + 0.7, seconds))
    (found,) = cell.freezes
    assert found.silence.kind == "after-token"
    assert found.seconds == pytest.approx(seconds, abs=max(0.05 * seconds, 0.05))
    (reason,) = freeze_reasons(cell)
    assert reason.severity == "suspect"
    assert reason.t0 == pytest.approx(0.7, abs=0.03)
    assert reason.evidence["from"] == "chunks"
    assert "Witnesses: server's generated tokens agrees" in reason.detail or seconds == 0.5


def test_a_freeze_before_any_token_is_ttft() -> None:
    cell = context(stop(build_cell(PLANT), T0 + 0.01, 1.5), first=True)
    (found,) = cell.freezes
    assert found.silence.kind == "before-token"
    assert found.silence.pending == (0, 1, 2, 3)
    assert found.where == ("arrival", "other")
    assert found.seconds == pytest.approx(1.5, abs=0.05)
    (reason,) = freeze_reasons(cell)
    assert reason.evidence["from"] == "prefill rate"
    assert reason.cause == "FIRST_CALL"


def test_lines_inside_are_its_cause_and_several_may_share_one() -> None:
    frozen = stop(build_cell(PLANT), T0 + 0.7, 1.0)
    inside = context(frozen, log=(jit_line(T0 + 1.6), jit_line(T0 + 1.75, "other_kernel")))
    (reason,) = freeze_reasons(inside)
    assert reason.cause == "JIT"
    assert f"{KERNEL}, other_kernel" in reason.detail
    assert "JIT" not in [r.code for r in validity.check_cell(inside)]
    after = context(frozen, log=(jit_line(T0 + 2.0),))
    (reason,) = freeze_reasons(after)
    assert reason.cause is None
    (alone,) = [r for r in validity.check_cell(after) if r.code == "JIT"]
    assert alone.severity == "info"


def test_a_line_between_two_freezes_is_the_second_ones() -> None:
    """50 ms after the first one's end and inside the next: not both."""
    once = stop(build_cell(PLANT), T0 + 0.7, 1.0)
    end = context(once).freezes[0].silence.t1
    cell = context(stop(once, end + 0.001, 1.0), log=(jit_line(end + 0.05),))
    first, second = cell.freezes
    assert second.silence.t0 == pytest.approx(end)
    assert [len(cell.jit_lines_in(f)) for f in (first, second)] == [0, 1]
    assert [r.cause for r in freeze_reasons(cell)] == [None, "JIT"]


def test_a_clean_cell_has_none_whatever_its_log_says() -> None:
    cell = context(build_cell(PLANT), log=(jit_line(T0 + 0.5),))
    assert not cell.freezes
    assert validity.verdict(validity.check_cell(cell)) == "VALID"
    assert derive(cell, []) is None


def test_under_one_percent_it_is_info() -> None:
    long = replace(PLANT, requests=40, output_tokens=400)
    cell = context(stop(build_cell(long), T0 + 0.7, 0.5))
    (reason,) = freeze_reasons(cell)
    assert reason.severity == "info"
    derived = derive(cell, validity.check_cell(cell))
    assert derived is not None
    assert derived.verdict == "VALID"


@pytest.mark.parametrize("seed", range(0, 20, 3))
def test_at_twice_the_threshold_always_under_half_of_it_never(seed: int) -> None:
    step = 0.01 + 0.002 * seed
    plant = replace(PLANT, seed=seed, step_s=step, k=seed % 3, coverage=0.4)
    limit = freezes.threshold(step)
    built = build_cell(plant)
    at = T0 + 0.05 + 0.11 * seed
    assert len(context(stop(built, at, 2 * limit)).freezes) == 1
    assert not context(stop(built, at, 0.5 * limit)).freezes


def test_prefill_that_entered_is_taken_off() -> None:
    """Long prompts read at 2000 tokens/s: seconds of silence, and nothing froze."""
    slow = replace(
        PLANT, prompt_tokens=2000, ttft_s=1.02, concurrency=1, requests=8, cached_share=0
    )
    built = build_cell(slow)
    assert silences.find(built.record.requests, built.record.chunks, 0.5)
    assert not context(built).freezes
    frozen = stop(built, T0 + 0.01, 2.0)
    (found,) = context(frozen).freezes
    assert found.prefill_s == pytest.approx(1.0, rel=0.05)
    assert found.seconds == pytest.approx(2.0, abs=0.1)


def test_without_any_other_prefill_a_wait_for_first_tokens_is_not_judged() -> None:
    built = stop(build_cell(replace(PLANT, requests=1, concurrency=1)), T0 + 0.01, 2.0)
    requests, chunks = built.record.requests, built.record.chunks
    pool = prefill.samples(requests, chunks, None)
    assert not freezes.find(requests, chunks, None, pool)


def test_idle_time_between_requests_is_no_silence() -> None:
    built = build_cell(replace(PLANT, requests=4, concurrency=1, idle_s=3.0))
    assert not silences.find(built.record.requests, built.record.chunks, 0.25)


def repeat_of(built: Built, **stops: float) -> Built:
    again = build_cell(PLANT, t0=T0 + 60)
    return stop(again, T0 + 60 + stops["at"], stops["seconds"]) if stops else again


def test_confirmation_words() -> None:
    frozen = stop(build_cell(PLANT), T0 + 0.01, 1.5)
    none = context(frozen, repeat=repeat_of(frozen))
    assert none.confirmation is not None
    # No counters of the repeat: whether its cache was alike is not known for a wait before tokens.
    assert none.confirmation.word == "UNCONFIRMED"
    seen = {
        "RECURS": context(repeat_of(frozen, at=0.01, seconds=1.0)).freezes,
        "NEW STALL": context(repeat_of(frozen, at=0.7, seconds=1.0)).freezes,
        "CONFIRMED ONE-OFF": [],
    }
    for word, repeat in seen.items():
        assert confirmation.judge(none.freezes, repeat, True).word == word


def test_a_confirmed_one_off_is_corrected_from_its_repeat() -> None:
    frozen = stop(build_cell(PLANT), T0 + 0.01, 1.5)
    repeat = repeat_of(frozen)
    both = [replace(b, record=replace(b.record, document=b.record.document.model_copy(
        update={"prefix_cache_was_reset": True}))) for b in (frozen, repeat)
        if b.record.document is not None]  # fmt: skip
    cell = replace(context(both[0], repeat=both[1]))
    assert cell.confirmation is not None
    reasons = validity.check_cell(cell)
    derived = derive(cell, reasons)
    assert derived is not None
    assert derived.from_ == "confirming repeat"
    assert derived.frozen_s == pytest.approx(1.5, abs=0.01)
    assert (derived.confirmation, derived.verdict) == ("CONFIRMED ONE-OFF", "VALID")
    clean = build_cell(PLANT).truth["output_tok_s"]
    assert derived.output_tok_s == pytest.approx(clean, rel=0.005)
    assert validity.verdict(reasons) == "SUSPECT"


def test_a_new_file_of_a_compile_cache_is_a_witness() -> None:
    cell = context(stop(build_cell(PLANT), T0 + 0.7, 1.0))
    state = CacheState(
        path="t",
        files=1,
        bytes=1,
        newest=T0 + 509.0,
        written=[T0 + 499.0, T0 + 501.4, T0 + 501.5, T0 + 509.0],
    )
    launch = Launch(id="x", argv=[], env={}, started_at=0, clock_offset=500.0, cache_after=[state])
    start = replace(cell.start, record=replace(cell.start.record, launch=launch))
    (reason,) = freeze_reasons(replace(cell, start=start))
    assert reason.evidence["witness compile cache"] == "agrees"


def test_a_server_that_waited_for_a_cpu_is_the_cause() -> None:
    built = stop(build_cell(PLANT), T0 + 0.7, 2.0)
    waits = ("specgauge_cpu_wait_seconds_total", '{"pid":"7","process":"VLLM::EngineCor"}')
    before, after = Event(T0, {waits: 0.0}), Event(T0 + 2.5, {waits: 1.8})
    events = sorted([*built.events, before, after], key=lambda e: e.t)
    (reason,) = freeze_reasons(context(replace(built, events=events)))
    assert reason.cause == "SERVER_STARVED"


def test_batch_classes() -> None:
    classes = [freezes.batch_class(n) for n in (1, 15, 16, 17, 64)]
    assert classes == ["one", "other", "multiple_of_16", "other", "multiple_of_16"]


def captured(samples: Path, variant: str) -> dict[str, tuple[CellRecord, float | None]]:
    hits = 1536 if variant.startswith("eagle3") else 1792
    found = {}
    for load, hit_rate in (("c1", None), ("c16a", None), ("c16b", hits / 1974)):
        requests, chunks, _ = h200(samples / "0.26.0-h200" / variant / f"{load}.json.gz")
        found[load] = CellRecord(variant, 0, load, 0, None, requests, chunks), hit_rate
    return found


@pytest.mark.parametrize(
    ("variant", "lengths"),
    [("vanilla", {}), ("eagle3-synthetic", {}), ("ngram-dummy-weights", {"c1": [1.65, 0.395]})],
)
def test_h200_captures(samples: Path, variant: str, lengths: dict[str, list[float]]) -> None:
    """The first request's numba compile and the 417 ms of rejection_greedy_sample_kernel."""
    cells = captured(samples, variant)
    pool = tuple(
        s for r, hits in cells.values() for s in prefill.samples(r.requests, r.chunks, hits)
    )
    for load, (record, hits) in cells.items():
        found = freezes.find(record.requests, record.chunks, hits, pool)
        assert [f.seconds for f in found] == pytest.approx(lengths.get(load, []), abs=0.02)


def test_clean_cpu_captures_have_none(samples: Path) -> None:
    files = sorted((samples / "0.27.1-cpu").glob("*/bench_spec_bench_*.json"))
    assert len(files) == 8
    for file in files:
        requests, chunks, _ = vllm_bench(file)
        pool = prefill.samples(requests, chunks, None)
        assert not freezes.find(requests, chunks, None, pool)
