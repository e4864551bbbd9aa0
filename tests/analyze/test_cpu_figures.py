"""CPU figures of a cell, and CPU_BOUND: planted accounts and cards, found again."""

from __future__ import annotations

import numpy as np
import pytest
from contexts import codes, context, reason
from cpu_plant import API, ENGINE, accounts, with_rows
from gpu_plant import Card
from synthetic_run import Plant, build_cell
from test_gpu_records import on_card

from specgauge.analyze import cpu_figures
from specgauge.analyze.context import CellContext
from specgauge.analyze.machine_document import CpuFigures
from specgauge.record.documents import ClientSelf, ClockOffset
from specgauge.record.schema import CPU_RUN, SCRAPE_SERIES

WORKER = '{"pid":"9","process":"VLLM::Worker_TP"}'
BUILT = build_cell(Plant(requests=2))
"""Two requests of 64 tokens, one after the other: 2 x 1.99 s and a turn-around of 0.1 ms."""
TOKENS, LOAD = 128, 3.9801


def ran(cell: CellContext, engine: float, api: float = 0.5, worker: float = 0.0) -> CellContext:
    grown = {(CPU_RUN, ENGINE): engine, (CPU_RUN, API): api, (CPU_RUN, WORKER): worker}
    return accounts(cell, 0.5, 0.5, grown)


def figures(cell: CellContext) -> CpuFigures:
    found = cpu_figures.observe(cell)
    assert found is not None
    return found


def test_what_a_token_cost_the_processes_beside_the_engine() -> None:
    clock = ClockOffset(begin=0.0, end=0.0)
    clients = [ClientSelf(worker=k, pid=k, cpu_s=9.0, run_s=0.1 * (k + 1), clock=clock,
                          timestamps="kernel") for k in range(2)]  # fmt: skip
    found = figures(ran(context(BUILT, document={"clients": clients}), engine=3.9, api=0.64))
    assert found.api_server_s_per_token == pytest.approx(0.64 / TOKENS)
    assert found.client_s_per_token == pytest.approx(0.3 / TOKENS)
    assert found.bracket_s == pytest.approx(LOAD + 1.0)
    assert found.engine_share == pytest.approx(3.9 / LOAD)


def test_the_busiest_of_engine_and_workers_is_the_engine() -> None:
    found = figures(ran(context(BUILT), engine=1.0, worker=3.5))
    assert found.engine_share == pytest.approx(3.5 / LOAD)
    assert found.api_server_s_per_token == pytest.approx(0.5 / TOKENS)


def test_an_engine_that_spins_at_rest_too_is_held_against_the_whole_bracket() -> None:
    assert figures(ran(context(BUILT), engine=LOAD + 0.9)).engine_share == pytest.approx(
        (LOAD + 0.9) / (LOAD + 1.0)
    )


def test_processes_that_do_not_name_themselves_are_not_told_apart() -> None:
    found = figures(accounts(context(BUILT), 0.5, 0.5, {(CPU_RUN, API): 1.0}))
    assert (found.api_server_s_per_token, found.engine_share) == (None, None)
    assert cpu_figures.observe(context(BUILT)) is None


def test_answers_at_rest_are_those_with_no_request_under_way() -> None:
    """4 ms, a quarter more or less in turn; under load ten times that."""
    cell = context(BUILT, document={"t_begin": 998.0, "t_end": 1000.0 + LOAD + 0.1})
    rows = []
    for n, t in enumerate(np.arange(997.7, 1000.0 + LOAD + 0.4, 0.2)):
        at_rest = t < 1000.0 or t > 1000.0 + LOAD + 0.1
        rows.append((t, SCRAPE_SERIES, "{}", 0.004 * 1.25 ** (-1) ** n if at_rest else 0.040))
    found = figures(ran(with_rows(cell, rows, instead_of=SCRAPE_SERIES), engine=3.9))
    assert found.rest_answer_ms == pytest.approx(4.0, rel=0.05)
    n = sum(value < 0.02 for *_, value in rows)
    assert found.rest_answer_error == pytest.approx(np.log(1.25) / n**0.5, rel=0.1)


def test_few_answers_make_no_mean() -> None:
    found = figures(ran(context(BUILT), engine=3.9))
    assert found.rest_answer_ms is None


@pytest.mark.parametrize(
    ("engine", "card", "told"),
    [(0.97, 0.3, True), (0.99, 0.8, False), (0.2, 0.3, False), (0.97, 0.55, False)],
)
def test_an_idle_card_beside_a_busy_thread(engine: float, card: float, told: bool) -> None:
    """A thread that spins while the card works is no news, nor an idle card without work."""
    cell = ran(on_card(Card(utilisation=card), BUILT), engine=engine * LOAD)
    assert ("CPU_BOUND" in codes(cell)) is told
    if told:
        seen = reason(cell, "CPU_BOUND")
        assert seen.severity == "info"
        assert seen.evidence == {
            "engine_share": pytest.approx(0.97), "card_busy": pytest.approx(0.3)
        }  # fmt: skip
        assert "for at least 67% the CPU computed and the card waited" in seen.detail


def test_the_card_s_first_second_looks_back_to_its_rest() -> None:
    busy = Card(utilisation=lambda t: 0.0 if t < 1000.9 else 0.6)
    assert "CPU_BOUND" not in codes(ran(on_card(busy, BUILT), engine=0.97 * LOAD))


def test_a_cell_too_short_for_that_says_nothing() -> None:
    short = build_cell(Plant(requests=1, output_tokens=40))  # 1.27 s
    cell = ran(on_card(Card(utilisation=0.2), short), engine=1.2)
    assert "CPU_BOUND" not in codes(cell)
    assert figures(cell).engine_share == pytest.approx(1.2 / 1.27)


def test_without_a_card_there_is_none_to_wait() -> None:
    assert "CPU_BOUND" not in codes(
        ran(on_card(Card(utilisation=0.1), BUILT, gpu=None), engine=3.9)
    )
