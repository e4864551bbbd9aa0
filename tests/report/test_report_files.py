"""The report's files: complete, readable, honest about verdicts."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from synthetic_run import BASE, NGRAM, Plant, StartPlant, write_run, write_small_run

from specgauge.analyze.document import Summary
from specgauge.analyze.records import RunRecord
from specgauge.analyze.summary import summarise
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run
from specgauge.report import html, numbers, tables
from specgauge.report.terminal import headline
from specgauge.report.write import write_report


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Summary, RunPaths]:
    folder = write_small_run(tmp_path_factory.mktemp("results") / "run-1")
    run = read_run(folder)
    summary = summarise(run)
    write_report(run, summary, RunPaths(folder))
    return run, summary, RunPaths(folder)


def test_every_file_is_there(small: tuple[RunRecord, Summary, RunPaths]) -> None:
    analysis = small[2].analysis
    found = {str(p.relative_to(analysis)) for p in analysis.rglob("*") if p.is_file()}
    expected = {"summary.json", "report.md", "report.html"}
    expected |= {f"figures/{n}.png" for n in ("throughput", "ttft_tpot", "acceptance")}
    for name in ("headline", "load-c1", "load-c4", "cells", "checks", "comparisons"):
        expected |= {f"tables/{name}.md", f"tables/{name}.csv"}
    assert found == expected
    for png in (analysis / "figures").glob("*.png"):
        assert png.read_bytes().startswith(b"\x89PNG")
        assert png.stat().st_size < 400_000


def test_summary_json_reads_back(small: tuple[RunRecord, Summary, RunPaths]) -> None:
    _, summary, paths = small
    assert Summary.model_validate(json.loads(paths.summary.read_text())) == summary


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_holds_full_numbers(small: tuple[RunRecord, Summary, RunPaths]) -> None:
    _, summary, paths = small
    table = rows((paths.analysis / "tables" / "load-c1.csv").read_text())
    assert [r["variant"] for r in table] == ["vanilla", "vanilla, again at the end", "ngram"]
    ngram = next(c for c in summary.cells if c.variant == "ngram" and c.load == "c1")
    assert float(table[2]["output_tok_s"]) == ngram.observed.output_tok_s
    assert float(table[2]["draft_coverage"]) == ngram.observed.draft_coverage
    assert table[0]["acceptance_length"] == ""
    assert float(table[0]["speedup"]) == 1.0
    assert table[1]["speedup"] == ""


def test_the_first_screen_answers(small: tuple[RunRecord, Summary, RunPaths]) -> None:
    text = (small[2].analysis / "report.md").read_text()
    order = ["# synthetic", "vLLM 0.32.0", "INDICATIVE", "| load | variant", "## Recommendation",
             "## Can it be trusted?", "## By load", "## Figures", "## Definitions",
             "## Environment"]  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert places[order.index("## Recommendation")] < 2500
    assert "Why step latency did not fall while TPOT did: at c1 a step of ngram" in text
    assert '--speculative-config \'{"method": "ngram"' in text


def test_html_is_one_file_with_its_images(small: tuple[RunRecord, Summary, RunPaths]) -> None:
    text = (small[2].analysis / "report.html").read_text()
    assert text.count("data:image/png;base64,") == 3
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert text.count("<table>") == text.count("</table>") >= 5
    # Each scrolls sideways in a box of its own, not the page.
    assert text.count('<div class="wide" tabindex="0"><table>') == text.count("<table>")
    assert text.count("</table></div>") == text.count("<table>")


def test_html_shows_markup_as_text() -> None:
    page = html.render("a <script>alert(1)</script>\n", {}, "<b>")
    assert "<script>" not in page
    assert "<title>&lt;b&gt;</title>" in page


def shown(summary: Summary, width: int = 160) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(headline(summary))
    return console.export_text()


def test_the_terminal_labels_one_round(small: tuple[RunRecord, Summary, RunPaths]) -> None:
    text = shown(small[1])
    assert "INDICATIVE: one round, so no interval" in text
    assert "baseline" in text
    assert "6 cells: 6 VALID" in text
    assert "neither a win nor a loss is claimed" in text


def test_eighty_columns_show_every_verdict_whole(
    small: tuple[RunRecord, Summary, RunPaths],
) -> None:
    lines = shown(small[1], width=80).split("\n")
    assert max(len(line) for line in lines) <= 80
    rows = [line for line in lines if line.strip().startswith(("c1 ", "c4 "))]
    assert len(rows) == 4
    assert all(line.rstrip().endswith("VALID") for line in rows)
    assert not any("…" in line for line in lines)


def test_an_invalid_cell_keeps_its_numbers_and_loses_its_ratio(tmp_path: Path) -> None:
    bad = replace(BASE, idle_s=0.5)
    starts = {
        ("vanilla", 0): StartPlant({"c1": [BASE]}),
        ("x|y", 0): StartPlant({"c1": [bad]}, speculative_config=NGRAM),
    }
    folder = write_run(tmp_path / "r", starts, loads=({"requests": 8, "concurrency": 1},))
    run = read_run(folder)
    summary = summarise(run)
    write_report(run, summary, RunPaths(folder))
    text = (RunPaths(folder).analysis / "report.md").read_text()
    (row,) = [line for line in text.split("\n") if "left out: INVALID" in line]
    assert "x\\|y, start 0" in row
    assert "INVALID (CLIENT_STARVED)" in row
    assert row.count("–") >= 2
    assert "nothing can be recommended" in text
    terminal = shown(summary)
    assert "INVALID (CLIENT_STARVED)" in terminal
    assert "Leave a CPU to the load generator" in terminal
    assert (RunPaths(folder).analysis / "figures" / "throughput.png").exists()


def test_without_a_baseline_the_report_says_so(tmp_path: Path) -> None:
    starts = {("x", 0): StartPlant({"c1": [BASE]}, speculative_config=NGRAM)}
    folder = write_run(tmp_path / "r", starts, loads=({"requests": 8, "concurrency": 1},))
    run = read_run(folder)
    summary = summarise(run)
    write_report(run, summary, RunPaths(folder))
    assert "No speed-ups: the baseline (vanilla) was not measured" in shown(summary)
    text = (RunPaths(folder).analysis / "report.md").read_text()
    assert "No speed-ups: the baseline (vanilla) was not measured" in text
    assert not (RunPaths(folder).analysis / "figures" / "acceptance.png").exists()


def test_what_nothing_watched_is_told(tmp_path: Path) -> None:
    starts = {("vanilla", 0): StartPlant({"c1": [BASE]})}
    folder = write_run(
        tmp_path / "r", starts, loads=({"requests": 8, "concurrency": 1},), baseline_last=True
    )
    RunPaths(folder).start("vanilla", 0).metrics.unlink()
    run = read_run(folder)
    summary = summarise(run)
    write_report(run, summary, RunPaths(folder))
    text = (RunPaths(folder).analysis / "report.md").read_text()
    assert "- not measured: vanilla, again at the end: c1" in text
    terminal = shown(summary)
    assert "NOT_SCRAPED (vanilla c1): not looked at. Nothing was scraped" in terminal
    assert "DRIFT (run): not looked at" in terminal
    assert "MONITOR_OFF" not in terminal


@pytest.mark.filterwarnings("error")
def test_one_token_outputs_draw_without_a_warning(tmp_path: Path) -> None:
    """No TPOT anywhere: a panel without a bar."""
    one = replace(BASE, output_tokens=1)
    starts = {
        ("vanilla", 0): StartPlant({"c1": [one]}),
        ("x", 0): StartPlant({"c1": [one]}, speculative_config=NGRAM),
    }
    folder = write_run(tmp_path / "r", starts, loads=({"requests": 8, "concurrency": 1},))
    run = read_run(folder)
    write_report(run, summarise(run), RunPaths(folder))
    assert (RunPaths(folder).analysis / "figures" / "ttft_tpot.png").exists()


def test_a_figure_without_data_is_removed(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "r", {("vanilla", 0): StartPlant({"c1": [BASE]})},
        loads=({"requests": 8, "concurrency": 1},),
    )  # fmt: skip
    stale = RunPaths(folder).analysis / "figures" / "acceptance.png"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"old")
    run = read_run(folder)
    write_report(run, summarise(run), RunPaths(folder))
    assert not stale.exists()


def test_an_open_load_shows_latency_from_schedule_and_no_throughput_ratio(tmp_path: Path) -> None:
    plant = Plant(requests=20, concurrency=None, rate=2.0)
    starts = {
        ("vanilla", 0): StartPlant({"r2.0": [plant]}),
        ("x", 0): StartPlant({"r2.0": [replace(plant, step_s=0.02)]}, speculative_config=NGRAM),
    }
    folder = write_run(tmp_path / "r", starts, loads=({"requests": 20, "rate": 2.0},))
    run = read_run(folder)
    summary = summarise(run)
    write_report(run, summary, RunPaths(folder))
    table = tables.per_load(summary, summary.loads[0])
    keys = [c.key for c in table.columns]
    assert "speedup" not in keys
    assert {"tpot_speedup", "ttft_scheduled_ms", "e2e_scheduled_ms", "goodput_s"} <= set(keys)
    assert not (RunPaths(folder).analysis / "figures" / "throughput.png").exists()
    assert (RunPaths(folder).analysis / "figures" / "ttft_tpot.png").exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (9.876, "9.88"), (98.76, "98.8"), (3295.2, "3,295")],
)
def test_milliseconds_keep_three_digits(value: float | None, text: str) -> None:
    assert numbers.milliseconds(value) == text
