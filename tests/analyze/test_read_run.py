"""A results folder read back: complete, partial, damaged and of another schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic_run import EPOCH_OFFSET, write_small_run

from specgauge.errors import ExitCode, UsageError
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_log, read_run


def test_a_run_comes_back_whole(tmp_path: Path) -> None:
    run = read_run(write_small_run(tmp_path / "run-1"))
    assert (run.setup.experiment, run.setup.run_id) == ("synthetic", "run-1")
    assert run.setup.model == "SmolLM2-135M-Instruct"
    assert [v.name for v in run.setup.variants] == ["vanilla", "ngram"]
    assert run.setup.variant("ngram").k == 6
    assert run.setup.variant("vanilla").k == 0
    assert [(s.variant, s.start, s.role) for s in run.starts] == [
        ("vanilla", 0, "round"), ("vanilla", 1, "drift"), ("ngram", 0, "round"),
    ]  # fmt: skip
    ngram = run.starts[-1]
    assert [(c.load, c.repeat) for c in ngram.cells] == [("c1", 0), ("c4", 0)]
    assert [c.repeat for c in ngram.warmup] == [0, 1]
    assert [len(c.requests) for c in ngram.cells] == [8, 16]
    assert not ngram.partial
    assert ngram.log


def test_log_stamps_are_on_the_cells_clock(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(
        "2026-11-29T15:49:03.123Z O hello\n2026-11-29T15:49:04.000Z E \u2028odd\u2028 line\nrest\n"
    )
    found = read_log(path, EPOCH_OFFSET)
    assert [(x.stream, x.text) for x in found] == [
        ("O", "hello"), ("E", "\u2028odd\u2028 line"), ("E", "rest"),
    ]  # fmt: skip
    assert found[1].t - found[0].t == pytest.approx(0.877)
    assert found[2].t == found[1].t
    assert found[0].t + EPOCH_OFFSET == pytest.approx(1795967343.123)


def test_a_start_without_an_outcome_is_partial_and_its_cells_are_there(tmp_path: Path) -> None:
    folder = write_small_run(tmp_path / "run-1")
    start = RunPaths(folder).start("ngram", 0)
    start.outcome.unlink()
    start.cell("c4", 0).cell.unlink()
    start.cell("c4", 0).chunks.unlink()
    (ngram,) = [s for s in read_run(folder).starts if s.variant == "ngram"]
    assert ngram.partial
    unfinished = ngram.cells[-1]
    assert (unfinished.load, unfinished.document) == ("c4", None)
    assert len(unfinished.chunks) == 0
    assert "tokens" in unfinished.chunks.columns


def fails(folder: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_run(folder)
    assert caught.value.exit_code == ExitCode.USAGE
    return str(caught.value)


def test_another_schema_names_both(tmp_path: Path) -> None:
    folder = write_small_run(tmp_path / "run-1")
    manifest = RunPaths(folder).manifest
    value = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**value, "schema": "specgauge.results/9"}))
    message = fails(folder)
    assert "specgauge.results/9" in message
    assert "specgauge.results/1" in message


def test_no_run_there(tmp_path: Path) -> None:
    assert "no run here" in fails(tmp_path)


@pytest.mark.parametrize("edited", [{"t_end": 1.0}, {"t_go": 1.0}, {"t_begin": 1e9}])
def test_a_cell_that_ends_before_it_began_is_named(tmp_path: Path, edited: dict) -> None:
    folder = write_small_run(tmp_path / "run-1")
    path = RunPaths(folder).start("vanilla", 0).cell("c1", 0).cell
    path.write_text(json.dumps({**json.loads(path.read_text()), **edited}))
    message = fails(folder)
    assert str(path) in message
    assert "not in this order" in message


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder = write_small_run(tmp_path / "run-1")
    cell = RunPaths(folder).start("vanilla", 0).cell("c1", 0)
    whole = cell.requests.read_bytes()
    cell.requests.write_bytes(whole[: len(whole) // 2])
    assert str(cell.requests) in fails(folder)
    cell.requests.write_bytes(whole)
    cell.cell.write_text('{"variant": 3}')
    assert f"{cell.cell}: variant" in fails(folder)
    cell.cell.write_text("{")
    assert str(cell.cell) in fails(folder)


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = write_small_run(tmp_path / "run-1")
    path = RunPaths(folder).start("vanilla", 0).cell("c1", 0).chunks
    pq.write_table(pq.read_table(path).drop(["kernel"]), path)
    assert "kernel" in fails(folder)
