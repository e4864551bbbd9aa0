"""Degenerate output, a batch that is not full, a server without a CPU: planted, found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contexts import codes, context, reason
from synthetic_run import Built, Event, Plant, build_cell

from specgauge.analyze import degenerate, latency, validity
from specgauge.analyze.validity import preempted
from specgauge.analyze.validity.degenerate import check_speedup
from specgauge.calibrate.virtual_start import VirtualStart
from specgauge.simulate.tokens import EOS
from specgauge.simulate.truth import Truth

PROSE = list(range(1000, 1200))


def test_onset() -> None:
    assert degenerate.onset(PROSE) is None
    loop = PROSE[:50] + [7, 8, 9] * 40
    assert degenerate.onset(loop) == pytest.approx(53, abs=1)
    assert degenerate.onset([*PROSE[:30], 2, *PROSE[30:]], eos=(2,)) == 31
    assert degenerate.onset([*PROSE, 2], eos=(2,)) is None
    quoted = PROSE + PROSE[:20] + list(range(2000, 2200))
    assert degenerate.onset(quoted) is None


def test_lists_of_like_entries_are_no_loop() -> None:
    """JSON objects: ten tokens of keys that come again, five of values that do not."""
    keys = list(range(500, 510))
    entries = [[*keys, *range(1000 + 10 * i, 1005 + 10 * i)] for i in range(20)]
    closed = [t for entry in entries for t in entry] + [*keys, 3, 4, 5]
    assert degenerate.onset(closed) is None
    same = [t for _ in range(20) for t in entries[0]]
    assert degenerate.onset(same) == 15


def cell_of(truth: dict, requests: int = 8):
    planted = Truth.model_validate({"step_ms": {"1": 20, "16": 30}, **truth})
    server = VirtualStart(planted, "ngram:4", "ngram")
    prompts = [[100 + i] * 20 for i in range(requests)]
    record = server.cell("c4", prompts, 4, 200)
    chunks = record.chunks
    return record, chunks


def test_text_after_the_end_that_repeats_is_told_apart() -> None:
    drafts = {"ngram": {"acceptance": [0.6, 0.6], "coverage": 0.4}}
    _, chunks = cell_of({"eos": [60, 90], "repeat_after_eos": True, "variants": drafts})
    found = degenerate.measure(chunks, (EOS,))
    assert found is not None
    assert found.requests == found.of == 8
    # The plant accepts alike before and after: a loop that costs nothing is no difference.
    assert found.difference == pytest.approx(0.0, abs=0.15)


def lifted(built: Built, from_seq: int) -> Built:
    """Every chunk of the later part holds five repeated tokens more."""
    chunks = built.record.chunks.copy()
    late = chunks["seq"] >= from_seq
    ids = [
        [*own, 7, 7, 7, 7, 7] if is_late else list(own)
        for own, is_late in zip(chunks["token_ids"], late, strict=True)
    ]
    looped = [[7] * len(i) if is_late else i for i, is_late in zip(ids, late, strict=True)]
    chunks["token_ids"] = looped
    chunks["tokens"] = chunks["tokens"].where(~late, chunks["tokens"] + 5).astype("Int16")
    return replace(built, record=replace(built.record, chunks=chunks))


def test_a_drafter_that_lives_on_repetition_is_suspect() -> None:
    built = lifted(build_cell(Plant(requests=20, k=6, coverage=0.1), variant="ngram"), 30)
    seen = reason(context(built), "DEGENERATE")
    assert seen.severity == "suspect"
    assert seen.evidence["requests"] == 20
    assert "before that" in seen.detail


@pytest.mark.parametrize("runs_on", [True, False])
def test_outputs_that_end_are_not_said_to_run_on(runs_on: bool) -> None:
    built = lifted(build_cell(Plant(requests=20, k=6, coverage=0.1), variant="ngram"), 30)
    seen = reason(context(built, document={"ignore_eos": runs_on}), "DEGENERATE")
    assert ("run on after their end" in seen.detail) is runs_on
    assert ("ignore_eos" in seen.remedy) is runs_on


def test_nothing_but_repetition_is_suspect_too() -> None:
    built = lifted(build_cell(Plant(requests=20, k=6, coverage=0.1), variant="ngram"), 0)
    assert "hardly any output" in reason(context(built), "DEGENERATE").detail
    assert "DEGENERATE" not in codes(context(lifted(build_cell(Plant(requests=20)), 0)))


def gauged(
    missing: float = 0.0,
    waiting: float = 0.0,
    output_tokens: int = 64,
    ttft_s: float = 0.1,
    step_s: float = 0.03,
) -> Built:
    """A cell whose server says how many run: those that decode, less ``missing``."""
    built = build_cell(
        Plant(requests=20, concurrency=4, output_tokens=output_tokens, ttft_s=ttft_s, step_s=step_s)
    )
    running, queue = (("vllm:num_requests_" + x, "{}") for x in ("running", "waiting"))
    first = built.events[0].t - 0.01
    gauges = [Event(first, {running: -missing, queue: waiting})]
    for request in built.record.requests.itertuples():
        gauges += [Event(request.t_first, {running: 1.0}), Event(request.t_last, {running: -1.0})]
    return replace(built, events=sorted([*gauges, *built.events], key=lambda e: e.t))


def test_a_batch_that_is_not_full() -> None:
    short = reason(context(gauged(missing=1.0)), "PREEMPTED")
    assert short.evidence["running"] == pytest.approx(short.evidence["decoding"] - 1)
    assert "requests were running on average" in short.detail
    assert "waiting on average" in reason(context(gauged(waiting=1.0)), "PREEMPTED").detail
    slightly = context(gauged(missing=0.1, waiting=0.1))
    assert validity.verdict(validity.check_cell(slightly)) == "VALID"


def test_scrapes_in_step_with_the_requests_throw_nobody_out() -> None:
    """As on an H200, c16: requests of 0.6 s and a scrape each 0.2 s, 7 running at every third."""
    built = gauged(output_tokens=24, ttft_s=0.1, step_s=0.7 / 23)
    cell = context(built)
    batch = preempted.while_full(cell)
    assert batch.running is not None
    waited = built.record.requests["t_first"] - built.record.requests["t_send"]
    lasted = built.record.requests["t_last"] - built.record.requests["t_send"]
    assert batch.running < 4 * (1 - 1.5 * float(waited.sum() / lasted.sum()))
    assert "PREEMPTED" not in codes(cell)


def test_requests_that_the_engine_does_not_have_yet_are_not_thrown_out() -> None:
    """As on an H200: 135M weights, 54.5 of 64 in the batch, none waiting, TTFT 14 % of the time."""
    cell = context(gauged(ttft_s=0.4))
    found = reason(cell, "FRONT_END")
    assert found.severity == "info"
    assert found.evidence["outside"] == pytest.approx(4 * 0.4 / (0.4 + 63 * 0.03), abs=0.3)
    assert "PREEMPTED" not in codes(cell)
    assert validity.verdict(validity.check_cell(cell)) == "VALID"
    assert "FRONT_END" not in codes(context(gauged()))


@pytest.mark.parametrize(("share", "outside"), [(0.02, None), (0.2, 0.8)])
def test_the_engine_s_own_times_are_believed_before_the_gauges(
    share: float, outside: float | None
) -> None:
    """The gauges say that many were outside; ``share`` of the requests' time they were."""
    built = gauged(ttft_s=0.4)
    by_gauges = reason(context(built), "FRONT_END").evidence["outside"]
    requests = built.record.requests
    held = (1 - share) * float((requests["t_last"] - requests["t_send"]).sum())
    queue, running = (f"vllm:request_{x}_time_seconds" for x in ("queue", "inference"))
    last = Event(built.events[-1].t, {
        (f"{queue}_sum", "{}"): 0.25 * held, (f"{queue}_count", "{}"): 20,
        (f"{running}_sum", "{}"): 0.75 * held, (f"{running}_count", "{}"): 20,
    })  # fmt: skip
    cell = context(replace(built, events=[*built.events, last]))
    assert ("FRONT_END" in codes(cell)) is (outside is not None)
    if outside is not None:
        found = reason(cell, "FRONT_END")
        assert found.evidence["outside"] == pytest.approx(outside)
        assert "in the engine's batch or queue, by its own times" in found.detail
    others = Event(last.t, {**last.grown, (f"{running}_count", "{}"): 21})
    strange = context(replace(built, events=[*built.events, others]))
    assert reason(strange, "FRONT_END").evidence["outside"] == by_gauges
    assert by_gauges not in (None, outside)


@pytest.mark.parametrize(("missing", "called"), [(0.0, False), (1.0, True)])
def test_short_answers_leave_slots_empty_while_the_next_request_enters(
    missing: float, called: bool
) -> None:
    """21 steps a request and two to enter: 3.65 of 4 is what a server without a fault gives."""
    built = gauged(missing, 0.1, output_tokens=21, ttft_s=0.06)
    assert ("PREEMPTED" in codes(context(built))) is called
    assert "FRONT_END" not in codes(context(gauged(0.0, 0.1, output_tokens=21, ttft_s=0.06)))


WAIT = "specgauge_cpu_wait_seconds_total"


@pytest.mark.parametrize(("share", "severity"), [(0.2, "suspect"), (0.05, "info"), (0.015, None)])
def test_a_server_that_waits_for_a_cpu(share: float, severity: str | None) -> None:
    built = build_cell(Plant(requests=20))
    document = built.record.document
    assert document is not None
    seconds = document.t_end - document.t_begin
    labels = '{"pid":"7","process":"VLLM::EngineCor"}'
    first, last = built.events[0], built.events[-1]
    waits = [Event(first.t - 0.3, {(WAIT, labels): 0.0}),
             *built.events, Event(last.t, {(WAIT, labels): share * seconds})]  # fmt: skip
    cell = context(replace(built, events=waits))
    assert ("SERVER_STARVED" in codes(cell)) is (severity is not None)
    if severity:
        seen = reason(cell, "SERVER_STARVED")
        assert seen.severity == severity
        assert "VLLM::EngineCore waited" in seen.detail


def test_a_hypervisor_that_takes_the_cpu() -> None:
    built = build_cell(Plant(requests=20))
    stolen = {"steal_s_before": 10.0, "steal_s_after": 16.0}
    assert "hypervisor took 6.00 s" in reason(
        context(built, document={"host_load": stolen}), "SERVER_STARVED"
    ).detail  # fmt: skip


@pytest.mark.parametrize(("taken", "severity"), [(0.05, None), (0.25, "info"), (0.8, "suspect")])
def test_what_a_hypervisor_takes_does_not_vanish_among_many_cpus(
    taken: float, severity: str | None
) -> None:
    """``taken``: CPU seconds a second, of a machine with 32."""
    built = build_cell(Plant(requests=20))
    document = built.record.document
    assert document is not None
    seconds = document.t_end - document.t_begin
    load = {"steal_s_before": 10.0, "steal_s_after": 10.0 + taken * seconds}
    cell = context(built, document={"host_load": load})
    cell = replace(cell, setup=replace(cell.setup, facts={"machine": {"cores": 32}}))
    assert ("SERVER_STARVED" in codes(cell)) is (severity is not None)
    if severity:
        assert reason(cell, "SERVER_STARVED").severity == severity


def test_a_speed_up_is_judged_before_the_degenerate_part_too() -> None:
    built = lifted(build_cell(Plant(requests=20, k=6, coverage=0.1), variant="ngram"), 30)
    requests, chunks = degenerate.before(built.record.requests, built.record.chunks)
    assert set(chunks["seq"]) == set(range(30))
    whole = latency.per_request(built.record.requests, built.record.chunks)["tpot"].mean()
    cut = latency.per_request(requests, chunks)["tpot"].mean()
    tokens = chunks[chunks["seq"] > 0].groupby("request")["tokens"].mean()
    assert cut == pytest.approx((0.03 / tokens).mean(), rel=1e-6)
    assert cut > whole
    seen = check_speedup(1.5, 1.2)
    assert seen is not None
    assert "1.20x up to where they repeat" in seen.detail
    assert check_speedup(1.22, 1.2) is None
