"""Tables and documents that hold what cannot be: named with their file, never analysed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specgauge.analyze.summary import summarise
from specgauge.errors import UsageError
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "analyze"))

from synthetic_run import write_small_run


def set_all(path: Path, column: str, value: Any) -> None:
    """Write ``value`` into every row of ``column``, the schema kept."""
    table = pq.read_table(path)
    at = table.schema.get_field_index(column)
    field = table.schema.field(column)
    filled = pa.array([value] * table.num_rows, type=field.type)
    pq.write_table(table.set_column(at, field, filled), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_small_run(tmp_path / "r")


@pytest.mark.parametrize(
    ("name", "column", "value", "words"),
    [
        ("requests", "index", None, "have no index"),
        ("requests", "output_tokens", None, "have no output_tokens"),
        ("requests", "max_tokens", None, "have no max_tokens"),
        ("requests", "state", "weird", "unknown state 'weird'"),
        ("requests", "t_last", float("inf"), "t_last holds times that are none"),
        ("chunks", "tokens", None, "have no tokens"),
        ("chunks", "t", float("nan"), "t holds times that are none"),
        ("chunks", "t", None, "have no t"),
    ],
)
def test_a_cells_table_with_what_cannot_be(
    folder: Path, name: str, column: str, value: Any, words: str
) -> None:
    path = RunPaths(folder).start("ngram", 0).cell("c4", 0).requests.with_name(f"{name}.parquet")
    set_all(path, column, value)
    with pytest.raises(UsageError, match=words) as raised:
        read_run(folder)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("labels", ["not json", "[1]"])
def test_labels_that_are_no_object(folder: Path, labels: str) -> None:
    set_all(RunPaths(folder).start("ngram", 0).metrics, "labels", labels)
    with pytest.raises(UsageError, match="no JSON object"):
        read_run(folder)


def test_a_table_of_other_types(folder: Path) -> None:
    path = RunPaths(folder).start("ngram", 0).cell("c4", 0).requests
    names = pq.read_schema(path).names
    pq.write_table(pa.table({name: ["x"] for name in names}), path)
    with pytest.raises(UsageError, match=r"requests\.parquet: cannot be read"):
        read_run(folder)


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_a_document_with_a_number_that_is_none(folder: Path, number: str) -> None:
    path = RunPaths(folder).start("ngram", 0).cell("c4", 0).cell
    document = json.loads(path.read_text()) | {"t_begin": float(number.replace("inity", ""))}
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=f"{number} is no number"):
        read_run(folder)


PLANS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "variants a list": lambda m: m.update(variants=["ngram"]),
    "experiment a list": lambda m: m.update(experiment=[1]),
    "loads missing": lambda m: m["experiment"].update(loads=None),
    "a load in words": lambda m: m["experiment"].update(loads=[{"concurrency": "x"}]),
    "rounds in words": lambda m: m["experiment"].update(rounds="many"),
    "K in words": lambda m: m["variants"]["ngram"].update(
        speculative_config={"num_speculative_tokens": "six"}
    ),
}


@pytest.mark.parametrize("what", PLANS)
def test_a_manifest_whose_plan_is_none(folder: Path, what: str) -> None:
    path = RunPaths(folder).manifest
    manifest = json.loads(path.read_text())
    PLANS[what](manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="its plan cannot be read"):
        read_run(folder)


def test_a_stamp_of_no_date_has_the_time_of_the_line_before(folder: Path) -> None:
    log = RunPaths(folder).start("ngram", 0).server_log
    log.write_text("2026-11-29T15:00:00.000Z O a\n2026-13-45T99:99:99.000Z O b\n")
    (start,) = [s for s in read_run(folder).starts if s.variant == "ngram"]
    assert start.log[0].t == start.log[1].t


@pytest.mark.parametrize("column", ["t_send", "t_first", "t_last"])
def test_a_request_that_ended_well_has_its_times(folder: Path, column: str) -> None:
    path = RunPaths(folder).start("ngram", 0).cell("c4", 0).requests
    table = pq.read_table(path)
    values = table[column].to_pylist()
    values[3] = None
    at = table.schema.get_field_index(column)
    field = table.schema.field(column)
    pq.write_table(table.set_column(at, field, pa.array(values, field.type)), path)
    cells = {(c.variant, c.load): c for c in summarise(read_run(folder)).cells if c.start == 0}
    (reason,) = [r for r in cells["ngram", "c4"].reasons if r.code == "INCOMPLETE"]
    assert "1 ended well, but without their times" in reason.detail
    assert cells["ngram", "c1"].verdict == "VALID"


def test_a_number_too_large_is_none(folder: Path) -> None:
    path = RunPaths(folder).start("ngram", 0).launch
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "ready_at": 0.5}).replace("0.5", "1e999"))
    with pytest.raises(UsageError, match="1e999 is no number"):
        read_run(folder)
