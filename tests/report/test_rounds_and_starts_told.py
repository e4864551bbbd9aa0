"""What a mean hides is told: rounds that differ, rounds that lack, starts that failed."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from synthetic_run import BASE, NGRAM, StartPlant, write_run

from specgauge.analyze.document import Summary
from specgauge.analyze.summary import summarise
from specgauge.record.reader import read_run
from specgauge.report import markdown, words
from specgauge.report.figures import throughput
from specgauge.report.terminal import headline

C1 = ({"requests": 8, "concurrency": 1},)


def start(step: float, *, drafts: bool = False, **more: object) -> StartPlant:
    config = NGRAM if drafts else None
    return StartPlant({"c1": [replace(BASE, step_s=step)]}, speculative_config=config, **more)


def of(folder: Path, starts: dict[tuple[str, int], StartPlant], rounds: int = 2) -> Summary:
    return summarise(read_run(write_run(folder, starts, loads=C1, rounds=rounds)))


def terminal(summary: Summary) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(headline(summary))
    return console.export_text()


def test_two_rounds_that_differ_are_both_told(tmp_path: Path) -> None:
    """A mean of 0.39x from 0.50x and 0.30x looks like a measurement."""
    starts = {("vanilla", k): start(0.03 + 1e-4 * k, round=k) for k in range(2)}
    starts |= {("x", k): start(s, drafts=True, round=k) for k, s in enumerate((0.06, 0.1))}
    summary = of(tmp_path / "r", starts)
    (each,) = [c.per_round for c in summary.comparisons if c.metric == "output_tok_s"]
    text = markdown.render(summary, {})
    assert f"2 rounds ({each[0]:.2f}x, {each[1]:.2f}x): a point" in text
    assert words.fewer_rounds(summary) is None


def test_a_speed_up_that_is_not_the_ratio_of_the_means_says_so(tmp_path: Path) -> None:
    starts = {("vanilla", k): start(0.03 + 0.01 * k, round=k) for k in range(2)}
    starts["x", 0] = start(0.035, drafts=True)
    summary = of(tmp_path / "r", starts)
    (found,) = [c for c in summary.comparisons if c.metric == "output_tok_s"]
    assert found.speedup is not None
    assert found.speedup < 0.9
    told = "x: fewer rounds than the baseline. Their speed-ups are against its same rounds"
    assert told in markdown.render(summary, {})
    assert told in terminal(summary)
    one = of(tmp_path / "s", {("vanilla", 0): start(0.03), ("x", 0): start(0.02, drafts=True)}, 1)
    assert words.fewer_rounds(one) is None
    assert words.standing(summary) is not None
    assert "INDICATIVE: one round, so no interval" in (words.standing(summary) or "")


def test_rounds_that_are_not_alike_are_not_called_one(tmp_path: Path) -> None:
    starts = {("vanilla", k): start(0.03 + 1e-4 * k, round=k) for k in range(2)}
    starts |= {("x", k): start(0.02 + 1e-4 * k, drafts=True, round=k) for k in range(2)}
    starts["y", 0] = start(0.02, drafts=True)
    assert "INDICATIVE: at most 2 rounds" in (words.standing(of(tmp_path / "r", starts)) or "")


def test_why_a_start_failed_is_told_where_the_run_ends(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    starts = {("vanilla", 0): start(0.03), ("x", 0): start(0.02, drafts=True, state="failed")}
    write_run(folder, starts, loads=C1)
    outcome = folder / "x" / "start-0" / "outcome.json"
    why = {"error": "the server is not on the GPU that it was given"}
    outcome.write_text(json.dumps({**json.loads(outcome.read_text()), **why}))
    summary = summarise(read_run(folder))
    told = "x, start 0: failed: the server is not on the GPU that it was given"
    assert told in terminal(summary)
    assert told in markdown.render(summary, {})
    starts["x", 1] = start(0.02, drafts=True)
    write_run(folder, starts, loads=C1)
    again = summarise(read_run(folder))
    assert "x, start 0: failed" not in terminal(again)
    assert "x, start 0: failed" in markdown.render(again, {})


def test_the_numbers_on_many_bars_do_not_touch(tmp_path: Path) -> None:
    """Five variants at four loads, as a run on a real card has them."""
    names = ("vanilla", *(f"x{i}" for i in range(4)))
    summary = of(tmp_path / "r", {(n, 0): start(0.03 - 1e-4 * i) for i, n in enumerate(names)}, 1)
    loads = [summary.loads[0].model_copy(update={"name": f"c{c}", "concurrency": c})
             for c in (1, 4, 16, 64)]  # fmt: skip
    cells = [
        c.model_copy(
            update={
                "load": load.name,
                "concurrency": load.concurrency,
                "observed": c.observed.model_copy(update={"total_tok_s": 24_000.0 + 100 * i}),
            }
        )
        for load in loads
        for i, c in enumerate(summary.cells)
    ]
    drawn = throughput.draw(summary.model_copy(update={"loads": loads, "cells": cells}))
    assert drawn is not None
    drawn.savefig(io.BytesIO(), format="png")
    boxes = [text.get_window_extent() for text in drawn.axes[0].texts]
    assert len(boxes) == 20
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_runner_chosen_by_the_environment_is_named(tmp_path: Path) -> None:
    """Its log has no line of it: `on the V2 runner` beside silence reads as alike."""
    folder = write_run(tmp_path / "r", {("vanilla", 0): start(0.03)}, loads=C1)
    launch = folder / "vanilla" / "start-0" / "launch.json"
    chosen = {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
    launch.write_text(json.dumps({**json.loads(launch.read_text()), **chosen}))
    assert "V1 model runner" in markdown.render(summarise(read_run(folder)), {})
