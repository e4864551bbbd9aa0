"""Runs an experiment's pending starts one after the other and keeps going past failures."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

import specgauge
from specgauge.config.experiment import Experiment
from specgauge.config.names import require_plain
from specgauge.config.project import Project
from specgauge.config.prompts import Prompts
from specgauge.config.references import published
from specgauge.config.resolve import Resolved
from specgauge.errors import EnvironmentFault
from specgauge.gpu.exported import gpu_of_stack
from specgauge.interrupts import terminate_as_interrupt
from specgauge.plan import StartPlan, starts
from specgauge.record.atomic import write_json
from specgauge.record.compare import fingerprint, struck_out, telling, telling_experiment
from specgauge.record.documents import CellDocument, Launch
from specgauge.record.layout import CONFIRM, PREFILL, RunPaths, is_measured
from specgauge.record.manifest import Manifest, WorkloadFacts, read_manifest, write_manifest
from specgauge.record.runs import OpenRun, completed, new_run_id, open_run, outcome_of
from specgauge.run.command import model_folder
from specgauge.run.machine import git_facts, machine_facts, packages_of, who_reaches
from specgauge.run.observer import NOBODY, Observer
from specgauge.run.progress import Durations, Progress, words
from specgauge.run.runtime import GPU, ProcessRuntime, Runtime, holding
from specgauge.run.start import Start, StartResult, free_start, steps_of


@dataclass
class RunOutcome:
    """What ``execute`` leaves behind."""

    paths: RunPaths
    failed: list[str] = field(default_factory=list)
    """One line a start that was not measured completely."""
    interrupted: bool = False
    graph_failure: str | None = None
    """The start that died while it captured CUDA graphs, if that ended the run (run/eager.py)."""


@dataclass(frozen=True)
class Request:
    """What the person asked ``run`` for."""

    variants: list[str]
    run_id: str | None = None
    fresh: bool = False
    wait_s: float = 0.0
    """How long to wait for another command that is writing into the run."""
    at_most: int | None = None
    """Make no more than this many of the pending starts."""

    def __post_init__(self) -> None:
        if self.run_id is not None:
            require_plain(self.run_id, "the run id")


def execute(
    resolved: Resolved,
    project: Project,
    request: Request,
    console: Console,
    runtime: Runtime | None = None,
    observer: Observer = NOBODY,
) -> RunOutcome:
    """Make every start of ``request.variants`` that the run still lacks.

    A start that fails is reported and the next one is made; a variant whose server could not even
    be started is not tried again in later rounds.

    Raises:
        UsageError: the run, the prompts or the published references do not fit.
        EnvironmentFault: nothing can be measured here.
        KeyboardInterrupt: before a first start had begun.
    """
    experiment = resolved.experiment
    runtime = runtime or ProcessRuntime()
    planned = starts(experiment, request.variants)
    published(project)  # the report needs them; a fault in them must not wait until then
    new = _manifest(resolved, project, request, runtime)
    runtime.program(experiment.server, project)
    with open_run(
        project.results,
        new,
        planned,
        run_id=request.run_id,
        fresh=request.fresh,
        wait_s=request.wait_s,
    ) as run:
        done = completed(run.paths)
        pending = [plan for plan in planned if plan not in done]
        _announce(console, run, planned, pending)
        outcome = RunOutcome(run.paths)
        if pending:
            _hold_to_packages(run.manifest, resolved, project, runtime)
            model = model_folder(resolved, project)
            if runtime.name == "process":
                console.print(who_reaches(experiment.server), highlight=False, soft_wrap=True)
            with terminate_as_interrupt(), holding(runtime):
                _make_all(
                    resolved,
                    project,
                    run,
                    pending[: request.at_most],
                    model,
                    console,
                    outcome,
                    runtime,
                    observer,
                )
    return outcome


def _make_all(
    resolved: Resolved,
    project: Project,
    run: OpenRun,
    pending: list[StartPlan],
    model: str,
    console: Console,
    outcome: RunOutcome,
    runtime: Runtime,
    observer: Observer,
) -> None:
    durations = earlier_durations(project.results, resolved.experiment)
    steps: list[Hashable] = [kind for plan in pending for kind in steps_of(resolved, plan)]
    expected = durations.total(steps)
    if expected is not None:
        console.print(f"Expected to take about {words(expected)}.", highlight=False)
    progress = Progress(console, durations, steps)
    hopeless: set[str] = set()
    try:
        for plan in pending:
            if plan.variant in hopeless:
                outcome.failed.append(f"{plan.variant}: not started again after its failure")
                progress.skip(steps_of(resolved, plan))
                continue
            k = free_start(run.paths, plan.variant)
            start = Start(resolved, project, run.paths, plan, k, model, progress, runtime, observer)
            result = start.make()
            _note_version(run.paths, plan, k, result, resolved, project, runtime)
            if result.state == "complete":
                progress.note(f"✓ {start.title}")
                continue
            outcome.failed.append(f"{start.title}: {result.error}")
            progress.note(f"✗ {start.title}: {result.error}", "red")
            if not result.ready:
                hopeless.add(plan.variant)
                if result.died_of == "graph_capture" and _eager_for_all(resolved):
                    outcome.graph_failure = start.title
                    break
    except KeyboardInterrupt:
        if not run.paths.starts():
            raise
        outcome.interrupted = True
    finally:
        progress.close()


def _eager_for_all(resolved: Resolved) -> bool:
    return resolved.experiment.on_graph_failure == "eager_for_all"


def _announce(
    console: Console, run: OpenRun, planned: list[StartPlan], pending: list[StartPlan]
) -> None:
    folder = run.paths.folder
    if not run.resumed:
        line = f"New run {folder}"
    elif pending:
        line = (
            f"Going on with run {folder}: {len(planned) - len(pending)} of {len(planned)} starts "
            "are measured (--new starts afresh)"
        )
    else:
        line = f"Run {folder} is complete: nothing to measure"
    for note in run.notes:
        console.print(note, style="yellow", markup=False, highlight=False, soft_wrap=True)
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _facts(prompts: Prompts | None) -> WorkloadFacts | None:
    if prompts is None:
        return None
    return WorkloadFacts(
        name=prompts.workload.name, sha256=prompts.sha256, prompts=len(prompts.prompts)
    )


def _manifest(resolved: Resolved, project: Project, request: Request, runtime: Runtime) -> Manifest:
    experiment = resolved.experiment.model_dump(mode="json")
    model = resolved.model.model_dump(mode="json")
    variants = {name: item.model_dump(mode="json") for name, item in resolved.variants.items()}
    workload, warmup = _facts(resolved.prompts), _facts(resolved.warmup_prompts)
    assert workload is not None
    machine = {**machine_facts(), **runtime.machine()}
    gpu = machine.pop(GPU, None)
    if runtime.name == "compose":
        gpu = gpu_of_stack(machine.get("gpus"), os.environ)
    if gpu is not None and gpu["uuid"]:
        machine["gpu_uuid"] = gpu["uuid"]
    mark = fingerprint(
        {
            "experiment": telling_experiment(experiment),
            "model": telling(model),
            "workload": workload.sha256,
            "warmup": warmup.sha256 if warmup else None,
            "runtime": runtime.name,
        }
    )
    return Manifest(
        run_id=request.run_id or new_run_id(mark),
        created_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        experiment=struck_out(experiment),
        model=struck_out(model),
        variants=struck_out(variants),
        variant_marks={name: fingerprint(telling(item)) for name, item in variants.items()},
        workload=workload,
        warmup_workload=warmup,
        runtime=runtime.name,
        machine=machine,
        gpu=gpu,
        git=git_facts(project),
        specgauge_version=specgauge.__version__,
        fingerprint=mark,
    )


def _server_facts(resolved: Resolved, project: Project, runtime: Runtime) -> dict[str, Any]:
    """What can be told of the server's software without starting it."""
    python = runtime.program(resolved.experiment.server, project)[0]
    return {"packages": packages_of(python), **runtime.facts()}


def _hold_to_packages(
    manifest: Manifest, resolved: Resolved, project: Project, runtime: Runtime
) -> None:
    """Refuse before anything starts a server whose packages are not those of the run's first.

    Raises:
        EnvironmentFault: names them.
    """
    known = manifest.vllm
    if not known:
        return
    now = _server_facts(resolved, project, runtime)
    changed = [
        f"{name} {known['packages'][name]}, now {version}"
        for name, version in now["packages"].items()
        if name in (known.get("packages") or {}) and known["packages"][name] != version
    ]
    changed += [
        f"{name} {known[name]}, now {value}"
        for name, value in now.items()
        if name != "packages" and value and known.get(name) and known[name] != value
    ]
    if changed:
        raise EnvironmentFault(
            f"this run was begun with another server environment ({'; '.join(changed)}): "
            "start a run of its own with --new"
        )


def _note_version(
    run: RunPaths,
    plan: StartPlan,
    k: int,
    result: StartResult,
    resolved: Resolved,
    project: Project,
    runtime: Runtime,
) -> None:
    """Write the version of the first server into the manifest; hold all later ones to it.

    Raises:
        EnvironmentFault: another version; the start was marked as one that does not count.
    """
    if result.vllm_version is None:
        return
    manifest = read_manifest(run.manifest)
    known = manifest.vllm.get("version")
    if known is None:
        facts = {"version": result.vllm_version, **_server_facts(resolved, project, runtime)}
        write_manifest(run.manifest, manifest.model_copy(update={"vllm": facts}))
    elif known != result.vllm_version:
        reason = (
            f"this run was begun with vLLM {known}, the server is now {result.vllm_version}: "
            "start a run of its own with --new"
        )
        path = run.start(plan.variant, k).outcome
        if (outcome := outcome_of(path)) is not None:
            failed = outcome.model_copy(update={"state": "failed", "error": reason})
            write_json(path, failed.model_dump(mode="json"))
        raise EnvironmentFault(reason)


def earlier_durations(results: Path, experiment: Experiment) -> Durations:
    """Durations of steps in earlier runs of the experiment, newest 20 starts."""
    durations = Durations(experiment.expected_s)
    launches = sorted(
        (results / experiment.name).glob("*/*/start-*/launch.json"), key=lambda p: p.stat().st_mtime
    )
    for path in launches[-20:]:
        with contextlib.suppress(ValueError, OSError):
            launch = Launch.model_validate_json(path.read_text(encoding="utf-8"))
            if launch.ready_at is None:
                continue
            durations.add(("launch",), launch.ready_at - launch.started_at)
            durations.add(("stop",), 3.0)
            folded: dict[str, float] = {}
            for cell_path in path.parent.glob("*/repeat-*/cell.json"):
                cell = CellDocument.model_validate_json(cell_path.read_text(encoding="utf-8"))
                if cell.state != "complete":
                    continue
                seconds = cell.t_end - cell.t_begin + 1.2
                if cell.load.startswith((CONFIRM, PREFILL)):
                    continue  # nobody can foretell a freeze
                if not is_measured(cell.load):
                    folded[cell.load] = folded.get(cell.load, 0.0) + seconds
                else:
                    durations.add((cell.load,), seconds)
            for name, seconds in folded.items():
                durations.add((name,), seconds)
    return durations
