"""TTFT, E2E, TPOT, goodput, throughput and steps, each against a planted truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_run import Plant, build_cell, chunks_frame, requests_frame

from specgauge.analyze import latency, steps, throughput
from specgauge.analyze.records import SloSetup

BASE = {
    "index": 0, "prompt_id": "p", "category": "c", "state": "ok", "slot": 0,
    "t_send": 10.0, "t_first": 10.5, "t_last": 14.5, "output_tokens": 11, "prompt_tokens": 20,
}  # fmt: skip


def test_tpot_leaves_the_first_chunks_tokens_out() -> None:
    requests = requests_frame([BASE])
    chunks = chunks_frame(
        [
            {"request": 0, "seq": 0, "t": 10.5, "tokens": 3},
            {"request": 0, "seq": 1, "t": 14.5, "tokens": 8},
        ]
    )
    (row,) = latency.per_request(requests, chunks).to_dict("records")
    assert row["ttft"] == pytest.approx(0.5)
    assert row["e2e"] == pytest.approx(4.5)
    assert row["tpot"] == pytest.approx(4.0 / (11 - 3))
    assert np.isnan(row["ttft_scheduled"])


def test_a_request_of_one_chunk_has_no_tpot() -> None:
    requests = requests_frame([{**BASE, "t_last": 10.5, "output_tokens": 2}])
    chunks = chunks_frame([{"request": 0, "seq": 0, "t": 10.5, "tokens": 2}])
    assert latency.per_request(requests, chunks)["tpot"].isna().all()


def test_open_loads_count_from_the_schedule_and_failed_requests_do_not() -> None:
    requests = requests_frame(
        [
            {**BASE, "t_scheduled": 9.0},
            {**BASE, "index": 1, "state": "failed", "t_scheduled": 9.0, "t_first": None},
        ]
    )
    chunks = chunks_frame([{"request": 0, "seq": 0, "t": 10.5, "tokens": 1}])
    found = latency.per_request(requests, chunks)
    assert list(found.index) == [0]
    assert found["ttft_scheduled"].iloc[0] == pytest.approx(1.5)
    assert found["e2e_scheduled"].iloc[0] == pytest.approx(5.5)


def test_goodput_counts_only_requests_within_every_limit() -> None:
    built = build_cell(Plant(requests=10, rate=2.0, concurrency=None, ttft_s=0.1, step_s=0.02))
    found = latency.per_request(built.record.requests, built.record.chunks)
    assert latency.goodput(found, SloSetup(ttft_ms=101, tpot_ms=21), 10, 5.0).met == 10
    assert latency.goodput(found, SloSetup(ttft_ms=99), 10, 5.0).met == 0
    assert latency.goodput(found, SloSetup(tpot_ms=19), 10, 5.0).met == 0
    assert latency.goodput(found, SloSetup(e2e_ms=1400), 12, 5.0).per_s == pytest.approx(2.0)


@settings(max_examples=40, deadline=None)
@given(
    requests=st.integers(1, 20),
    concurrency=st.integers(1, 8),
    tokens=st.integers(2, 40),
    ttft=st.floats(0.001, 2),
    step=st.floats(0.001, 0.2),
)
def test_a_closed_cell_gives_back_its_plant(
    requests: int, concurrency: int, tokens: int, ttft: float, step: float
) -> None:
    plant = Plant(
        requests=requests,
        concurrency=concurrency,
        output_tokens=tokens,
        ttft_s=ttft,
        step_s=step,
        read_delay_s=0.0,
    )
    cell = build_cell(plant).record
    found = latency.per_request(cell.requests, cell.chunks)
    waves = -(-requests // concurrency)
    each = ttft + (tokens - 1) * step
    assert found["ttft"].to_numpy() == pytest.approx(ttft, rel=1e-6)
    assert found["tpot"].to_numpy() == pytest.approx(step, rel=1e-6)
    assert found["e2e"].to_numpy() == pytest.approx(each, rel=1e-6)
    assert throughput.output_tok_s(cell.requests) == pytest.approx(
        requests * tokens / (waves * each), rel=1e-6
    )
    assert steps.gaps(cell.chunks) == pytest.approx(step, rel=1e-6)
    assert len(steps.gaps(cell.chunks)) == requests * (tokens - 1)


def test_total_throughput_counts_prompts_too() -> None:
    requests = requests_frame([BASE])
    assert throughput.output_tok_s(requests) == pytest.approx(11 / 4.5)
    assert throughput.total_tok_s(requests) == pytest.approx(31 / 4.5)
    assert throughput.output_tok_s(requests.iloc[:0]) is None


def test_full_batch_leaves_out_the_first_wave_and_the_drain() -> None:
    plant = Plant(requests=40, concurrency=4, ttft_s=0.5, step_s=0.01, read_delay_s=0.0)
    cell = build_cell(plant).record
    span = throughput.full_batch(cell.requests, 4)
    assert span is not None
    firsts = sorted(cell.requests["t_first"])
    assert span.t0 == firsts[3]
    assert span.t1 == cell.requests.groupby("slot")["t_last"].max().min()
    found = throughput.full_batch_tok_s(cell.requests, cell.chunks, 4)
    each = 0.5 + 63 * 0.01
    assert found == pytest.approx(4 * 64 / each, rel=0.05)


def test_full_batch_needs_four_requests_a_slot() -> None:
    cell = build_cell(Plant(requests=15, concurrency=4)).record
    assert throughput.full_batch_tok_s(cell.requests, cell.chunks, 4) is None
    open_cell = build_cell(Plant(requests=40, concurrency=None, rate=4.0)).record
    assert throughput.full_batch_tok_s(open_cell.requests, open_cell.chunks, None) is None


def test_merged_chunks_are_counted_by_each_witness() -> None:
    chunks = chunks_frame(
        [{"request": 0, "seq": i, "t": float(i), "tokens": n} for i, n in enumerate([1, 1, 5, 3])]
    )
    assert steps.merged(chunks, k=3, drafts=None, steps=None).chunks == 1
    assert steps.merged(chunks, k=0, drafts=None, steps=None).chunks == 2
    assert steps.merged(chunks, k=6, drafts=5, steps=None).chunks == 2
    assert steps.merged(chunks, k=6, drafts=None, steps=6).share == pytest.approx(1.0)
    assert steps.merged(chunks, k=None, drafts=1, steps=3).chunks == 0


def test_a_late_client_moves_user_times_not_latencies() -> None:
    on_time, late = (
        build_cell(replace(Plant(), read_delay_s=delay)).record for delay in (0.0, 0.02)
    )
    a, b = (latency.per_request(c.requests, c.chunks) for c in (on_time, late))
    assert a["tpot"].to_numpy() == pytest.approx(b["tpot"].to_numpy())
