"""CLIENT_STARVED: idle slots, late sends, bursts and clock steps, planted and captured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from bench_json import vllm_bench
from contexts import CLEAN, codes, context, reason
from synthetic_run import EPOCH_OFFSET, Built, Plant, build_cell

from specgauge.analyze import validity
from specgauge.analyze.validity import client_starved
from specgauge.record.documents import ClockOffset


def test_idle_slots_cost_what_was_planted() -> None:
    """Each request takes 1.99 s; the client pauses 40 ms before each but the first."""
    built = build_cell(replace(CLEAN, idle_s=0.04))
    seen = reason(context(built), "CLIENT_STARVED")
    assert seen.severity == "invalid"
    share = seen.evidence["idle_share"]
    assert share == pytest.approx(19 * 0.0401 / (20 * 1.99 + 19 * 0.0401), rel=0.01)


@pytest.mark.parametrize(("idle", "called"), [(0.009, False), (0.041, True)])
def test_threshold_of_idle_slots(idle: float, called: bool) -> None:
    """Half the threshold (1 % of 1.99 s is 20 ms) is never called, twice always."""
    cell = context(build_cell(replace(CLEAN, idle_s=idle)))
    assert ("CLIENT_STARVED" in codes(cell)) is called


def test_a_late_read_of_the_last_chunk_is_idle_time() -> None:
    cell = context(build_cell(replace(CLEAN, read_delay_s=0.05)))
    assert "read" in reason(cell, "CLIENT_STARVED").detail


def test_the_last_wave_costs_nothing() -> None:
    """One request a slot: reading late delays nobody's send, and kernel stamps stay true."""
    plant = Plant(requests=4, concurrency=4, read_delay_s=0.5)
    assert "CLIENT_STARVED" not in codes(context(build_cell(plant)))


def test_late_sends_of_an_open_load() -> None:
    late = replace(Plant(requests=20, concurrency=None, rate=2.0), idle_s=0.1)
    seen = reason(context(build_cell(late)), "CLIENT_STARVED")
    assert seen.evidence["late_share"] == pytest.approx(0.1 / 2.09, rel=0.01)


def bunched(built: Built, every: int, *, kernel: bool, shared: int) -> pd.DataFrame:
    """Chunks as a client sees them that wakes only every few steps."""
    chunks = built.record.chunks.copy()
    last = chunks.groupby("request")["seq"].transform("max")
    wake = ((chunks["seq"] // every + 1) * every - 1).clip(upper=last)
    times = chunks.set_index(["request", "seq"])["t"]
    chunks["t"] = [times[r, s] for r, s in zip(chunks["request"], wake, strict=True)]
    chunks["kernel"], chunks["shared_read"] = kernel, shared
    return chunks


def test_bursts_without_kernel_stamps_are_a_starved_client() -> None:
    built = build_cell(CLEAN)
    starved = context(built, chunks=bunched(built, 8, kernel=False, shared=1))
    assert "read late" in reason(starved, "CLIENT_STARVED").detail
    several = context(built, chunks=bunched(built, 8, kernel=True, shared=8))
    assert "CLIENT_STARVED" in codes(several)


def test_bursts_that_the_kernel_saw_are_the_servers() -> None:
    built = build_cell(CLEAN)
    cell = context(built, chunks=bunched(built, 8, kernel=True, shared=1))
    assert "CLIENT_STARVED" not in codes(cell)


@pytest.mark.parametrize(
    ("step", "severity"), [(0.0009, None), (0.005, "suspect"), (1.0, "invalid")]
)
def test_clock_steps(step: float, severity: str | None) -> None:
    clock = ClockOffset(begin=EPOCH_OFFSET, end=EPOCH_OFFSET + step)
    cell = context(build_cell(CLEAN), document={"clock": clock})
    found = [r for r in validity.check_cell(cell) if r.cause == "clock step"]
    assert [r.severity for r in found] == ([severity] if severity else [])


def starvation(path: Path) -> client_starved.Starvation:
    requests, chunks, concurrency = vllm_bench(path)
    return client_starved.starvation(requests, chunks, concurrency=concurrency)


def judged(found: client_starved.Starvation) -> bool:
    return found.burst_share > client_starved.BURST_SHARE or found.cost > client_starved.COST_LIMIT


def test_the_captured_starved_client_is_invalid_and_the_clean_ones_are_not(samples: Path) -> None:
    starved = sorted((samples / "0.27.1-cpu" / "starved-client").glob("*.json"))
    clean = sorted((samples / "0.27.1-cpu").glob("*/bench_spec_bench_*.json"))
    assert (len(starved), len(clean)) == (2, 8)
    assert [judged(starvation(path)) for path in starved] == [True, True]
    assert [judged(starvation(path)) for path in clean] == [False] * 8
