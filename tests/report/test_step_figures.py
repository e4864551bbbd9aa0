"""Step latency in the report: its median beside its mean, and what is said of it."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_run import BASE, NGRAM, StartPlant, write_run

from specgauge.analyze.document import Cell, StepSpread, Summary
from specgauge.analyze.summary import summarise
from specgauge.record.reader import read_run
from specgauge.report import markdown, tables, words

DRAFTING = replace(BASE, k=3, coverage=1.0, accept=0.7)
LOADS = ({"requests": BASE.requests, "concurrency": 1},)


def run(folder: Path, drafting: list[float], *, again: float | None = None) -> Summary:
    """``vanilla`` at 30 ms a step against ``x``, which drafts, at these steps: one a round."""
    starts = {}
    for k, step in enumerate(drafting):
        base = replace(BASE, step_s=0.03 + 1e-4 * k)
        starts["vanilla", k] = StartPlant({"c1": [base]}, round=k)
        mine = replace(DRAFTING, step_s=step)
        starts["x", k] = StartPlant({"c1": [mine]}, round=k, speculative_config=NGRAM)
    if again is not None:
        last = replace(BASE, step_s=again)
        starts["vanilla", len(drafting)] = StartPlant(
            {"c1": [last]}, round=len(drafting), role="drift"
        )
    return summarise(read_run(write_run(folder, starts, loads=LOADS, rounds=len(drafting))))


def test_a_step_that_yields_several_tokens_is_told_in_figures_that_divide(tmp_path: Path) -> None:
    summary = run(tmp_path / "r", [0.04, 0.0402, 0.0405])
    text = words.why_step_latency(summary)
    assert text is not None
    found = re.search(
        r"a step of x takes ([\d.]+) ms on average \(vanilla: ([\d.]+) ms\) but yields ([\d.]+) "
        r"tokens: about ([\d.]+) ms a token \(TPOT, the mean over requests: ([\d.]+) ms instead of "
        r"([\d.]+) ms\)",
        text,
    )
    assert found is not None, text
    step, base_step, tokens, token, tpot, base_tpot = map(float, found.groups())
    assert step == pytest.approx(40.2, abs=0.1)
    assert base_step == base_tpot == pytest.approx(30.1, abs=0.1)
    assert token == pytest.approx(step / tokens, rel=0.005)
    assert tpot < base_tpot
    assert text in markdown.render(summary, {}).replace("\\", "")


@pytest.mark.parametrize(
    ("steps", "again", "says"),
    [
        ([0.04], None, True),  # one round: INDICATIVE, and VALID
        ([0.04, 0.0402, 0.0405], None, True),  # a gain
        ([0.04, 0.0402, 0.0405], 0.036, False),  # in doubt: the baseline drifted
        ([0.04, 0.07, 0.05], None, False),  # three rounds that show no difference
        ([0.08], None, False),  # TPOT rose
    ],
)
def test_that_tpot_fell_is_said_of_a_valid_speed_up_only(
    tmp_path: Path, steps: list[float], again: float | None, says: bool
) -> None:
    summary = run(tmp_path / "r", steps, again=again)
    assert (words.why_step_latency(summary) is not None) == says
    assert ("Why step latency" in markdown.render(summary, {})) == says


def with_steps(summary: Summary, told: dict[tuple[str, int], StepSpread]) -> Summary:
    def changed(cell: Cell) -> Cell:
        spread = told.get((cell.variant, cell.start))
        if spread is None:
            return cell
        observed = cell.observed.model_copy(update={"step_ms": spread})
        return cell.model_copy(update={"observed": observed})

    return summary.model_copy(update={"cells": [changed(c) for c in summary.cells]})


def test_the_median_step_stands_beside_the_mean(tmp_path: Path) -> None:
    """Missing where one start's chunks hold several steps: the mean beside it is of all."""
    summary = with_steps(
        run(tmp_path / "r", [0.04, 0.0402]),
        {
            ("vanilla", 0): StepSpread(mean=9.0, p50=3.0),
            ("vanilla", 1): StepSpread(mean=11.0, p50=5.0),
            ("x", 0): StepSpread(mean=20.0, p50=12.0),
            ("x", 1): StepSpread(mean=22.0, server_mean=22.0),
        },
    )
    table = tables.per_load(summary, summary.loads[0])
    rows = {r["variant"]: r for r in csv.DictReader(io.StringIO(table.csv()))}
    assert (float(rows["vanilla"]["step_ms"]), float(rows["vanilla"]["step_p50_ms"])) == (10.0, 4.0)
    assert (float(rows["x"]["step_ms"]), rows["x"]["step_p50_ms"]) == (21.0, "")
    head, _, *lines = table.markdown().splitlines()
    at = [name.strip() for name in head.split("|")].index("step p50 ms")
    assert [line.split("|")[at].strip() for line in lines] == ["4.00", "–"]
    every = tables.all_cells(summary)
    each = [r["step_p50_ms"] for r in csv.DictReader(io.StringIO(every.csv()))]
    assert sorted(each) == ["", "12.0", "3.0", "5.0"]
