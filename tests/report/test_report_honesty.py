"""No number without its verdict, none rounded into another claim, no text that acts."""

from __future__ import annotations

import csv
import html as entities
import io
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from synthetic_run import BASE, NGRAM, Plant, StartPlant, write_run

from specgauge.analyze import words as ratio_words
from specgauge.analyze.document import Derived, Summary
from specgauge.analyze.summary import summarise
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run
from specgauge.report import escape, html, markdown, numbers, tables, words
from specgauge.report.figures import style, throughput
from specgauge.report.write import write_report

C1 = ({"requests": 8, "concurrency": 1},)


def plant(step: float, *, drafts: bool = True, **more: object) -> StartPlant:
    config = NGRAM if drafts else None
    return StartPlant({"c1": [replace(BASE, step_s=step)]}, speculative_config=config, **more)


def vanilla(step: float, **more: object) -> StartPlant:
    return plant(step, drafts=False, **more)


def summary_of(folder: Path, starts: dict[tuple[str, int], StartPlant], **more: object) -> Summary:
    return summarise(read_run(write_run(folder, starts, loads=C1, **more)))


def rows(table: tables.Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.csv())))


def test_a_speedup_in_a_load_table_carries_its_own_verdict(tmp_path: Path) -> None:
    """The cell is VALID; the comparison drifted."""
    starts = {
        ("vanilla", 0): vanilla(0.03),
        ("x", 0): plant(0.02),
        ("vanilla", 1): vanilla(0.033, role="drift", round=1),
    }
    summary = summary_of(tmp_path / "r", starts)
    found = {r["variant"]: r for r in rows(tables.per_load(summary, summary.loads[0]))}
    assert found["x"]["verdict"] == "VALID"
    assert found["x"]["speedup_verdict"] == "SUSPECT (DRIFT)"
    assert found["vanilla"]["speedup_verdict"] == ""


@pytest.mark.parametrize(("last", "told"), [(0.035, False), (0.045, True)])
def test_a_machine_that_changed_more_than_any_method_is_said_first(
    tmp_path: Path, last: float, told: bool
) -> None:
    starts = {
        ("vanilla", 0): vanilla(0.03),
        ("x", 0): plant(0.02),
        ("vanilla", 1): vanilla(last, role="drift", round=1),
    }
    text = words.standing(summary_of(tmp_path / "r", starts)) or ""
    assert text.startswith("DISTURBED: the baseline itself changed by") == told
    assert "INDICATIVE" in text


def test_a_partial_drift_start_does_not_taint_the_baseline_s_row(tmp_path: Path) -> None:
    starts = {
        ("vanilla", 0): vanilla(0.03),
        ("vanilla", 1): vanilla(0.03, role="drift", round=1),
    }
    summary = summary_of(tmp_path / "r", starts)
    broken = [
        c.model_copy(update={"verdict": "INVALID", "excluded_because": "partial start"})
        if c.start == 1 else c
        for c in summary.cells
    ]  # fmt: skip
    row = rows(tables.headline(summary.model_copy(update={"cells": broken})))[0]
    assert (row["claim"], row["verdict"]) == ("baseline", "VALID")


def test_a_start_that_did_not_end_has_no_verdict_in_the_headline(tmp_path: Path) -> None:
    starts = {("vanilla", 0): vanilla(0.03), ("x", 0): plant(0.02, state=None)}
    summary = summary_of(tmp_path / "r", starts)
    found = {r["variant"]: r for r in rows(tables.headline(summary))}
    assert found["x"]["verdict"] == "left out: partial start"
    assert found["x"]["speedup"] == ""
    assert found["vanilla"]["verdict"] == "VALID"
    alone = summary_of(tmp_path / "s", {("vanilla", 0): vanilla(0.03, state=None)})
    assert rows(tables.headline(alone))[0]["verdict"] == "left out: partial start"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.00x"), (0.996, "0.996x"), (1.004, "1.004x"), (0.99996, "1.00x"), (0.994, "0.99x"),
     (1.005001, "1.01x"), (12.345, "12.35x"), (1234.5, "1,234.50x"), (0.0042, "0.0042x")],
)  # fmt: skip
def test_a_ratio_is_not_rounded_onto_one(value: float, text: str) -> None:
    assert numbers.times(value) == text
    assert ratio_words.bound(value) == text[:-1]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0"), (0.034, "0.034"), (0.0004, "0.00040"), (0.5, "0.5"), (99.96, "100.0"),
     (123456.7, "123,457")],
)  # fmt: skip
def test_slow_servers_have_a_rate_too(value: float, text: str) -> None:
    assert numbers.rate(value) == text


def test_a_suspect_gain_is_in_doubt(tmp_path: Path) -> None:
    starts = {("vanilla", k): vanilla(0.03 + 1e-4 * k, round=k) for k in range(3)}
    starts |= {("x", k): plant(0.02 + 1.1e-4 * k, round=k) for k in range(3)}
    sure = summary_of(tmp_path / "r", starts, rounds=3)
    assert [r["claim"] for r in rows(tables.headline(sure))] == ["baseline", "gain"]
    starts["vanilla", 3] = vanilla(0.033, role="drift", round=3)
    doubtful = summary_of(tmp_path / "s", starts, rounds=3)
    assert [r["claim"] for r in rows(tables.headline(doubtful))] == ["baseline", "gain, in doubt"]


def test_rows_below_three_rounds_are_named_beside_those_with_an_interval(tmp_path: Path) -> None:
    starts = {("vanilla", k): vanilla(0.03 + 1e-4 * k, round=k) for k in range(3)}
    starts |= {("x", k): plant(0.02 + 1.1e-4 * k, round=k) for k in range(3)}
    starts |= {("y", 0): plant(0.01)}
    summary = summary_of(tmp_path / "r", starts, rounds=3)
    assert words.standing(summary) == (
        "INDICATIVE (too few rounds for an interval, nothing is claimed): y c1."
    )
    all_three = {key: value for key, value in starts.items() if key[0] != "y"}
    assert words.standing(summary_of(tmp_path / "s", all_three, rounds=3)) is None


HOSTILE = (
    "![x](http://example.org/x.png) [a](javascript:alert(1)) <img src=x> `code` **b** _c_ | d\n"
    "# heading\x1b[31m\u202e &lt; ~~s~~ \\| e"
)


@pytest.mark.parametrize("place", ["inline", "line", "cell"])
def test_text_from_records_is_shown_and_not_obeyed(place: str) -> None:
    if place == "cell":
        source = f"| a |\n| --- |\n| {escape.inline(HOSTILE)} |\n"
    else:
        source = f"- {getattr(escape, place)(HOSTILE)}\n"
    page = html.render(source, {}, "t").partition("<body>")[2]
    for tag in ("<img", "<a ", "<code", "<strong", "<em", "<h1", "<s>", "\x1b", "\u202e"):
        assert tag not in page, tag
    assert page.count("<td>") == (1 if place == "cell" else 0)
    assert "![x](http://example.org/x.png)" in page
    assert "&amp;lt;" in page


@pytest.mark.parametrize("text", ["# a", "> a", "- a", "+ a", "1. a", "2) a", "=== a"])
def test_what_opens_a_block_does_not(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(escape.line(text))
    assert [t.type for t in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    rendered = MarkdownIt("commonmark").render(escape.line(text))
    assert text.replace(">", "&gt;") in rendered


def test_words_with_underscores_stay_readable() -> None:
    assert escape.inline("ngram_improved, max_num_seqs") == "ngram_improved, max_num_seqs"
    assert escape.inline("_topk_kernel") == "\\_topk_kernel"


@pytest.mark.parametrize("text", ["a `b` c", "`", "``x``", "plain"])
def test_a_code_span_holds_any_text(text: str) -> None:
    page = MarkdownIt("commonmark").render(escape.code(text))
    assert f"<code>{text}</code>" in page


def test_an_error_of_a_start_cannot_write_the_report(tmp_path: Path) -> None:
    starts = {("vanilla", 0): vanilla(0.03), ("x", 0): plant(0.02, state="failed")}
    summary = summary_of(tmp_path / "r", starts)
    failed = summary.starts[1].model_copy(update={"error": HOSTILE})
    told = summary.model_copy(update={"starts": [summary.starts[0], failed]})
    page = html.render(markdown.render(told, {}), {}, "t")
    assert "<img" not in page
    assert "javascript:" in page
    assert 'href="' not in page


def test_a_config_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    quoted = {**NGRAM, "model": "it's `here`"}
    starts = {
        ("vanilla", 0): vanilla(0.03),
        ("x", 0): replace(plant(0.01), speculative_config=quoted),
    }
    summary = summary_of(tmp_path / "r", starts)
    page = MarkdownIt("commonmark").render(markdown.render(summary, {}))
    command = entities.unescape(page.partition("<code>--speculative-config ")[2].partition(
        "</code>")[0])  # fmt: skip
    (word,) = shlex.split(command)
    assert '"model": "it\'s `here`"' in word


def test_an_open_load_has_no_corrected_ratio(tmp_path: Path) -> None:
    open_plant = Plant(requests=20, concurrency=None, rate=2.0)
    starts = {("vanilla", 0): StartPlant({"r2.0": [open_plant]})}
    folder = write_run(tmp_path / "r", starts, loads=({"requests": 20, "rate": 2.0},))
    summary = summarise(read_run(folder))
    frozen = Derived(frozen_s=2.0, output_tok_s=None, from_="chunks", verdict="SUSPECT")
    cell = summary.cells[0].model_copy(update={"derived": frozen})
    (row,) = rows(tables.corrected(summary.model_copy(update={"cells": [cell]})))
    assert row["corrected_tok_s"] == row["corrected_speedup"] == row["speedup"] == ""


def test_many_variants_and_odd_names_are_drawn_and_told_apart(tmp_path: Path) -> None:
    names = ["vanilla", "a$b^{$", *(f"v{i}" for i in range(9))]
    starts = {(n, 0): vanilla(0.03) if n == "vanilla" else plant(0.02) for n in names}
    summary = summary_of(tmp_path / "r", starts)
    looks = style.looks(summary)
    assert len(set(looks.values())) == len(names)
    drawn = throughput.draw(summary)
    assert drawn is not None
    drawn.savefig(io.BytesIO(), format="png")


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    starts = {("vanilla", 0): vanilla(0.03), ("x", 0): plant(0.02)}
    folder = write_run(tmp_path / "r", starts, loads=C1)
    seen = []
    for _ in range(2):
        run = read_run(folder)
        write_report(run, summarise(run), RunPaths(folder))
        files = sorted(p for p in RunPaths(folder).analysis.rglob("*") if p.is_file())
        seen.append({p.name: p.read_bytes() for p in files})
    assert seen[0] == seen[1]
    assert any(name.endswith(".png") for name in seen[0])


def test_one_card_of_several_is_not_told_as_several(tmp_path: Path) -> None:
    summary = summary_of(tmp_path / "r", {("vanilla", 0): vanilla(0.03)})
    environment = {
        "machine": {"gpus": ["NVIDIA H200", "NVIDIA H200"], "cores": 32},
        "gpu": {"name": "NVIDIA H200"},
    }
    text = markdown.render(summary.model_copy(update={"environment": environment}), {})
    assert "; NVIDIA H200 (one of 2), 32 cores" in text


@pytest.mark.parametrize(("value", "text"), [(1.0075, "100%"), (0.12, "12%"), (None, "–")])
def test_more_than_every_step_is_not_drafted_for(value: float | None, text: str) -> None:
    assert numbers.coverage(value) == text
