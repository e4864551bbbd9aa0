"""The verbs that measure and tell what was measured: run, report, analyze, watch."""

from __future__ import annotations

from typing import Literal

import click

from specgauge.cli.common import console, errors, main, model_option, resolved_for, say
from specgauge.config.names import require_plain
from specgauge.config.project import find_project
from specgauge.config.resolve import read_experiment
from specgauge.errors import ExitCode, UsageError
from specgauge.record.layout import RunPaths


@main.command()
@click.option("--experiment", "-e", default="quick", show_default=True, help="Name or YAML path.")
@click.option(
    "--variant",
    "-v",
    "variants",
    multiple=True,
    help="A variant of config/variants (may be given again), or 'all' of the experiment's.",
)
@model_option
@click.option("--run", "run_id", help="Write into this run id; made if it does not exist.")
@click.option("--new", "fresh", is_flag=True, help="Start a new run even if one could go on.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port for the server.")
@click.option("--strict", is_flag=True, help="Exit with 6 if a cell is SUSPECT.")
@click.option(
    "--runtime",
    type=click.Choice(["process", "compose", "auto"]),
    default="process",
    show_default=True,
    help="Servers as processes here, or in containers; auto: containers if they are ready.",
)
@click.option("--gpu", help="PCI bus ID of the GPU (process way), such as 00000000:41:00.0.")
@click.option(
    "--wait-gpu",
    type=click.FloatRange(min=0),
    metavar="MINUTES",
    help="Wait so long until nobody else is on the GPU, instead of ending with 5.",
)
def run(
    experiment: str,
    variants: tuple[str, ...],
    model: str | None,
    run_id: str | None,
    fresh: bool,
    port: int | None,
    strict: bool,
    runtime: Literal["process", "compose", "auto"],
    gpu: str | None,
    wait_gpu: float | None,
) -> int:
    """Serve the variants one after the other, load them, then report.

    Goes on with the newest run of the same settings that is not complete.
    """
    from specgauge.run.eager import or_eager
    from specgauge.run.executor import Request, execute
    from specgauge.run.on_gpu import process_runtime

    if run_id is not None:
        require_plain(run_id, "--run")
    project = find_project()
    if not variants:
        listed = ", ".join(read_experiment(project, experiment)[0].variants)
        raise UsageError(
            f"which variants? Experiment {experiment!r} has {listed}: name one with -v (may be "
            "given again), or give -v all for all of them"
        )
    resolved = resolved_for(project, experiment, variants, model, port)
    names = resolved.experiment.variants if "all" in variants else dict.fromkeys(variants)
    request = Request(list(names), run_id, fresh)
    if runtime != "process":
        from specgauge.stack.choose import choose
        from specgauge.stack.up import StackRun

        stack, reason = choose(runtime, project.root, resolved.model)
        way = "process" if stack is None else "compose"
        say(f"runtime: {way} ({reason})")
        if stack is not None:
            if gpu is not None or wait_gpu is not None:
                raise UsageError(
                    "--gpu and --wait-gpu are for the process way; for the stack 'make pin "
                    "GPU_PCI_BUS_ID=…' chooses, and GPU_WAIT_S in .env says how long to wait"
                )
            words = (experiment, model)
            return StackRun(stack, resolved, project, request, words, console).measure(strict)
    way_to_run = process_runtime(resolved.model, project.root, gpu, wait_gpu, console)
    outcome = or_eager(
        lambda resolved, request: execute(resolved, project, request, console, way_to_run),
        resolved,
        request,
        console,
    )
    code: int = ExitCode.MEASURED
    if any(outcome.paths.folder.glob("*/start-*/*/repeat-*/cell.json")):
        code = _report(outcome.paths, strict)
    for line in outcome.failed:
        errors.print(f"not measured: {line}", style="red", markup=False, soft_wrap=True)
    if outcome.interrupted:
        errors.print(
            "Interrupted: what was measured is kept. The same command goes on where it stopped."
        )
        return ExitCode.INTERRUPTED
    return ExitCode.INCOMPLETE if outcome.failed else code


def _report(paths: RunPaths, strict: bool) -> int:
    from specgauge.analyze.summary import exit_code, summarise
    from specgauge.config.references import published
    from specgauge.record.reader import read_run
    from specgauge.report.terminal import headline
    from specgauge.report.write import write_report

    record = read_run(paths.folder)
    summary = summarise(record, published(find_project()))
    write_report(record, summary, paths)
    console.print(headline(summary))
    say(f"Report: {paths.analysis / 'report.md'}")
    return int(exit_code(summary, strict))


@main.command()
@click.argument("run", required=False)
@click.option("--strict", is_flag=True, help="Exit with 6 if a cell is SUSPECT.")
def report(run: str | None, strict: bool) -> int:
    """Analyse RUN again (default: the latest) and write its tables, figures and report."""
    from specgauge.record.runs import find_run

    return _report(find_run(find_project().results, run), strict)


@main.command()
@click.argument("run", required=False)
@click.option("--strict", is_flag=True, help="Exit with 6 if a cell is SUSPECT.")
def analyze(run: str | None, strict: bool) -> int:
    """Analyse RUN again (default: the latest): summary.json and the headline only."""
    from specgauge.analyze.summary import exit_code, summarise
    from specgauge.config.references import published
    from specgauge.record.atomic import write_json
    from specgauge.record.reader import read_run
    from specgauge.record.runs import find_run
    from specgauge.report.terminal import headline

    paths = find_run(find_project().results, run)
    summary = summarise(read_run(paths.folder), published(find_project()))
    write_json(paths.summary, summary.model_dump(mode="json", by_alias=True))
    console.print(headline(summary))
    say(f"Summary: {paths.summary}")
    return int(exit_code(summary, strict))


@main.command()
@click.option("--prometheus", "url", help="URL of a Prometheus, instead of looking for one.")
@click.option("--seconds", type=float, help="End by itself after this time.")
def watch(url: str | None, seconds: float | None) -> int:
    """Show the live figures of the run that goes on, in either way, until Ctrl-C."""
    from specgauge.watch.command import source_for
    from specgauge.watch.command import watch as show

    show(source_for(find_project(), url), console, seconds)
    return ExitCode.MEASURED
