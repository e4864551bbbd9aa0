"""What a start says that failed, and runs that begin anew without CUDA graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from project import CAPTURE, SimulatedProject
from rich.console import Console

from specgauge.config.project import Project
from specgauge.config.resolve import Resolved, resolve
from specgauge.record.layout import RunPaths
from specgauge.run.eager import for_all, or_eager
from specgauge.run.executor import Request, RunOutcome

DIES = {"die": {"while_loading": CAPTURE, "unless_eager": True, "variants": ["ngram"]}}


@pytest.mark.system
def test_graph_failure_stops_one_variant_and_says_what_to_do(project: SimulatedProject) -> None:
    project.truth |= DIES
    done = project.run()
    assert done.returncode == 4
    assert "Capturing CUDA graphs failed." in done.stderr
    assert "*all* variants" in done.stderr
    assert project.document("vanilla/start-0/outcome.json")["state"] == "complete"
    assert "CUDA graphs" in project.document("ngram/start-0/outcome.json")["error"]
    assert len([p for p in (project.root / "results" / "x").iterdir() if p.is_dir()]) == 1


@pytest.mark.system
def test_eager_for_all_begins_anew_with_all_variants(project: SimulatedProject) -> None:
    project.truth |= DIES
    project.experiment["on_graph_failure"] = "eager_for_all"
    project.write("variants", "ngram", {"server_args": {"enforce_eager": False},
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 4}})  # fmt: skip
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a new run begins with --enforce-eager for all variants" in done.stdout
    runs = sorted(p for p in (project.root / "results" / "x").iterdir() if p.is_dir())
    assert len(runs) == 2
    assert project.latest in runs
    (first,) = [run for run in runs if run != project.latest]
    assert str(first) in done.stdout
    assert (first / "vanilla" / "start-0" / "c1" / "repeat-0" / "requests.parquet").is_file()
    for variant in ("vanilla", "ngram"):
        argv = project.document(f"{variant}/start-0/launch.json")["argv"]
        assert "--enforce-eager" in argv
        assert "--no-enforce-eager" not in argv
    variants = {cell["variant"] for cell in project.summary()["cells"]}
    assert variants == {"vanilla", "ngram"}


@pytest.mark.system
def test_other_deaths_do_not_begin_anew(project: SimulatedProject) -> None:
    project.truth |= {"die": {"while_loading": "torch.OutOfMemoryError: CUDA out of memory.",
                              "variants": ["ngram"]}}  # fmt: skip
    project.experiment["on_graph_failure"] = "eager_for_all"
    done = project.run()
    assert done.returncode == 4
    assert "memory was not enough" in done.stderr
    assert "gpu-memory-utilization" in done.stderr


@pytest.mark.system
def test_removed_flag_is_named_with_the_file_that_sets_it(project: SimulatedProject) -> None:
    project.truth |= {"loading": {"reject_flags": ["--disable-log-requests"]}}
    project.write("variants", "ngram", {"server_args": {"disable-log-requests": True},
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 4}})  # fmt: skip
    done = project.run()
    assert done.returncode == 4
    assert "does not know --disable-log-requests" in done.stderr
    assert "'server_args:' of variant 'ngram'" in done.stderr
    assert project.document("vanilla/start-0/outcome.json")["state"] == "complete"


@pytest.mark.parametrize(
    ("graph_failure", "interrupted", "run_id", "asked"),
    [
        ("ngram", False, None, [(None, False), (None, True)]),
        ("ngram", False, "mine", [("mine", False), ("mine-eager", True)]),
        ("ngram", False, "m" * 100, [("m" * 100, False), ("m" * 94 + "-eager", True)]),
        ("ngram", True, "mine", [("mine", False)]),
        (None, False, "mine", [("mine", False)]),
    ],
)
def test_a_second_run_is_made_only_after_a_graph_failure_and_is_eager(
    tmp_path: Path,
    graph_failure: str | None,
    interrupted: bool,
    run_id: str | None,
    asked: list[tuple[str | None, bool]],
) -> None:
    made = SimulatedProject(tmp_path, 1)
    made.write("experiments", "x", made.experiment)
    seen: list[tuple[str | None, bool]] = []
    outcomes: list[RunOutcome] = []

    def measure(resolved: Resolved, request: Request) -> RunOutcome:
        assert request.fresh
        seen.append((request.run_id, "enforce-eager" in resolved.experiment.server.args))
        outcome = RunOutcome(RunPaths(tmp_path), interrupted=interrupted)
        outcome.graph_failure = graph_failure
        outcomes.append(outcome)
        return outcome

    request = Request(["vanilla", "ngram"], run_id, fresh=True)
    got = or_eager(measure, resolve(Project(tmp_path), "x"), request, Console(quiet=True))
    assert seen == asked
    assert got is outcomes[-1]


@pytest.mark.parametrize("where", ["experiment", "variant", "model"])
def test_for_all_wins_over_every_source(tmp_path: Any, where: str) -> None:
    made = SimulatedProject(tmp_path, 1)
    off = {"enforce_eager": False, "max-num-seqs": 4}
    made.write(
        "models", "m", {"path": "some/model", "server_args": off if where == "model" else {}}
    )
    made.write("variants", "vanilla", {"server_args": off if where == "variant" else {}})
    made.experiment["server"]["args"] = off if where == "experiment" else {}
    made.write("experiments", "x", made.experiment)
    eager = for_all(resolve(Project(tmp_path), "x"))
    for variant in eager.variants.values():
        args: dict[str, Any] = {}
        for source in (eager.model.server_args, eager.experiment.server.args, variant.server_args):
            args |= {name.replace("_", "-"): value for name, value in source.items()}
        assert args["enforce-eager"] is True
    kept = [eager.experiment.server.args, eager.variants["vanilla"].server_args,
            eager.model.server_args]  # fmt: skip
    assert sum(source.get("max-num-seqs", 0) for source in kept) == 4
    assert eager.experiment.on_graph_failure == "stop"
