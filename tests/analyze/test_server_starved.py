"""SERVER_STARVED: waits planted in the samples around a cell, found again as shares."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contexts import codes, context, reason
from cpu_plant import API, ENGINE, MACHINE, accounts, with_rows
from synthetic_run import Plant, build_cell

from specgauge.record.schema import CPU_RUN, CPU_STOLEN, CPU_THROTTLED, CPU_WAIT

SHORT = build_cell(Plant(requests=1))
"""0.1 + 63 x 0.03 s: 1.99 s."""
LOAD = 1.99


def test_a_short_cell_s_wait_is_seen_in_the_sample_after_its_last_chunk() -> None:
    """Samples once a second: read at the last one before the end, most of the wait was missing."""
    seen = reason(accounts(context(SHORT), 0.4, 0.7, {(CPU_WAIT, ENGINE): 0.9}), "SERVER_STARVED")
    bracket = 0.4 + LOAD + 0.7
    assert seen.severity == "suspect"
    assert seen.evidence["share"] == pytest.approx(0.9 / bracket)
    assert f"VLLM::EngineCore waited 0.90 s for a CPU ({0.9 / bracket:.0%})" in seen.detail
    assert "over the 3.1 s between the samples around 2.0 s of load" in seen.detail


def test_a_long_set_up_takes_nothing_from_the_share() -> None:
    slow = context(SHORT, document={"t_begin": 990.0})
    quick, slow = (
        reason(accounts(c, 0.2, 0.2, {(CPU_WAIT, ENGINE): 0.5}), "SERVER_STARVED").evidence["share"]
        for c in (context(SHORT), slow)
    )
    assert quick == slow == pytest.approx(0.5 / (LOAD + 0.4))


@pytest.mark.parametrize(("before", "after"), [(1.7, 0.2), (0.2, 1.7)])
def test_without_a_sample_near_it_nothing_is_known(before: float, after: float) -> None:
    cell = accounts(context(SHORT), before, after, {(CPU_RUN, ENGINE): 1.9, (CPU_WAIT, API): 1.5})
    assert reason(cell, "SERVER_STARVED").severity == "unknown"
    near = accounts(context(SHORT), 1.4, 1.4, {(CPU_RUN, ENGINE): 1.9, (CPU_WAIT, API): 1.5})
    assert reason(near, "SERVER_STARVED").severity == "suspect"


def test_accounts_that_end_with_the_load_say_nothing_either() -> None:
    cell = context(SHORT)
    assert cell.span is not None
    rows = [(cell.span.t0 + x, CPU_RUN, ENGINE, x) for x in (-0.2, 0.8, 1.8)]
    assert reason(with_rows(cell, rows), "SERVER_STARVED").severity == "unknown"
    assert "SERVER_STARVED" not in codes(cell), "nobody kept accounts: not asked"


def test_a_cgroup_that_was_held_back() -> None:
    cell = accounts(context(SHORT), 0.1, 0.1, {(CPU_THROTTLED, MACHINE): 0.2})
    seen = reason(cell, "SERVER_STARVED")
    assert (seen.severity, seen.evidence["throttled_s"]) == ("info", pytest.approx(0.2))
    assert seen.evidence["share"] == pytest.approx(0.2 / (LOAD + 0.2))


LARGE = {"machine": {"cores": 32}}
LATE = {"steal_s_before": 1.0, "steal_s_after": 1.0 + 4.0}


def test_what_the_hypervisor_took_around_the_load_is_told_by_its_account() -> None:
    """What it took in the set-up (by ``cell.json``) is no part of it."""
    cell = context(SHORT, document={"host_load": LATE})
    cell = replace(cell, setup=replace(cell.setup, facts=LARGE))
    seen = reason(accounts(cell, 0.1, 0.1, {(CPU_STOLEN, MACHINE): 0.8}), "SERVER_STARVED")
    assert seen.evidence["share"] == pytest.approx(0.8 / (LOAD + 0.2) / 4)
    assert "at most" not in seen.detail
    none = accounts(cell, 0.1, 0.1, {(CPU_STOLEN, MACHINE): 0.0, (CPU_RUN, ENGINE): 1.0})
    assert "SERVER_STARVED" not in codes(none)


def test_without_one_what_it_took_from_begin_to_end_is_the_most_it_can_have_been() -> None:
    cell = context(SHORT, document={"host_load": LATE, "t_begin": 990.0})
    cell = replace(cell, setup=replace(cell.setup, facts=LARGE))
    seen = reason(cell, "SERVER_STARVED")
    assert seen.evidence["share"] == pytest.approx(4.0 / LOAD / 4)
    assert f"at most {4.0 / LOAD / 4:.0%} of 4 CPUs under load" in seen.detail
    assert "samples around" not in seen.detail
