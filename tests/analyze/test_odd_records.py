"""Records that nobody would write: a verdict comes out, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic_run import write_small_run

from specgauge.analyze.summary import Summary, summarise
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run
from specgauge.report import markdown, tables


def edit(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Change a table and keep its schema."""
    table = pq.read_table(path)
    changed = change(table.to_pandas(types_mapper=pd.ArrowDtype if "state" in table.schema.names
                                     else None))  # fmt: skip
    pq.write_table(pa.Table.from_pandas(changed, schema=table.schema, preserve_index=False), path)


def rows(which: range, **values: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        for column, value in values.items():
            frame.loc[list(which), column] = value
        return frame

    return change


NEVER_CAME = {"t_first": pd.NA, "t_last": pd.NA, "t_done": pd.NA, "output_tokens": 0}
REQUESTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "sent twice": rows(range(3, 4), index=2),
    "cut": rows(range(3, 5), state="cut", **NEVER_CAME),
    "all failed": rows(range(16), state="failed", error="boom", **NEVER_CAME),
    "never sent": rows(range(16), state="failed", t_send=pd.NA, **NEVER_CAME),
    "one left": lambda frame: frame.iloc[:1],
    "none left": lambda frame: frame.iloc[:0],
    "time runs backwards": lambda frame: frame.assign(t_last=frame["t_send"] - 1),
    "no time passes": lambda frame: frame.assign(t_last=frame["t_send"], t_first=frame["t_send"]),
}
CHUNKS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "no chunks": lambda frame: frame.iloc[:0],
    "first chunks lost": lambda frame: frame[frame["seq"] > 0],
    "chunks of others": lambda frame: frame.assign(request=frame["request"] + 100),
}


def judged(folder: Path) -> Summary:
    """The summary; it is JSON without NaN or Infinity, and the report can be written from it."""
    summary = summarise(read_run(folder))
    json.dumps(summary.model_dump(mode="json", by_alias=True), allow_nan=False)
    assert all(table.markdown() and table.csv() for table in tables.every(summary))
    assert markdown.render(summary, {})
    return summary


@pytest.mark.parametrize("what", [*REQUESTS, *CHUNKS])
def test_a_damaged_cell_is_invalid_and_spoils_no_other(tmp_path: Path, what: str) -> None:
    folder = write_small_run(tmp_path / "r")
    at = RunPaths(folder).start("ngram", 0).cell("c4", 0)
    if what in REQUESTS:
        edit(at.requests, REQUESTS[what])
    else:
        edit(at.chunks, CHUNKS[what])
    verdicts = {(c.variant, c.load): c.verdict for c in judged(folder).cells if c.start == 0}
    assert verdicts.pop(("ngram", "c4")) == "INVALID"
    assert set(verdicts.values()) == {"VALID"}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_counters_without_a_number_leave_figures_empty(tmp_path: Path, value: float) -> None:
    folder = write_small_run(tmp_path / "r")
    path = RunPaths(folder).start("ngram", 0).metrics
    edit(path, lambda frame: frame.assign(value=value))
    summary = judged(folder)
    for cell in (c for c in summary.cells if c.variant == "ngram"):
        assert cell.observed.acceptance_length is None
        assert "NOT_SCRAPED" in [r.code for r in cell.reasons]


def test_bytes_that_are_no_text_in_a_log(tmp_path: Path) -> None:
    folder = write_small_run(tmp_path / "r")
    RunPaths(folder).start("ngram", 0).server_log.write_bytes(bytes(range(256)) * 50)
    assert all(c.verdict == "VALID" for c in judged(folder).cells)
