"""Whole files or none; which run a command goes on with."""

import contextlib
import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.plan import StartPlan
from specgauge.record import runs
from specgauge.record.atomic import write_json
from specgauge.record.compare import differs, fingerprint
from specgauge.record.documents import Outcome
from specgauge.record.layout import RunPaths
from specgauge.record.manifest import Manifest, WorkloadFacts, read_manifest
from specgauge.record.runs import completed, find_run, open_run, point_latest

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


def begun(results: Path, made: Manifest) -> RunPaths:
    """``made``'s run, opened, with a start that was begun, and closed."""
    with open_run(results, made, PLANNED) as run:
        assert not run.resumed
        run.paths.start("vanilla", 0).folder.mkdir(parents=True)
    return run.paths


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
    begun(tmp_path, manifest("1"))
    with open_run(tmp_path, manifest("2", mark="g"), PLANNED) as run:
        assert not run.resumed
    changed = manifest("3", vanilla={"name": "vanilla", "server_args": {"a": 1}})
    with open_run(tmp_path, changed, PLANNED) as run:
        assert not run.resumed


def test_a_new_variant_joins_the_open_run(tmp_path: Path) -> None:
    begun(tmp_path, manifest("1"))
    with open_run(tmp_path, manifest("2", eagle3={"name": "eagle3"}), PLANNED) as run:
        assert run.resumed
        assert set(read_manifest(run.paths.manifest).variants) == {"vanilla", "ngram", "eagle3"}


def test_a_named_run_that_measures_something_else_is_refused(tmp_path: Path) -> None:
    begun(tmp_path, manifest("mine"))
    with (
        pytest.raises(UsageError, match="cannot be gone on with"),
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


def test_a_run_is_found_by_its_id_by_its_path_and_as_the_latest(tmp_path: Path) -> None:
    for run_id in ("1", "2"):
        with open_run(tmp_path, manifest(run_id), PLANNED, fresh=True) as run:
            finish(run.paths, PLANNED[0], 0)
            point_latest(tmp_path, run.paths.folder)
    assert find_run(tmp_path, None).folder.name == "2"
    assert find_run(tmp_path, "1").folder.name == "1"
    assert find_run(tmp_path, "x/1").folder.name == "1"
    with pytest.raises(UsageError, match="no run 'nope'"):
        find_run(tmp_path, "nope")


def test_a_complete_run_becomes_the_latest_an_opened_one_does_not(tmp_path: Path) -> None:
    with open_run(tmp_path, manifest("1"), PLANNED) as run:
        for plan in PLANNED:
            finish(run.paths, plan, 0)
    assert not (tmp_path / "latest").exists()
    with open_run(tmp_path, manifest("2"), PLANNED, run_id="1"):
        assert find_run(tmp_path, None).folder.name == "1"
    begun(tmp_path, manifest("3"))
    assert find_run(tmp_path, None).folder.name == "1"


@pytest.mark.parametrize("how", [None, EnvironmentFault("port taken"), KeyboardInterrupt()])
def test_a_run_in_which_nothing_was_begun_is_removed(
    tmp_path: Path, how: BaseException | None
) -> None:
    with (
        contextlib.nullcontext() if how is None else pytest.raises(type(how)),
        open_run(tmp_path, manifest("1"), PLANNED) as run,
    ):
        assert run.paths.manifest.is_file()
        if how is not None:
            raise how
    assert [path.name for path in (tmp_path / "x").iterdir()] == [".lock"]


def test_a_run_with_anything_in_it_or_of_another_command_stays(tmp_path: Path) -> None:
    with open_run(tmp_path, manifest("1"), PLANNED) as run:
        (run.paths.folder / "notes.txt").touch()
    assert run.paths.manifest.is_file()
    (run.paths.folder / "notes.txt").unlink()
    with open_run(tmp_path, manifest("2"), PLANNED) as again:
        assert again.resumed
    assert [path.name for path in run.paths.folder.glob("*.json")] == ["manifest.json"]


def test_who_waits_for_a_run_that_is_then_removed_makes_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = threading.Event()
    seen: list[tuple[str, bool]] = []
    choose = runs._choose

    def telling(*words: Any) -> tuple[RunPaths, list[str]]:
        found = choose(*words)
        if threading.current_thread() is waiter:
            seen.append((found[0].folder.name, found[0].manifest.exists()))
            chosen.set()
        return found

    def wait() -> None:
        with open_run(tmp_path, manifest("2"), PLANNED, wait_s=60.0) as run:
            finish(run.paths, PLANNED[0], 0)

    monkeypatch.setattr(runs, "_choose", telling)
    waiter = threading.Thread(target=wait)
    with open_run(tmp_path, manifest("1"), PLANNED):
        waiter.start()
        assert chosen.wait(60)
    waiter.join(60)
    assert seen == [("1", True), ("2", False)]
    (left,) = runs.runs_of(tmp_path, "x")
    assert completed(left) == {PLANNED[0]: 0}
    assert left.folder.name == "2"
    assert not (tmp_path / "x" / "1").exists()


def test_a_folder_of_another_schema_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text('{"schema": "specgauge.results/9"}')
    with pytest.raises(UsageError, match=r"results/9.*this specgauge reads.*results/1"):
        read_manifest(path)


def test_fingerprint_ignores_key_order_alone() -> None:
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({"a": 1, "b": [1, 2]}) != fingerprint({"a": 1, "b": [2, 1]})


HERE = {"cpu": "A", "cores": 8, "usable_cores": 8, "memory_gib": 64.0, "gpus": [], "kernel": "6"}


def on(run_id: str, commit: str = "c", **changed: Any) -> Manifest:
    update = {"machine": {**HERE, **changed}, "git": {"commit": commit}}
    return manifest(run_id).model_copy(update=update)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cpu": "B"}, "cpu was A, here it is B"),
        ({"usable_cores": 2}, "usable_cores was 8, here it is 2"),
        ({"memory_gib": 32.0}, "memory was 64.0 GiB, here it is 32.0 GiB"),
        ({"gpus": ["H200", "H200"]}, "gpus was none, here it is H200, H200"),
    ],
)
def test_another_machine_never_joins_a_run(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    with open_run(tmp_path, on("mine"), PLANNED) as run:
        finish(run.paths, PLANNED[0], 0)
    with (
        pytest.raises(UsageError, match="another machine") as caught,
        open_run(tmp_path, on("other", **changed), PLANNED, run_id="mine"),
    ):
        pass
    assert words in str(caught.value)
    with open_run(tmp_path, on("other", **changed), PLANNED) as run:
        assert not run.resumed
        assert words in run.notes[0]
        assert str(tmp_path / "x" / "mine") in run.notes[0]


def test_a_machine_that_tells_less_or_a_little_more_memory_joins(tmp_path: Path) -> None:
    begun(tmp_path, on("mine"))
    with open_run(tmp_path, on("later", gpus=None, memory_gib=63.9), PLANNED) as run:
        assert run.resumed
        assert run.notes == ()


def test_another_commit_joins_is_said_once_and_written_down(tmp_path: Path) -> None:
    begun(tmp_path, on("mine", commit="old"))
    for expected in (1, 0):
        with open_run(tmp_path, on("later", commit="new"), PLANNED) as run:
            assert run.resumed
            assert len(run.notes) == expected
            later = read_manifest(run.paths.manifest).later_commands
            assert [entry["commit"] for entry in later] == ["new"]


def test_a_complete_run_is_left_as_it_is(tmp_path: Path) -> None:
    with open_run(tmp_path, on("mine"), PLANNED) as run:
        for plan in PLANNED:
            finish(run.paths, plan, 0)
    before = run.paths.manifest.read_bytes()
    with open_run(tmp_path, on("x", commit="new"), PLANNED, run_id="mine") as run:
        assert run.notes == ()
    assert run.paths.manifest.read_bytes() == before


def test_the_newest_port_is_in_the_manifest_and_does_not_matter(tmp_path: Path) -> None:
    def served(run_id: str, port: int) -> Manifest:
        experiment = {"name": "x", "server": {"port": port, "vllm_version": None}}
        return manifest(run_id).model_copy(update={"experiment": experiment})

    begun(tmp_path, served("1", 8111))
    with open_run(tmp_path, served("2", 8222), PLANNED) as run:
        assert run.resumed
        kept = read_manifest(run.paths.manifest).experiment["server"]
        assert kept == {"port": 8222, "vllm_version": None}


def test_what_differs_is_named_key_by_key() -> None:
    def sampled(mark: str, temperature: float, port: int) -> Manifest:
        server = {"port": port, "args": {"a": 1}}
        experiment = {"name": "x", "sampling": {"temperature": temperature}, "server": server}
        return manifest("1", mark).model_copy(update={"experiment": experiment})

    told = differs(sampled("f", 0.0, 1), sampled("g", 1.0, 2))
    assert told == "its experiment differs in sampling.temperature"


def test_a_variant_whose_secret_changed_is_another_one() -> None:
    def marked(digest: str) -> Manifest:
        return manifest("1").model_copy(update={"variant_marks": {"ngram": digest}})

    assert differs(marked("a"), marked("a")) is None
    assert differs(marked("a"), marked("b")) == "variant 'ngram' was defined differently"


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EACCES, "cannot be written: Permission denied"), (errno.ENOSPC, "the disk is full")],
)
@pytest.mark.parametrize("refused", ["folder", "lock", "symlink"])
def test_a_folder_that_cannot_be_written_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, number: int, words: str
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    where: tuple[type, str] = {
        "folder": (Path, "mkdir"),
        "lock": (FileLock, "acquire"),
        "symlink": (Path, "symlink_to"),
    }[refused]
    monkeypatch.setattr(*where, denied)
    with (
        pytest.raises(EnvironmentFault, match=words),
        open_run(tmp_path, manifest("1"), PLANNED) as run,
    ):
        point_latest(tmp_path, run.paths.folder)


@pytest.mark.parametrize("name", ["", ".", "**", "*"])
def test_no_pattern_finds_a_run(tmp_path: Path, name: str) -> None:
    begun(tmp_path, manifest("1"))
    with pytest.raises(UsageError):
        find_run(tmp_path, name)
