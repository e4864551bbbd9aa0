"""Joules per token, clocks and limits in the tables; nothing of them without a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gpu_plant import Card, plant
from synthetic_run import BASE, FAST, NGRAM, StartPlant, write_run

from specgauge.analyze.summary import Summary, summarise
from specgauge.gpu import throttle
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run
from specgauge.report import energy, markdown, tables


def summary_of(folder: Path, cards: dict[str, Card]) -> Summary:
    starts = {
        ("vanilla", 0): StartPlant({"c1": [BASE]}),
        ("ngram", 0): StartPlant({"c1": [FAST]}, speculative_config=NGRAM),
    }
    run = write_run(folder, starts, loads=[{"requests": 8, "concurrency": 1}])
    if cards:
        plant(run, {(variant, 0): card for variant, card in cards.items()})
    return summarise(read_run(RunPaths(run).folder))


def test_energy_by_variant_and_against_the_baseline(tmp_path: Path) -> None:
    capped = Card(power_w=700.0, throttle=throttle.POWER_CAP, sm_clock_mhz=1503)
    summary = summary_of(tmp_path / "run", {"vanilla": Card(power_w=500.0), "ngram": capped})
    table = energy.table(summary)
    keys = [column.key for column in table.columns]
    vanilla, ngram = (dict(zip(keys, row, strict=True)) for row in table.rows)
    (base, mine) = [c.observed for c in sorted(summary.cells, key=lambda c: c.variant == "ngram")]
    assert vanilla["joules_per_token"] == pytest.approx(500 / base.output_tok_s, rel=0.01)
    assert ngram["joules_per_token"] == pytest.approx(700 / mine.output_tok_s, rel=0.01)
    assert vanilla["against_baseline"] == 1.0
    assert ngram["against_baseline"] == pytest.approx(
        1.4 * base.output_tok_s / mine.output_tok_s, rel=0.01
    )
    assert (ngram["energy_from"], ngram["limited_by"]) == ("energy counter", "power cap 100%")
    assert ngram["verdict"] == "VALID"
    assert (vanilla["sm_clock_mhz"], ngram["sm_clock_mhz"]) == (1980, 1503)
    per_load = tables.per_load(summary, summary.loads[0]).markdown()
    assert "J/token | SM MHz" in per_load
    assert "1,503" in per_load
    report = markdown.render(summary, {})
    assert "### Energy and clocks" in report
    assert "NVIDIA H200" in report
    assert "THROTTLED" in report  # info: told, not tainting
    assert {c.verdict for c in summary.cells} == {"VALID"}


def test_without_a_gpu_there_is_no_word_of_energy(tmp_path: Path) -> None:
    summary = summary_of(tmp_path / "run", {})
    assert energy.table(summary).rows == []
    assert "J/token" not in markdown.render(summary, {})


def test_a_card_that_tells_no_energy_leaves_dashes(tmp_path: Path) -> None:
    mute = replace(Card(), power_w=None, counter=False)
    summary = summary_of(tmp_path / "run", {"vanilla": mute, "ngram": mute})
    assert "| c1 | vanilla | – | – | – | – | 1,980 |" in energy.table(summary).markdown()


def test_a_taint_stands_beside_the_energy(tmp_path: Path) -> None:
    hot = Card(throttle=throttle.HW_THERMAL)
    table = energy.table(summary_of(tmp_path / "run", {"vanilla": Card(), "ngram": hot}))
    assert [row[-1] for row in table.rows] == ["VALID", "SUSPECT (THROTTLED)"]
