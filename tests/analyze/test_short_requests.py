"""Requests of a few milliseconds: a healthy client is not called starved, a starved one is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contexts import codes, context, reason
from synthetic_run import Plant, build_cell

from specgauge.analyze import validity

SHORT = Plant(requests=100, output_tokens=1, ttft_s=0.005, read_delay_s=0.00015)
TURN_AROUND_S = 0.0002


@pytest.mark.parametrize("concurrency", [1, 4, 16])
def test_an_ordinary_turn_around_between_short_requests_is_told_for_what_it_is(
    concurrency: int,
) -> None:
    """0.35 ms after 5 ms, as measured with a client that never waited for a CPU."""
    plant = replace(SHORT, requests=320, concurrency=concurrency, idle_s=TURN_AROUND_S)
    cell = context(build_cell(plant))
    found = validity.check_cell(cell)
    assert "CLIENT_STARVED" not in [r.code for r in found]
    seen = reason(cell, "SHORT_REQUESTS")
    assert seen.severity == "suspect"
    assert seen.evidence["e2e_mean_ms"] == pytest.approx(5.0, rel=0.01)
    assert seen.evidence["share"] == pytest.approx(0.35 / 5.35, rel=0.1)
    assert validity.verdict(found) == "SUSPECT"


def test_of_an_open_load_too() -> None:
    cell = context(build_cell(replace(SHORT, concurrency=None, rate=20.0, idle_s=0.0009)))
    assert "CLIENT_STARVED" not in codes(cell)
    assert "from the schedule" in reason(cell, "SHORT_REQUESTS").detail


@pytest.mark.parametrize("open_load", [False, True])
def test_a_starved_client_is_starved_however_short_its_requests(open_load: bool) -> None:
    plant = replace(SHORT, idle_s=0.004)
    cell = context(build_cell(replace(plant, concurrency=None, rate=20.0) if open_load else plant))
    assert reason(cell, "CLIENT_STARVED").severity == "invalid"
    assert "SHORT_REQUESTS" not in codes(cell)


def test_longer_requests_hide_an_ordinary_turn_around() -> None:
    cell = context(build_cell(replace(SHORT, output_tokens=8, idle_s=TURN_AROUND_S)))
    assert not {"CLIENT_STARVED", "SHORT_REQUESTS"} & set(codes(cell))


def test_a_long_pause_now_and_then_is_starvation() -> None:
    """One of a second among turn-arounds of 0.35 ms."""
    built = build_cell(replace(SHORT, idle_s=TURN_AROUND_S))
    requests = built.record.requests.copy()
    times = ["t_send", "t_sent", "t_first", "t_last", "t_done", "t_first_user", "t_last_user"]
    requests.loc[50:, times] += 1.0
    assert "CLIENT_STARVED" in codes(context(built, requests=requests))
