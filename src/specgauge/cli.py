"""The verbs: run, watch, report, list, … .  No logic of its own."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, Literal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import specgauge
from specgauge.config.names import require_plain
from specgauge.config.project import Project, find_project
from specgauge.config.resolve import Resolved, resolve
from specgauge.errors import EnvironmentFault, ExitCode, SpecgaugeError, UsageError
from specgauge.record.layout import RunPaths

console = Console()
errors = Console(stderr=True)


class _Verbs(click.Group):
    """Turns our errors into one message and the exit code of their kind."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        for stream in (sys.stdout, sys.stderr):  # a terminal without ✓ must not end a measurement
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        try:
            sys.exit(super().main(*args, **kwargs) or ExitCode.MEASURED)
        except SpecgaugeError as error:
            errors.print(f"specgauge: {error}", style="red", markup=False, soft_wrap=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(ExitCode.USAGE)
        except (KeyboardInterrupt, click.Abort):
            errors.print("interrupted")
            sys.exit(ExitCode.INTERRUPTED)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(specgauge.__version__)
def main() -> None:
    """Measure whether speculative decoding pays on vLLM, and whether the number can be trusted."""


def _say(text: str) -> None:
    """A line as it is: paths and names may hold what rich takes for markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _model_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--model", help="A model of config/models instead of the experiment's.")(
        function
    )


@main.command()
@click.option("--experiment", "-e", default="quick", show_default=True, help="Name or YAML path.")
@click.option(
    "--variant",
    "-v",
    "variants",
    multiple=True,
    required=True,
    help="A variant of config/variants (may be given again), or 'all' of the experiment.",
)
@_model_option
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
    from specgauge.run.eager import execute
    from specgauge.run.executor import Request
    from specgauge.run.on_gpu import process_runtime

    if run_id is not None:
        require_plain(run_id, "--run")
    project = find_project()
    resolved = _resolve(project, experiment, variants, model, port)
    names = resolved.experiment.variants if "all" in variants else dict.fromkeys(variants)
    request = Request(list(names), run_id, fresh)
    if runtime != "process":
        from specgauge.stack.choose import choose
        from specgauge.stack.up import StackRun

        stack, reason = choose(runtime, project.root, resolved.model)
        way = "process" if stack is None else "compose"
        _say(f"runtime: {way} ({reason})")
        if stack is not None:
            if gpu is not None or wait_gpu is not None:
                raise UsageError(
                    "--gpu and --wait-gpu are for the process way; for the stack 'make pin "
                    "GPU_PCI_BUS_ID=…' chooses, and GPU_WAIT_S in .env says how long to wait"
                )
            words = (experiment, model)
            return StackRun(stack, resolved, project, request, words, console).measure(strict)
    way_to_run = process_runtime(resolved.model, project.root, gpu, wait_gpu, console)
    outcome = execute(resolved, project, request, console, way_to_run)
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


def _resolve(
    project: Project,
    experiment: str,
    variants: tuple[str, ...],
    model: str | None,
    port: int | None,
) -> Resolved:
    only = None if "all" in variants else list(variants)
    resolved = resolve(project, experiment, only, model, port)
    for warning in resolved.warnings:
        errors.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    return resolved


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
    _say(f"Report: {paths.analysis / 'report.md'}")
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
    _say(f"Summary: {paths.summary}")
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


@main.command()
@click.argument("bus_id", required=False)
@click.option("--uuid", help="A MIG instance's UUID, instead of a bus ID.")
def pin(bus_id: str | None, uuid: str | None) -> int:
    """Choose the GPU at PCI bus ID BUS_ID for the Compose stack (into .env)."""
    from specgauge.stack.pin import pin as write_pin

    line = write_pin(find_project().root, bus_id, uuid)
    _say(line)
    return ExitCode.MEASURED


@main.command(hidden=True)
@click.option("--experiment", "-e", default="quick")
@_model_option
def fetches(experiment: str, model: str | None) -> int:
    """Print the words that the stack's ``fetch`` container needs for EXPERIMENT."""
    from specgauge.stack.fetches import words

    project = find_project()
    click.echo(" ".join(words(_resolve(project, experiment, ("all",), model, None), project)))
    return ExitCode.MEASURED


@main.command()
def doctor() -> int:
    """Say whether this machine is fit for the Compose stack, and what to do where it is not."""
    from specgauge.stack.doctor import examine

    worst = ExitCode.MEASURED
    for finding in examine(find_project().root):
        mark, style = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", "")}[finding.ok]
        console.print(f"{mark} {finding.text}", style=style, markup=False, soft_wrap=True)
        worst = ExitCode.ENVIRONMENT if finding.ok is False else worst
    return worst


@main.command()
@click.option("--experiment", "-e", help="Name or YAML path.  [default: one that fits the model]")
@click.option("--variant", "-v", "variants", multiple=True, help="Only these, not all of them.")
@_model_option
@click.option("--gpu", "bus_id", help="PCI bus ID of the GPU, such as 00000000:41:00.0.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port for the server.")
@click.option(
    "--runtime",
    type=click.Choice(["process", "compose"]),
    default="process",
    show_default=True,
    help="Servers as processes here, or in containers.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.option("--no-smoke", is_flag=True, help="Without serving a small model.")
@click.option("--smoke-model", help="A small model of config/models.  [default: the embedded one]")
@click.option("--fetch", is_flag=True, help="After all checks, fetch what is missing.")
def preflight(
    experiment: str | None,
    variants: tuple[str, ...],
    model: str | None,
    bus_id: str | None,
    port: int | None,
    runtime: Literal["process", "compose"],
    as_json: bool,
    no_smoke: bool,
    smoke_model: str | None,
    fetch: bool,
) -> int:
    """Check this machine before anything takes long: cheapest first, each with its remedy."""
    from specgauge.preflight.command import preflight as check
    from specgauge.preflight.prepare import prepare

    context = prepare(
        find_project(), experiment, list(variants), model, port, runtime, bus_id, smoke_model
    )
    for warning in context.resolved.warnings:
        errors.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    context.smoke, context.fetch = not no_smoke, fetch
    return check(context, console, as_json=as_json)


@main.command()
@click.argument("codes", nargs=-1)
def explain(codes: tuple[str, ...]) -> int:
    """Say what the verdicts' CODES mean and what to do (default: all of them)."""
    from specgauge.explain.codes import CODES, text

    wanted = [code.upper() for code in codes] or list(CODES)
    unknown = [code for code in wanted if code not in CODES]
    if unknown:
        raise UsageError(f"no verdict code {', '.join(unknown)}; there are {', '.join(CODES)}")
    said = "\n\n".join(text(CODES[code]) for code in wanted)
    _say(said)
    return ExitCode.MEASURED


@main.command()
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object in a line.")
@click.option("--real", type=click.IntRange(0), help="Plants through HTTP and Locust.")
@click.option("--virtual", type=click.IntRange(1), help="Plants on a virtual clock.")
def calibrate(as_json: bool, real: int | None, virtual: int | None) -> int:
    """Check the instrument itself: planted truth against what it measures (about four minutes)."""
    import json

    from specgauge.calibrate.command import REAL, VIRTUAL
    from specgauge.calibrate.command import calibrate as run_plants

    found = run_plants(
        console,
        real_plants=REAL if real is None else real,
        virtual_plants=virtual or VIRTUAL,
    )
    console.print("passed" if found["passed"] else "NOT passed", highlight=False)
    if as_json:
        click.echo(json.dumps(found))
    return ExitCode.MEASURED if found["passed"] else ExitCode.INVALID


@main.command("list")
def list_runs() -> int:
    """List the runs in results/ and their verdicts."""
    from specgauge.record.manifest import read_manifest
    from specgauge.record.runs import completed, runs_of, verdict_counts

    results = find_project().results
    table = Table("run", "model", "variants", "starts", "verdicts", box=None)
    found = False
    for folder in sorted(p for p in results.glob("*") if p.is_dir() and not p.is_symlink()):
        for paths in runs_of(results, folder.name):
            found = True
            name = f"{folder.name}/{paths.folder.name}"
            try:
                manifest = read_manifest(paths.manifest)
            except UsageError as error:
                table.add_row(Text(name), Text(str(error), "red"))
                continue
            counts = verdict_counts(paths)
            verdicts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
            row = (
                name,
                str(manifest.model.get("name")),
                " ".join(sorted({p.variant for p in completed(paths)})),
                str(len(completed(paths))),
                verdicts or "not analysed",
            )
            table.add_row(*map(Text, row))
    if not found:
        _say(f"no runs yet in {results}")
        return ExitCode.MEASURED
    console.print(table)
    return ExitCode.MEASURED


@main.command("validate-config")
@click.argument("experiments", nargs=-1)
@_model_option
def validate_config(experiments: tuple[str, ...], model: str | None) -> int:
    """Check EXPERIMENTS (default: all of config/experiments) and everything they name."""
    from specgauge.config.references import published

    def wrong(text: str) -> None:
        errors.print(text, style="red", markup=False, soft_wrap=True)

    project = find_project()
    names = experiments or sorted(p.stem for p in project.config("experiments").glob("*.yaml"))
    found = {int(ExitCode.MEASURED)}
    for name in names:
        try:
            resolved = _resolve(project, name, ("all",), model, None)
        except EnvironmentFault as fault:
            wrong(f"? {name}: all but its prompts is right; they cannot be checked here: {fault}")
            found.add(fault.exit_code)
            continue
        except SpecgaugeError as error:
            wrong(f"✗ {name}: {error}")
            found.add(error.exit_code)
            continue
        e = resolved.experiment
        loads = ", ".join(load.name for load in e.loads)
        _say(
            f"✓ {name}: {resolved.model.name}, {', '.join(e.variants)}; {loads}; "
            f"{e.rounds} round{'s' if e.rounds > 1 else ''}"
        )
    try:
        published(project)
    except UsageError as error:
        wrong(f"✗ references: {error}")
        found.add(error.exit_code)
    return max(found)


if __name__ == "__main__":
    main()
