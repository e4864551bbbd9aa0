"""What the load generator's container runs: one variant's starts, recorded, then exit 0.

A server that dies or never becomes ready is a result, recorded as such; the analysis behind this
container judges it.  Another exit code means that there is nothing to analyse.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from specgauge.config.experiment import Experiment
from specgauge.config.project import Project, find_project
from specgauge.config.resolve import resolve
from specgauge.errors import EnvironmentFault, ExitCode, SpecgaugeError
from specgauge.plan import cells
from specgauge.record.atomic import write_json
from specgauge.record.documents import CellDocument, ClockOffset
from specgauge.record.layout import RunPaths, StartPaths
from specgauge.record.runs import outcome_of
from specgauge.run.executor import Request, execute
from specgauge.serve.control import FOLDER, Control, hold
from specgauge.stack.live import LiveMetrics
from specgauge.stack.runtime import ContainerRuntime

_WAIT_S = 4 * 3600.0
"""For another profile that is writing into the same run."""


def main() -> int:
    """``python -m specgauge.stack.loadgen VARIANT``; the rest comes from the environment."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    control = Control(Path(os.environ[FOLDER]) / sys.argv[1])
    control.report(None, "it has not ended yet", ExitCode.INCOMPLETE)
    try:
        return generate(control, find_project(), dict(os.environ), console)
    except SpecgaugeError as error:
        console.print(f"specgauge: {error}", style="red", markup=False, soft_wrap=True)
        control.report(None, str(error), int(error.exit_code))
        return int(error.exit_code)
    except KeyboardInterrupt:
        control.report(None, "interrupted", ExitCode.INTERRUPTED)
        return ExitCode.INTERRUPTED


def generate(control: Control, project: Project, env: dict[str, str], console: Console) -> int:
    """Measure the starts of ``variant`` that the run lacks.

    Environment: ``EXPERIMENT``, ``MODEL``, ``RUN`` (a run id), ``NEW`` (non-empty: a new run),
    ``STARTS`` (make at most so many), ``WAIT_S``.

    Raises:
        SpecgaugeError: nothing was measured.
    """
    variant = control.folder.name
    lock = hold(control.client_lock)
    if lock is None:
        raise EnvironmentFault(f"another load generator of {variant!r} runs in this project")
    try:
        resolved = resolve(
            project, env.get("EXPERIMENT") or "quick", [variant], env.get("MODEL") or None
        )
        for warning in resolved.warnings:
            console.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
        live = LiveMetrics(project.results, resolved.experiment.name)
        live.serve()
        request = Request(
            [variant],
            run_id=env.get("RUN") or None,
            fresh=bool(env.get("NEW")),
            wait_s=float(env.get("WAIT_S") or _WAIT_S),
            at_most=int(env["STARTS"]) if env.get("STARTS") else None,
        )
        outcome = execute(
            resolved, project, request, console, runtime=ContainerRuntime(control), observer=live
        )
        record_unreached(outcome.paths, resolved.experiment, variant)
        control.report(str(outcome.paths.folder.relative_to(project.results)))
    finally:
        control.quit()
        os.close(lock)
    for line in outcome.failed:
        console.print(f"not measured: {line}", style="red", markup=False, soft_wrap=True)
    return ExitCode.INTERRUPTED if outcome.interrupted else ExitCode.MEASURED


def record_unreached(run: RunPaths, experiment: Experiment, variant: str) -> None:
    """Give failed starts an incomplete ``cell.json`` for every cell that they never reached.

    So a server that died while it loaded shows as INVALID cells, not as an absence.
    """
    for name, k, paths in run.starts():
        outcome = outcome_of(paths.outcome)
        if name != variant or outcome is None or outcome.state != "failed":
            continue
        for slot in cells(experiment):
            cell = paths.cell(slot.load.name, slot.repeat)
            if not cell.cell.exists():
                document = _unreached(experiment, variant, k, paths, outcome.error)
                document |= {"load": slot.load.name, "repeat": slot.repeat}
                document |= {"concurrency": slot.load.concurrency, "rate": slot.load.rate}
                document |= {"planned_requests": slot.load.requests}
                write_json(cell.cell, CellDocument.model_validate(document).model_dump(mode="json"))


def _unreached(
    experiment: Experiment, variant: str, k: int, paths: StartPaths, error: str | None
) -> dict[str, object]:
    offset = time.time() - time.monotonic()
    try:
        launch = json.loads(paths.launch.read_text(encoding="utf-8"))
        ended = float(launch["ended_at"]) - float(launch["clock_offset"])
    except (OSError, ValueError, KeyError, TypeError):
        ended = time.monotonic()
    return {
        "variant": variant,
        "start": k,
        "state": "incomplete",
        "error": f"never reached: {error}",
        "t_begin": ended,
        "t_end": ended,
        "clock": ClockOffset(begin=offset, end=offset),
        "output_tokens": experiment.output_tokens,
        "ignore_eos": experiment.ignore_eos,
        "temperature": experiment.sampling.temperature,
        "prefix_cache": experiment.prefix_cache,
    }


if __name__ == "__main__":
    sys.exit(main())
