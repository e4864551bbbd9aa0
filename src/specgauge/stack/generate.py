"""One variant's starts in the load generator's container; a record of what they never reached."""

from __future__ import annotations

import json
import time

from rich.console import Console

from specgauge.config.experiment import Experiment
from specgauge.config.project import Project
from specgauge.config.resolve import Resolved, resolve
from specgauge.errors import ExitCode
from specgauge.plan import cells
from specgauge.record.atomic import write_json
from specgauge.record.documents import CellDocument, ClockOffset
from specgauge.record.layout import RunPaths, StartPaths
from specgauge.record.runs import outcome_of
from specgauge.run.eager import for_all, or_eager
from specgauge.run.executor import Request, RunOutcome, execute
from specgauge.serve.control import Control
from specgauge.stack.live import LiveMetrics
from specgauge.stack.runtime import ContainerRuntime

_WAIT_S = 4 * 3600.0
"""For another profile that is writing into the same run."""
_OTHERS = (
    "The other variants, the baseline too, join this run with EAGER=1: "
    "EAGER=1 docker compose --profile … up"
)


def generate(control: Control, project: Project, env: dict[str, str], console: Console) -> int:
    """Measure the starts of the control folder's variant that the run lacks.

    Environment: ``EXPERIMENT``, ``MODEL``, ``RUN`` (a run id), ``NEW`` (non-empty: a new run),
    ``STARTS`` (make at most so many), ``EAGER`` (non-empty: graphs off for all variants),
    ``WAIT_S``.

    A graph failure that asks for a new run (run/eager.py) is left to whoever gave ``STARTS``, and
    so knows the other variants; without that the variant begins anew here.

    Raises:
        SpecgaugeError: nothing was measured.
    """
    variant = control.folder.name
    resolved = resolve(
        project, env.get("EXPERIMENT") or "quick", [variant], env.get("MODEL") or None
    )
    if env.get("EAGER"):
        resolved = for_all(resolved)
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
    runtime = ContainerRuntime(control)

    made: list[RunPaths] = []

    def measure(resolved: Resolved, request: Request) -> RunOutcome:
        outcome = execute(resolved, project, request, console, runtime, live)
        record_unreached(outcome.paths, resolved.experiment, variant)
        made.append(outcome.paths)
        return outcome

    if request.at_most is not None:
        outcome = measure(resolved, request)
    else:
        outcome = or_eager(measure, resolved, request, console)
    if len(made) > 1:
        console.print(_OTHERS, style="yellow", markup=False, highlight=False, soft_wrap=True)
    control.report(
        str(outcome.paths.folder.relative_to(project.results)),
        graph_failure=outcome.graph_failure,
        instead_of=request.run_id if len(made) > 1 else None,
    )
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
