"""NOT_SCRAPED: counters of a part of a cell are not shown as if of the whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic_run import BASE, FAST, NGRAM, StartPlant, write_run

from specgauge.analyze.document import Cell, Summary
from specgauge.analyze.summary import summarise
from specgauge.record import atomic
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run
from specgauge.record.schema import METRICS
from specgauge.report.write import write_report

C1 = ({"requests": 8, "concurrency": 1},)
Change = Callable[[pd.DataFrame], pd.DataFrame]


def analysed(folder: Path, change: Change) -> Summary:
    """A run whose ngram start has its scrapes changed; the first send is at 1000 s."""
    starts = {
        ("vanilla", 0): StartPlant({"c1": [BASE]}),
        ("ngram", 0): StartPlant({"c1": [FAST]}, speculative_config=NGRAM),
    }
    write_run(folder, starts, loads=C1)
    path = RunPaths(folder).start("ngram", 0).metrics
    changed = change(pq.read_table(path).to_pandas())
    table = pa.Table.from_pandas(changed, schema=METRICS, preserve_index=False)
    atomic.write_parquet(path, table)
    return summarise(read_run(folder))


def ngram(summary: Summary) -> Cell:
    return next(c for c in summary.cells if c.variant == "ngram")


def told(cell: Cell) -> str:
    (reason,) = [r for r in cell.reasons if r.code == "NOT_SCRAPED"]
    assert reason.severity == "unknown"
    return reason.detail


def lacks_counters(cell: Cell) -> bool:
    seen = cell.observed
    figures = (
        seen.drafts, seen.draft_tokens, seen.accepted_tokens, seen.draft_coverage,
        seen.acceptance_length, seen.efficiency, seen.acceptance_check,
        seen.prefix_cache_hit_rate, seen.uncached_prompt_tokens, seen.step_ms.server_mean,
    )  # fmt: skip
    return all(f is None for f in figures) and not seen.acceptance_by_position


def test_whole_scrapes_say_nothing(tmp_path: Path) -> None:
    cell = ngram(analysed(tmp_path / "r", lambda rows: rows))
    assert "NOT_SCRAPED" not in [r.code for r in cell.reasons]
    assert not lacks_counters(cell)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[rows["t"] < 1003], "stop"),
        (lambda rows: rows[rows["t"] > 1003], "begin 3."),
        (lambda rows: rows[rows["t"] < 0], "Nothing was scraped"),
    ],
)
def test_scrapes_that_do_not_bracket_the_cell(tmp_path: Path, change: Change, words: str) -> None:
    summary = analysed(tmp_path / "r", change)
    cell = ngram(summary)
    assert words in told(cell)
    assert lacks_counters(cell)
    assert cell.verdict == "VALID"
    assert cell.observed.tokens_per_step is not None  # from the stream
    assert "CACHE_WARM" not in [n.code for c in summary.comparisons for n in c.notes]


def test_a_missing_file_of_scrapes(tmp_path: Path) -> None:
    analysed(tmp_path / "r", lambda rows: rows)
    RunPaths(tmp_path / "r").start("ngram", 0).metrics.unlink()
    cell = ngram(summarise(read_run(tmp_path / "r")))
    assert "Nothing was scraped" in told(cell)
    assert lacks_counters(cell)


def test_a_number_that_is_none_is_unknown(tmp_path: Path) -> None:
    folder = tmp_path / "r"

    def spoilt(rows: pd.DataFrame) -> pd.DataFrame:
        spoil = rows["name"].str.startswith("vllm") & (rows["t"] > 1001)
        return rows.assign(value=rows["value"].mask(spoil, math.nan))

    summary = analysed(folder, spoilt)
    cell = ngram(summary)
    assert "no number for vllm:request_success_total" in told(cell)
    assert lacks_counters(cell)
    assert cell.observed.acceptance_length_over_time.points == []
    write_report(read_run(folder), summary, RunPaths(folder))
