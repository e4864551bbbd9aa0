"""DRIFT: the baseline at the end, or between two rounds, in whole runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from short_runs import C1, break_cell, cell, of, other, vanilla
from synthetic_run import (
    write_run,
)

from specgauge.analyze.summary import exit_code, summarise
from specgauge.errors import ExitCode
from specgauge.record.reader import read_run


@pytest.mark.parametrize(("last", "drifted"), [(0.0304, False), (0.0325, True)])
def test_drift_of_the_baseline_taints_the_comparisons(
    tmp_path: Path, last: float, drifted: bool
) -> None:
    starts = {
        ("vanilla", 0): vanilla(0.03),
        ("x", 0): other(0.02),
        ("vanilla", 1): vanilla(last, role="drift", round=1),
    }
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=C1)))
    assert cell(summary, "vanilla", 1).excluded_because == "drift"
    assert [r.code for r in summary.reasons] == (["DRIFT"] if drifted else [])
    assert of(summary).verdict == ("SUSPECT" if drifted else "VALID")
    assert of(summary).rounds == 1
    expected = ExitCode.SUSPECT if drifted else ExitCode.MEASURED
    assert exit_code(summary, strict=True) == expected
    assert exit_code(summary, strict=False) == ExitCode.MEASURED


@pytest.mark.parametrize(("later", "drifted"), [(0.0304, False), (0.036, True)])
def test_two_rounds_of_the_baseline_that_differ_taint_as_a_last_start_would(
    tmp_path: Path, later: float, drifted: bool
) -> None:
    starts = {
        ("vanilla", 0): vanilla(0.03),
        ("x", 0): other(0.02),
        ("vanilla", 1): vanilla(later, round=1),
        ("x", 1): other(0.0201, round=1),
    }
    folder = write_run(tmp_path / "r", starts, loads=C1, rounds=2)
    summary = summarise(read_run(folder))
    found = [r.detail for r in summary.reasons if r.severity == "suspect"]
    assert [x.split(" between ")[1][:15] for x in found] == ["its first round"] * drifted
    assert of(summary).verdict == ("SUSPECT" if drifted else "VALID")


def test_an_interval_holds_what_the_baseline_changed_between_three_rounds(tmp_path: Path) -> None:
    starts = {("vanilla", k): vanilla(0.03 + 0.003 * k, round=k) for k in range(3)}
    starts |= {("x", k): other(0.02 + 1e-4 * k, round=k) for k in range(3)}
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=C1, rounds=3)))
    assert summary.reasons == []
    assert of(summary).verdict == "VALID"
    assert of(summary).low is not None


@pytest.mark.parametrize(
    ("last", "state", "words", "code", "missing"),
    [
        (None, None, "never ran", ExitCode.INCOMPLETE, 1),
        (0.03, "failed", "did not end well", ExitCode.INCOMPLETE, 1),
        (0.03, "invalid", "is INVALID", ExitCode.INVALID, 0),
        (0.03, "complete", "", ExitCode.MEASURED, 0),
    ],
)
def test_a_planned_last_start_that_tells_nothing_is_told(
    tmp_path: Path, last: float | None, state: str | None, words: str, code: ExitCode, missing: int
) -> None:
    starts = {("vanilla", 0): vanilla(0.03), ("x", 0): other(0.02)}
    if last is not None:
        ends = "failed" if state == "failed" else "complete"
        starts["vanilla", 1] = vanilla(last, role="drift", round=1, state=ends)
    folder = write_run(tmp_path / "r", starts, loads=C1, baseline_last=True)
    if state == "invalid":
        break_cell(folder, "vanilla", 1)
    run = read_run(folder)
    summary = summarise(run)
    assert [(m.variant, m.load, m.role) for m in summary.missing] == (
        [("vanilla", "c1", "drift")] * missing
    )
    assert [(r.code, r.severity) for r in summary.reasons] == (
        [("DRIFT", "unknown")] if words else []
    )
    assert all(words in r.detail for r in summary.reasons)
    assert of(summary).verdict == "VALID"
    assert exit_code(summary, strict=False) == code


def test_a_run_without_the_baseline_misses_no_last_start(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", {("x", 0): other(0.02)}, loads=C1, baseline_last=True)
    summary = summarise(read_run(folder))
    assert summary.missing == []
    assert summary.reasons == []
