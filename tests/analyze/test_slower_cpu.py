"""UNSTEADY says whether the CPUs ran slower: planted causes of a slower start, found again."""

from __future__ import annotations

import pytest
from test_unsteady import pace

from specgauge.analyze import across_cells
from specgauge.analyze.document import Cell, Observed, Reason, Spread
from specgauge.analyze.machine_document import CpuFigures, GpuFigures

API, CLIENT, REST = 80e-6, 20e-6, 7.0


def start(k: int, tok_s: float, work: float = 1.0, rest: float | None = 1.0, clock: float = 1980,
          error: float = 0.05, rate: float | None = None) -> Cell:  # fmt: skip
    """A cell of start ``k``: CPU time per token and answers at rest, as multiples of the usual."""
    cpu = CpuFigures(
        api_server_s_per_token=API * work,
        client_s_per_token=CLIENT * work,
        rest_answer_ms=None if rest is None else REST * rest,
        rest_answer_error=None if rest is None else error,
    )
    gpu = GpuFigures.model_construct(sm_clock_mhz=clock)
    tpot = Spread(mean=1000 / tok_s)
    observed = Observed.model_construct(output_tok_s=tok_s, tpot_ms=tpot, gpu=gpu, cpu=cpu)
    return pace(k, tok_s, observed=observed, rate=rate)


def told(*cells: Cell) -> tuple[str, dict]:
    (seen,) = [r for r in across_cells.noted(list(cells))[0].reasons if r.code == "UNSTEADY"]
    return seen.detail, seen.evidence


def test_slower_cpus_slow_all_three_alike() -> None:
    detail, evidence = told(start(0, 100), start(1, 70, 1.4, 1.38), start(2, 95, 1.05, 1.0))
    assert "CPUs ran slower" in detail
    assert "API server +40%, client +40%" in detail
    assert "answer to the scraper +38% (standard error 7%)" in detail
    assert detail.endswith("the card's clock did not change.")
    assert evidence["api_server_cpu_per_token"] == pytest.approx(0.4)
    assert evidence["rest_answer"] == pytest.approx(0.38)


@pytest.mark.parametrize(("rest", "error"), [(1.0, 0.05), (1.2, 0.10), (None, 0.0)])
def test_longer_steps_alone_make_a_token_cost_more_cpu(rest: float | None, error: float) -> None:
    """So without a resting server that slowed as well (beyond chance) nothing is told."""
    detail, _ = told(start(0, 100), start(1, 60, 1.25, rest, error=error))
    assert "API server +25%" in detail
    assert "whether the CPUs ran slower is not told" in detail


def test_a_slower_start_whose_tokens_cost_no_more_had_another_cause() -> None:
    detail, _ = told(start(0, 100), start(1, 70, 1.03, 0.95))
    assert "did not rise with it (API server +3%, client +3%)" in detail
    assert "ran slower" not in detail


def test_a_server_that_waited_for_cpus_may_have_waited_at_rest_too() -> None:
    waited = Reason(code="SERVER_STARVED", severity="suspect", detail="", remedy="")
    slow = start(1, 70, 1.4, 1.4).model_copy(update={"reasons": [waited]})
    assert "CPUs ran slower, or were taken away (SERVER_STARVED)," in told(start(0, 100), slow)[0]
    noted = waited.model_copy(update={"severity": "info"})
    slow = slow.model_copy(update={"reasons": [noted]})
    assert "CPUs ran slower in" in told(start(0, 100), slow)[0]


def test_a_card_that_clocked_down_is_named_beside() -> None:
    detail, _ = told(start(0, 100), start(1, 70, 1.4, 1.4, clock=1485))
    assert "the card's clock changed by -25.0%" in detail


def test_of_an_open_load_the_slower_start_is_the_one_with_more_time_a_token() -> None:
    detail, evidence = told(start(0, 100, rate=2.0), start(1, 70, 1.4, 1.4, rate=2.0))
    assert "CPUs ran slower" in detail
    assert evidence["client_cpu_per_token"] == pytest.approx(0.4)


def test_without_accounts_nothing_is_said_of_cpus() -> None:
    detail, evidence = told(pace(0, 100.0), pace(1, 70.0))
    assert "CPU" not in detail
    assert set(evidence) == {"lowest", "highest", "spread", "start_0", "start_1"}
