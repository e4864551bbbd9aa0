"""``on_graph_failure: eager_for_all`` in the stack: who begins anew, with what, and who is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from project import SimulatedProject
from rich.console import Console

from specgauge.config.project import Project
from specgauge.config.resolve import Resolved, resolve
from specgauge.record.layout import RunPaths
from specgauge.run.executor import Request, RunOutcome
from specgauge.serve.control import Control
from specgauge.stack import generate as generating
from specgauge.stack.choose import Stack
from specgauge.stack.engine import Seen
from specgauge.stack.up import StackRun

COMPOSE = """#!{python}
import json, os, sys
from pathlib import Path
from specgauge.serve.control import Control

root, words = Path({root!r}), sys.argv[1:]
told = {{name: os.environ.get(name, "") for name in ("RUN", "NEW", "STARTS", "EAGER")}}
variant = "" if "up" not in words else words[words.index("--profile") + 1]
with (root / "calls.jsonl").open("a") as calls:
    analysed = [word[4:] for word in words if word.startswith("RUN=")]
    calls.write(json.dumps([variant, *analysed, told]) + "\\n")
if variant:
    run = told["RUN"] or ("eager" if told["EAGER"] else "first")
    dies = variant in {dying!r} and not (told["EAGER"] and {heals!r})
    start = root / "results" / "x" / run / variant / "start-0"
    start.mkdir(parents=True)
    (root / "results" / "x" / run / "manifest.json").write_text("{{}}")
    (start / "outcome.json").write_text(json.dumps({{
        "variant": variant, "start": 0, "round": 0, "state": "failed" if dies else "complete"}}))
    told_failure = variant if dies and not told["EAGER"] else None
    Control(root / "control" / variant).report("x/" + run, graph_failure=told_failure)
"""
"""In the place of ``docker``: makes each start that is asked for, or lets it die as planted."""


class Quiet:
    """An engine that has seen every container end with 0."""

    def project(self, name: str) -> list[Seen]:
        return [
            Seen(f"{part}-{variant}", f"{part}-{variant}-1", "", False, 0, False, None)
            for part in ("vllm", "loadgen")
            for variant in ("vanilla", "ngram")
        ]

    def has_image(self, name: str) -> bool:
        return False


@pytest.fixture
def made(tmp_path: Path) -> SimulatedProject:
    project = SimulatedProject(tmp_path, 1)
    project.experiment["on_graph_failure"] = "eager_for_all"
    project.write("experiments", "x", project.experiment)
    return project


def drive(
    made: SimulatedProject,
    monkeypatch: pytest.MonkeyPatch,
    dying: list[str],
    heals: bool = True,
    **asked: Any,
) -> tuple[int, str, list[list[Any]]]:
    """Exit code, what was shown, and the calls of ``docker compose``."""
    programs = made.root / "bin"
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text(
        COMPOSE.format(python=sys.executable, root=str(made.root), dying=dying, heals=heals)
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("SPECGAUGE_CACHE", str(made.root / "cache"))
    env = {"STACK_FOLDER": str(made.root), "LOCK_FOLDER": str(made.root / "locks")}
    stack = Stack(made.root, "p", env, True, Quiet())  # type: ignore[arg-type]
    project = Project(made.root)
    resolved = resolve(project, "x")
    request = Request(["vanilla", "ngram"], **asked)
    console = Console(width=200, record=True, file=sys.stderr)
    code = StackRun(stack, resolved, project, request, ("x", None), console).measure(False)
    calls = (made.root / "calls.jsonl").read_text().splitlines()
    return code, console.export_text(), [json.loads(line) for line in calls]


def told(run: str = "", new: str = "", eager: str = "") -> dict[str, str]:
    return {"RUN": run, "NEW": new, "STARTS": "1", "EAGER": eager}


def test_all_variants_begin_anew_without_graphs_in_a_run_of_their_own(
    made: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, shown, calls = drive(made, monkeypatch, ["ngram"], fresh=True)

    assert code == 0
    assert calls == [
        ["vanilla", told(new="1")],
        ["ngram", told(run="first")],
        ["vanilla", told(new="1", eager="1")],
        ["ngram", told(run="eager", eager="1")],
        ["", "x/eager", told(run="eager", eager="1")],
    ]
    assert "CUDA graphs could not be captured (ngram): a new run begins with" in shown
    assert str(made.root / "results" / "x" / "first") in shown
    assert "not measured" not in shown


def test_named_run_is_followed_by_one_of_that_name_and_eager(
    made: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, calls = drive(made, monkeypatch, ["vanilla"], run_id="mine")

    assert [call[-1]["RUN"] for call in calls] == ["mine", *["mine-eager"] * 3]
    assert [call[0] for call in calls] == ["vanilla", "vanilla", "ngram", ""]


def test_what_dies_without_graphs_too_is_not_tried_a_third_time(
    made: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, shown, calls = drive(made, monkeypatch, ["ngram"], heals=False)

    assert code == 4
    assert [call[0] for call in calls] == ["vanilla", "ngram", "vanilla", "ngram", ""]
    assert "not measured: ngram, round 1" in shown


def test_nothing_begins_anew_where_nothing_died(
    made: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, calls = drive(made, monkeypatch, [])

    assert code == 0
    assert [call[-1]["EAGER"] for call in calls] == ["", "", ""]


class Execute:
    """In the place of ``execute``: ngram's graphs fail, as planted, unless they are off."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.eager: list[bool] = []

    def __call__(
        self, resolved: Resolved, project: Project, request: Request, *others: object
    ) -> RunOutcome:
        eager = "enforce-eager" in resolved.experiment.server.args
        self.eager.append(eager)
        run = RunPaths(self.results / "x" / ("eager" if eager else "first"))
        paths = run.start("ngram", 0)
        paths.folder.mkdir(parents=True)
        state = "complete" if eager else "failed"
        outcome = {"variant": "ngram", "start": 0, "round": 0, "state": state, "error": "graphs"}
        paths.outcome.write_text(json.dumps(outcome))
        return RunOutcome(run, graph_failure=None if eager else "ngram")


@pytest.mark.parametrize(
    ("env", "eager", "run", "failure", "hint"),
    [
        ({"STARTS": "1"}, [False], "x/first", "ngram", False),  # the host begins anew
        ({"STARTS": "1", "EAGER": "1"}, [True], "x/eager", None, False),
        ({}, [False, True], "x/eager", None, True),  # docker compose up, by hand
        ({"EAGER": "1"}, [True], "x/eager", None, False),
    ],
)
def test_load_generator_begins_anew_by_itself_only_where_nobody_drives_it(
    made: SimulatedProject,
    monkeypatch: pytest.MonkeyPatch,
    env: dict[str, str],
    eager: list[bool],
    run: str,
    failure: str | None,
    hint: bool,
) -> None:
    execute = Execute(made.root / "results")
    monkeypatch.setattr(generating, "execute", execute)
    monkeypatch.setattr(generating.LiveMetrics, "serve", lambda self: None)
    monkeypatch.delenv("SPECGAUGE_RESULTS", raising=False)
    control = Control(made.root / "control" / "ngram")
    console = Console(width=200, record=True, file=sys.stderr)
    words = {"EXPERIMENT": "x", "RUN": "mine"}

    code = generating.generate(control, Project(made.root), {**words, **env}, console)

    assert code == 0
    assert execute.eager == eager
    told = control.result()
    assert told is not None
    assert (told["run"], told["graph_failure"]) == (run, failure)
    assert told["instead_of"] == ("mine" if hint else None)
    assert ("EAGER=1 docker compose" in console.export_text()) is hint
    if not eager[0]:  # the cells that the dead server never reached are on record
        assert (made.root / "results/x/first/ngram/start-0/c4/repeat-0/cell.json").is_file()
