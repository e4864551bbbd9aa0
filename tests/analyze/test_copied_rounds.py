"""Rounds that are copies of each other: no certainty that nobody measured."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from short_runs import C1, of, other, vanilla
from synthetic_run import BASE, NGRAM, VANILLA_LOG, StartPlant, write_run

from specgauge.analyze.document import Comparison
from specgauge.analyze.summary import Summary, exit_code, summarise
from specgauge.errors import ExitCode
from specgauge.record import atomic
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run

BASELINE = (0.0300, 0.0303, 0.0299, 0.0301, 0.0302)
FASTER = (0.0200, 0.0201, 0.0203, 0.0199, 0.0202)


def measured(folder: Path, base: tuple[float, ...], mine: tuple[float, ...]) -> Summary:
    starts = {("vanilla", k): vanilla(step, round=k) for k, step in enumerate(base)}
    starts |= {("x", k): other(step, round=k) for k, step in enumerate(mine)}
    return summarise(read_run(write_run(folder, starts, loads=C1, rounds=len(base))))


def claimed(found: Comparison) -> tuple[object, ...]:
    return found.low, found.high, found.p, found.significant


@pytest.mark.parametrize("metric", ["output_tok_s", "tpot"])
@pytest.mark.parametrize("mine", [0.020, 0.030])
def test_five_times_the_same_round_is_one_round(tmp_path: Path, metric: str, mine: float) -> None:
    """A gain or none: without a spread neither is claimed, however many copies there are."""
    summary = measured(tmp_path / "r", (0.03,) * 5, (mine,) * 5)
    found = of(summary, metric)
    assert claimed(found) == (None, None, None, None)
    assert (found.rounds, found.label) == (1, "INDICATIVE")
    assert (found.verdict, found.reasons) == ("SUSPECT", ["COPIED_ROUNDS"])
    (note,) = [n for n in found.notes if n.code == "COPIED_ROUNDS"]
    assert "4 of 5 rounds" in note.detail
    assert [r.claimed for r in summary.recommendations] == [False]
    assert {c.verdict for c in summary.cells} == {"VALID"}
    assert exit_code(summary, strict=True) == ExitCode.SUSPECT


def test_one_side_copied_is_no_spread_of_that_side(tmp_path: Path) -> None:
    """The baseline measured once: five ratios, and the variant's spread alone in them."""
    found = of(measured(tmp_path / "r", (0.03,) * 5, FASTER))
    assert claimed(found) == (None, None, None, None)
    assert found.verdict == "SUSPECT"


def test_a_start_copied_over_another_counts_once(tmp_path: Path) -> None:
    """The files of start 1 of both variants lie in start 4 as well: four rounds are left."""
    folder = tmp_path / "r"
    measured(folder, BASELINE, FASTER)
    for variant in ("vanilla", "x"):
        one, copy = (RunPaths(folder).start(variant, k) for k in (1, 4))
        shutil.rmtree(copy.folder)
        shutil.copytree(one.folder, copy.folder)
        outcome = one.outcome.read_text().replace('"start": 1', '"start": 4')
        atomic.write_text(copy.outcome, outcome.replace('"round": 1', '"round": 4'))
    found = of(summarise(read_run(folder)))
    whole = of(measured(tmp_path / "s", BASELINE[:4], FASTER[:4]))
    assert (found.rounds, found.reasons) == (4, ["COPIED_ROUNDS"])
    assert (found.speedup, found.low, found.high, found.p) == pytest.approx(
        (whole.speedup, whole.low, whole.high, whole.p)
    )
    assert (whole.verdict, whole.significant) == ("VALID", True)


def test_starts_that_are_as_alike_as_clocks_can_tell_are_no_copies(tmp_path: Path) -> None:
    """A microsecond a step: a very quiet machine, and measured five times."""
    steps = tuple(0.03 + k * 1e-6 for k in range(5))
    found = of(measured(tmp_path / "r", steps, tuple(0.02 + k * k * 1e-6 for k in range(5))))
    assert (found.rounds, found.verdict, found.significant) == (5, "VALID", True)
    assert found.low is not None


def test_a_matched_baseline_says_it_too(tmp_path: Path) -> None:
    starts = {
        (name, k): StartPlant(
            {"c1": [replace(BASE, step_s=step)]}, round=k, log=VANILLA_LOG,
            speculative_config=NGRAM if name == "x" else None,
        )
        for name, step in (("vanilla", 0.03), ("vanilla_v1", 0.04), ("x", 0.02))
        for k in range(3)
    }  # fmt: skip
    run = write_run(tmp_path / "r", starts, loads=C1, rounds=3, matched={"x": "vanilla_v1"})
    for found in summarise(read_run(run)).matched_comparisons:
        assert (found.verdict, found.reasons) == ("SUSPECT", ["COPIED_ROUNDS"])
        assert "COPIED_ROUNDS" in [n.code for n in found.notes]
