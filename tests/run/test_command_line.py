"""What the verbs print and refuse before anything is measured."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from project import SimulatedProject
from rich.console import Console

from specgauge.cli import about, main
from specgauge.errors import ExitCode


@pytest.fixture
def here(project: SimulatedProject, monkeypatch: pytest.MonkeyPatch) -> SimulatedProject:
    project.write("experiments", "x", project.experiment)
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.setenv("SPECGAUGE_CACHE", str(project.root / "cache"))
    return project


def said(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize("run_id", ["", ".", "..", "a/b", "a b", "latest", "[/x]"])
def test_a_run_id_is_a_plain_name(here: SimulatedProject, run_id: str) -> None:
    result = said("run", "-e", "x", "-v", "all", "--run", run_id)
    assert result.exit_code == ExitCode.USAGE
    assert "--run: " in result.stderr
    assert not (here.root / "results").exists()


def test_run_without_a_variant_says_which_there_are(here: SimulatedProject) -> None:
    result = said("run", "-e", "x")
    assert result.exit_code == ExitCode.USAGE
    assert "'x' has vanilla, ngram: name one with -v" in result.stderr
    assert "-v all for all of them" in result.stderr
    assert not (here.root / "results").exists()


def test_a_name_that_leaves_the_project_measures_nothing(here: SimulatedProject) -> None:
    here.write("experiments", "x", {**here.experiment, "name": "../../../escaped"})
    result = said("run", "-e", "x", "-v", "all")
    assert result.exit_code == ExitCode.USAGE
    assert "is not a plain name" in result.stderr


def test_broken_references_are_found_before_measuring(here: SimulatedProject) -> None:
    here.write("references", "bad", {"sourc": 1})
    checked = said("validate-config", "x")
    assert checked.exit_code == ExitCode.USAGE
    assert "✗ references: " in checked.stderr
    assert "bad.yaml" in checked.stderr
    assert "✓ x: m" in checked.stdout
    measured = said("run", "-e", "x", "-v", "all")
    assert measured.exit_code == ExitCode.USAGE
    assert "did you mean 'source'" in measured.stderr
    assert not (here.root / "results").exists()


def test_prompts_that_cannot_be_fetched_are_said_to_be_unchecked(here: SimulatedProject) -> None:
    far = {"url": "http://127.0.0.1:9/none", "sha256": "0" * 64}
    here.write("workloads", "far", far)
    here.write("experiments", "y", {**here.experiment, "workload": "far"})
    here.write("experiments", "z", {**here.experiment, "workload": "far", "rounds": "[/x]"})
    result = said("validate-config")
    assert result.exit_code == ExitCode.ENVIRONMENT
    assert "? y: all but its prompts is right; they cannot be checked here" in result.stderr
    assert "✗ z: " in result.stderr
    assert "rounds: " in result.stderr
    assert "✓ x: " in result.stdout


def test_brackets_in_paths_and_messages_are_shown_as_they_are(
    here: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = here.root / "old[1]" / "[/x]"
    monkeypatch.setenv("SPECGAUGE_RESULTS", str(results))
    result = said("list")
    assert result.exit_code == ExitCode.MEASURED
    assert f"no runs yet in {results}" in result.stdout
    run = results / "[red]" / "[bold]"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text('{"schema": "[/x]"}')
    result = said("list")
    assert result.exit_code == ExitCode.MEASURED
    assert "[red]/[bold]" in result.stdout
    assert "its schema is '[/x]'" in result.stdout


def test_a_file_is_named_once_in_what_is_wrong_with_it(here: SimulatedProject) -> None:
    here.write("experiments", "z", {**here.experiment, "rounds": "many"})
    path = here.root / "config" / "experiments" / "z.yaml"
    wrong = said("validate-config", str(path)).stderr
    assert wrong.startswith(f"✗ {path}:")
    assert wrong.count("z.yaml") == 1
    assert said("validate-config", "none.yaml").stderr.count("none.yaml") == 1


@pytest.mark.parametrize("columns", ["20", "80"])
@pytest.mark.parametrize("terminal", ["", "1"])
def test_a_run_id_is_never_cut(
    here: SimulatedProject, monkeypatch: pytest.MonkeyPatch, columns: str, terminal: str
) -> None:
    name = "an_experiment_with_a_long_name/20261129-221345-48cb25"
    run = here.root / "results" / name
    run.mkdir(parents=True)
    (run / "manifest.json").write_text('{"schema": "of another time"}')
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("SPECGAUGE_RESULTS", str(here.root / "results"))
    monkeypatch.setattr(about, "console", Console(force_terminal=bool(terminal)))
    listed = said("list").stdout
    assert name in listed
    assert "another time" in " ".join(listed.split()) or terminal


def test_a_stdout_without_unicode_shows_question_marks(
    here: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    with pytest.raises(SystemExit) as ended:
        main(["validate-config", "x"])
    assert ended.value.code == ExitCode.MEASURED
    narrow.flush()
    assert b"? x: m" in narrow.buffer.getvalue()  # type: ignore[attr-defined]


@pytest.mark.system
def test_a_run_goes_on_on_another_port_and_a_variant_given_twice_is_one(
    project: SimulatedProject, free_port: int
) -> None:
    project.experiment["loads"] = [{"concurrency": 1, "requests": 1}]
    results = str(project.root / "old[1]" / "[/x]")
    first = project.specgauge("run", "-e", "x", "-v", "vanilla", SPECGAUGE_RESULTS=results)
    assert "Traceback" not in first.stderr
    assert f"New run {results}" in first.stdout
    twice = ("-v", "ngram", "-v", "vanilla", "-v", "ngram")
    words = ("run", "-e", "x", *twice, "--port", str(free_port))
    second = project.specgauge(*words, SPECGAUGE_RESULTS=results)
    assert "Going on with run" in second.stdout
    assert "1 of 2 starts" in second.stdout
    (run,) = Path(results).glob("x/2*")
    assert sorted(p.parent.name for p in run.glob("*/start-*")) == ["ngram", "vanilla"]
