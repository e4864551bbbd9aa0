"""Joules per token, clocks and limits in the tables; nothing of them without a GPU."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plant import Card, plant
from synthetic_run import BASE, FAST, NGRAM, StartPlant, build_cell, write_run

from specgauge.analyze.summary import Summary, summarise
from specgauge.gpu import throttle
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run
from specgauge.report import energy, markdown, numbers, tables


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
    assert "| c1 | vanilla |" + " – |" * 8 + " 1,980 |" in energy.table(summary).markdown()


def test_a_taint_stands_beside_the_energy(tmp_path: Path) -> None:
    hot = Card(throttle=throttle.HW_THERMAL)
    table = energy.table(summary_of(tmp_path / "run", {"vanilla": Card(), "ngram": hot}))
    assert [row[-1] for row in table.rows] == ["VALID", "SUSPECT (THROTTLED)"]


def rows_of(summary: Summary) -> dict[str, dict[str, Any]]:
    table = energy.table(summary)
    keys = [column.key for column in table.columns]
    return {row[1]: dict(zip(keys, row, strict=True)) for row in table.rows}


def rounds_on(folder: Path, watts: dict[str, list[float]]) -> Summary:
    """c1 after a warm-up, a start a round; a card at 100 W that draws ``watts`` in the cell."""
    starts, cards = {}, {}
    warm = replace(BASE, requests=2)
    for variant, drawn in watts.items():
        for k, work in enumerate(drawn):
            jitter = (2.3e-4 if variant == "ngram" else 1e-4) * k  # no round is a copy
            cell = replace(BASE, step_s=BASE.step_s * (1 + jitter))
            config = NGRAM if variant == "ngram" else None
            starts[variant, k] = StartPlant(
                {"c1": [cell]},
                round=k,
                speculative_config=config,
                warmup=[warm],
            )
            built = build_cell(warm, t0=1000.0 * (k + 1))
            assert built.record.document is not None
            at = built.record.document.t_end + 2.0  # as write_run lays its cells
            end = at + 1e3
            cards[variant, k] = Card(
                power_w=lambda t, at=at, end=end, work=work: work if at <= t <= end else 100.0
            )
    loads = [{"requests": BASE.requests, "concurrency": 1}]
    run = write_run(folder, starts, loads=loads, rounds=max(map(len, watts.values())))
    plant(run, cards)
    return summarise(read_run(RunPaths(run).folder))


def test_ratios_are_geometric_means_over_rounds_and_rest_is_taken_off(tmp_path: Path) -> None:
    """Per round 2 and 1/2: 1 in the geometric mean, 0.8 by means; above rest 2.5 and 1/4."""
    watts = {"vanilla": [150.0, 420.0], "ngram": [300.0, 210.0]}
    summary = rounds_on(tmp_path / "run", watts)
    rows = rows_of(summary)
    assert rows["ngram"]["against_baseline"] == pytest.approx(1.0, rel=0.01)
    above = math.sqrt((200 / 50) * (110 / 320))
    assert rows["ngram"]["above_rest_against_baseline"] == pytest.approx(above, rel=0.02)
    assert rows["vanilla"]["above_rest_against_baseline"] == 1.0
    assert rows["ngram"]["rest_power_w"] == pytest.approx(100.0, abs=0.1)
    assert rows["ngram"]["joules_per_token_above_rest"] / rows["ngram"]["joules_per_token"] == (
        pytest.approx(155 / 255, rel=0.01)
    )
    told = {r.metric: r for r in summary.energy}
    assert told["joules_per_token"].per_round == pytest.approx([2.0, 0.5], rel=0.01)
    assert told["joules_per_token_above_rest"].per_round == pytest.approx(
        [200 / 50, 110 / 320], rel=0.02
    )
    assert {r.verdict for r in summary.energy} == {"VALID"}


def test_a_ratio_is_in_doubt_with_either_side(tmp_path: Path) -> None:
    hot = Card(throttle=throttle.HW_THERMAL)
    rows = rows_of(summary_of(tmp_path / "run", {"vanilla": hot, "ngram": Card()}))
    assert rows["ngram"]["verdict"] == "VALID"
    assert rows["ngram"]["ratio_verdict"] == "SUSPECT (THROTTLED)"
    assert rows["vanilla"]["ratio_verdict"] is None


def test_a_round_without_its_partner_is_in_no_ratio(tmp_path: Path) -> None:
    watts = {"vanilla": [200.0, 200.0], "ngram": [300.0, 300.0, 900.0]}
    summary = rounds_on(tmp_path / "run", watts)
    (whole,) = [r for r in summary.energy if r.metric == "joules_per_token"]
    assert whole.rounds == 2
    assert whole.ratio == pytest.approx(1.5, rel=0.01)
    assert (whole.variant, whole.against, whole.load) == ("ngram", "vanilla", "c1")


def test_an_energy_shows_three_digits() -> None:
    shown = [numbers.joules(v) for v in (None, 10.014, 0.8432, 0.04049, 0.004671, 1234.5)]
    assert shown == ["–", "10.0", "0.843", "0.0405", "0.00467", "1,234"]
