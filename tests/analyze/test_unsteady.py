"""UNSTEADY: starts of one server that differ, in whole runs and cell by cell."""

from __future__ import annotations

from pathlib import Path

import pytest
from short_runs import C1, cell, of, other, vanilla
from synthetic_run import write_run

from specgauge.analyze import across_cells
from specgauge.analyze.document import Cell, Derived, Observed, Reason, Spread
from specgauge.analyze.summary import summarise
from specgauge.record.reader import read_run
from specgauge.report import words

QUIET = (0.03, 0.0303, 0.0302)


def run_of(folder: Path, baseline: tuple[float, ...], last: float | None = None):
    starts = {("vanilla", k): vanilla(s, round=k) for k, s in enumerate(baseline)}
    starts |= {("x", k): other(0.02 + 1e-4 * k, round=k) for k in range(3)}
    if last is not None:
        starts["vanilla", 3] = vanilla(last, role="drift", round=3)
    return summarise(read_run(write_run(folder, starts, loads=C1, rounds=3)))


def codes(cell: Cell) -> list[str]:
    return [r.code for r in cell.reasons if r.code == "UNSTEADY"]


def test_a_first_and_a_last_start_that_agree_by_chance_hide_nothing(tmp_path: Path) -> None:
    """As on an H200 at c64: 8,815, 6,501, 7,397 and at the end 8,731 tok/s."""
    summary = run_of(tmp_path / "r", (0.03, 0.042, 0.036), last=0.0301)
    assert "DRIFT" not in [r.code for r in summary.reasons]
    verdicts = [cell(summary, "vanilla", start).verdict for start in range(4)]
    assert verdicts == ["SUSPECT"] * 3 + ["VALID"]
    seen = cell(summary, "vanilla").reasons[-1]
    slowest = cell(summary, "vanilla", 1).observed.output_tok_s
    assert f"at its lowest {slowest:,.1f}, at its highest" in seen.detail
    assert seen.evidence["start_1"] == slowest
    assert (of(summary).verdict, of(summary).reasons) == ("SUSPECT", ["UNSTEADY"])
    assert (words.disturbed(summary) or "").startswith(
        "DISTURBED: starts of the baseline itself differ by 3"
    )


def test_starts_that_differ_somewhat_are_told_and_taint_nothing(tmp_path: Path) -> None:
    summary = run_of(tmp_path / "r", (0.03, 0.0345, 0.032), last=0.0302)
    assert codes(cell(summary, "vanilla")) == ["UNSTEADY"]
    assert of(summary).verdict == "VALID"
    assert words.disturbed(summary) is None


def test_quiet_starts_carry_nothing(tmp_path: Path) -> None:
    summary = run_of(tmp_path / "r", QUIET, last=0.0301)
    assert not [c for c in summary.cells if codes(c)]


def pace(start: int, tok_s: float, **more: object) -> Cell:
    observed = {"output_tok_s": tok_s, "tpot_ms": Spread(mean=1000 / tok_s), "gpu": None}
    fields = {"variant": "v", "load": "l", "start": start, "repeat": 0, "round": start,
              "role": "round", "verdict": "VALID", "excluded": False, "excluded_because": None,
              "concurrency": 1, "rate": None, "derived": None, "reasons": [],
              "observed": Observed.model_construct(**observed), **more}  # fmt: skip
    return Cell.model_construct(**fields)


FROZEN = [Reason(code="FREEZE", severity="suspect", detail="", remedy="")]


@pytest.mark.parametrize(("confirmed", "told"), [("CONFIRMED ONE-OFF", True), ("RECURS", False)])
def test_a_freeze_explains_its_own_cell(confirmed: str, told: bool) -> None:
    """Taken off, its cell speaks with the others (80 of 100 tok/s); else it has its own verdict."""
    derived = Derived(frozen_s=2, output_tok_s=80.0, from_="chunks", confirmation=confirmed,
                      verdict="VALID" if told else "SUSPECT")  # fmt: skip
    frozen = pace(1, 50.0, derived=derived, reasons=FROZEN, verdict="SUSPECT")
    found = across_cells.noted([pace(0, 100.0), frozen, pace(2, 99.0)])
    assert [codes(c) for c in found] == [["UNSTEADY"] * told] * 3
    if told:
        assert found[0].reasons[-1].evidence["spread"] == pytest.approx(0.25)


def test_cells_that_do_not_count_are_not_looked_at() -> None:
    replaced = pace(1, 50.0, excluded=True, excluded_because="replaced by a later start")
    assert [codes(c) for c in across_cells.noted([pace(0, 100.0), replaced])] == [[], []]


def test_an_open_load_is_judged_by_its_time_per_token() -> None:
    """Its throughput is what arrives."""
    slow = Observed.model_construct(output_tok_s=100.0, tpot_ms=Spread(mean=13.0), gpu=None)
    found = across_cells.noted([pace(0, 100.0, rate=2.0), pace(1, 100.0, rate=2.0, observed=slow)])
    assert "ms a token" in found[0].reasons[-1].detail
