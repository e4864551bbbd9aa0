"""Live metrics, and the record of what a dead server never reached."""

from __future__ import annotations

import json
from pathlib import Path

from specgauge.config.experiment import Experiment
from specgauge.record.documents import CellDocument, Outcome
from specgauge.record.layout import RunPaths
from specgauge.stack.generate import record_unreached
from specgauge.stack.live import LiveMetrics

JIT = b"2026-11-29T15:49:03.123Z E Triton kernel JIT compilation during inference: _topk. This\n"


def test_cell_is_shown_only_while_it_runs(tmp_path: Path) -> None:
    live = LiveMetrics(tmp_path, "quick")
    live.start_begins("run-1", "ngram", 2)
    labels = {"run": "run-1", "variant": "ngram", "start": "2", "load": "c16", "repeat": "1"}
    with live.cell("c16", 1):
        assert live.registry.get_sample_value("specgauge_cell_info", labels) == 1
    assert live.registry.get_sample_value("specgauge_cell_info", labels) is None


def test_jit_lines_are_counted_once_and_whole(tmp_path: Path) -> None:
    live = LiveMetrics(tmp_path, "quick")

    def count(variant: str) -> float | None:
        return live.registry.get_sample_value("specgauge_jit_events_total", {"variant": variant})

    live.look()  # before anything has started
    live.start_begins("run-1", "ngram", 0)
    assert count("ngram") == 0
    log = RunPaths(tmp_path / "quick" / "run-1").start("ngram", 0).server_log
    log.parent.mkdir(parents=True)
    log.write_bytes(b"other\n" + JIT + JIT[:50])
    live.look()
    live.look()
    assert count("ngram") == 1
    with log.open("ab") as file:
        file.write(JIT[50:])
    live.look()
    assert count("ngram") == 2
    live.start_begins("run-1", "vanilla", 0)
    live.look()
    assert (count("ngram"), count("vanilla")) == (2, 0)


def outcome(paths: RunPaths, variant: str, k: int, state: str) -> None:
    start = paths.start(variant, k)
    start.folder.mkdir(parents=True)
    document = Outcome(variant=variant, start=k, round=0, state=state, error="exit code 1")
    start.outcome.write_text(document.model_dump_json())


def test_unreached_cells_of_failed_starts_are_recorded_as_incomplete(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    experiment = Experiment.model_validate(
        {
            "name": "e",
            "model": "m",
            "variants": ["ngram"],
            "loads": [{"concurrency": 1, "requests": 4}, {"rate": 2.0, "requests": 8}],
        }
    )
    outcome(paths, "ngram", 0, "failed")
    outcome(paths, "ngram", 1, "complete")
    outcome(paths, "ngram", 2, "interrupted")
    outcome(paths, "vanilla", 0, "failed")
    start = paths.start("ngram", 0)
    start.launch.write_text(json.dumps({"ended_at": 1000.0, "clock_offset": 900.0}))
    start.cell("c1", 0).folder.mkdir(parents=True)
    start.cell("c1", 0).cell.write_text("measured")

    record_unreached(paths, experiment, "ngram")

    assert start.cell("c1", 0).cell.read_text() == "measured"
    cell = CellDocument.model_validate_json(start.cell("r2.0", 0).cell.read_text())
    assert (cell.state, cell.planned_requests, cell.rate) == ("incomplete", 8, 2.0)
    assert "exit code 1" in str(cell.error)
    assert cell.t_end == 100.0  # on the cells' clock
    written = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("cell.json"))
    assert written == [
        "ngram/start-0/c1/repeat-0/cell.json",
        "ngram/start-0/r2.0/repeat-0/cell.json",
    ]
