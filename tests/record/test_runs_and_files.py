"""Whole files or none; which run a command goes on with."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.plan import StartPlan
from specgauge.record.atomic import write_json
from specgauge.record.documents import Outcome
from specgauge.record.layout import RunPaths
from specgauge.record.manifest import Manifest, WorkloadFacts, fingerprint, read_manifest
from specgauge.record.runs import completed, find_run, open_run

PLANNED = [StartPlan("vanilla", 0), StartPlan("ngram", 0)]


def manifest(run_id: str, mark: str = "f", **variants: dict[str, Any]) -> Manifest:
    return Manifest(
        run_id=run_id,
        created_at="2026-01-01T00:00:00Z",
        experiment={"name": "x", "rounds": 1},
        model={"name": "m"},
        variants=variants or {"vanilla": {"name": "vanilla"}, "ngram": {"name": "ngram"}},
        workload=WorkloadFacts(name="w", sha256="0", prompts=1),
        runtime="process",
        fingerprint=mark,
    )


def finish(paths: RunPaths, plan: StartPlan, k: int, state: str = "complete") -> None:
    outcome = Outcome.model_validate(
        {"variant": plan.variant, "start": k, "round": plan.round, "role": plan.role}
        | {"state": state}
    )
    write_json(paths.start(plan.variant, k).outcome, outcome.model_dump(mode="json"))


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EnvironmentFault, match="the disk is full"):
        write_json(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_nan_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_lacks_a_start_is_gone_on_with(tmp_path: Path) -> None:
    with open_run(tmp_path, manifest("1"), PLANNED) as run:
        finish(run.paths, PLANNED[0], 0)
    with open_run(tmp_path, manifest("2"), PLANNED) as run:
        assert run.resumed
        assert run.manifest.run_id == "1"
        assert completed(run.paths) == {PLANNED[0]: 0}
        finish(run.paths, PLANNED[1], 0)
    with open_run(tmp_path, manifest("3"), PLANNED) as run:
        assert not run.resumed
        assert run.paths.folder.name == "3"


def test_partial_and_failed_starts_do_not_count(tmp_path: Path) -> None:
    with open_run(tmp_path, manifest("1"), PLANNED) as run:
        finish(run.paths, PLANNED[0], 0, "interrupted")
        run.paths.start("vanilla", 1).folder.mkdir(parents=True)
        finish(run.paths, PLANNED[0], 2, "failed")
        assert completed(run.paths) == {}


def test_another_fingerprint_or_definition_is_another_run(tmp_path: Path) -> None:
    with open_run(tmp_path, manifest("1"), PLANNED):
        pass
    with open_run(tmp_path, manifest("2", mark="g"), PLANNED) as run:
        assert not run.resumed
    changed = manifest("3", vanilla={"name": "vanilla", "server_args": {"a": 1}})
    with open_run(tmp_path, changed, PLANNED) as run:
        assert not run.resumed


def test_a_new_variant_joins_the_open_run(tmp_path: Path) -> None:
    with open_run(tmp_path, manifest("1"), PLANNED):
        pass
    with open_run(tmp_path, manifest("2", eagle3={"name": "eagle3"}), PLANNED) as run:
        assert run.resumed
        assert set(read_manifest(run.paths.manifest).variants) == {"vanilla", "ngram", "eagle3"}


def test_a_named_run_that_measures_something_else_is_refused(tmp_path: Path) -> None:
    with open_run(tmp_path, manifest("mine"), PLANNED, run_id="mine"):
        pass
    with (
        pytest.raises(UsageError, match="measures something else"),
        open_run(tmp_path, manifest("mine", mark="g"), PLANNED, run_id="mine"),
    ):
        pass


def test_two_commands_do_not_write_into_one_run(tmp_path: Path) -> None:
    with (
        open_run(tmp_path, manifest("1"), PLANNED),
        pytest.raises(EnvironmentFault, match="another specgauge command"),
        open_run(tmp_path, manifest("2"), PLANNED),
    ):
        pass


def test_latest_points_to_the_run_opened_last(tmp_path: Path) -> None:
    for run_id in ("1", "2"):
        with open_run(tmp_path, manifest(run_id), PLANNED, fresh=True):
            pass
    assert find_run(tmp_path, None).folder.name == "2"
    assert find_run(tmp_path, "1").folder.name == "1"
    assert find_run(tmp_path, "x/1").folder.name == "1"
    with pytest.raises(UsageError, match="no run 'nope'"):
        find_run(tmp_path, "nope")


def test_a_folder_of_another_schema_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text('{"schema": "specgauge.results/9"}')
    with pytest.raises(UsageError, match=r"results/9.*this specgauge reads.*results/1"):
        read_manifest(path)


def test_fingerprint_ignores_key_order_alone() -> None:
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({"a": 1, "b": [1, 2]}) != fingerprint({"a": 1, "b": [2, 1]})
