"""The verbs that look: list, explain, validate-config, calibrate."""

from __future__ import annotations

import difflib
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specgauge.cli.common import console, errors, main, model_option, resolved_for, say
from specgauge.config.project import find_project
from specgauge.errors import EnvironmentFault, ExitCode, SpecgaugeError, UsageError

_REST = 40
"""Columns beside the run ids in which a listing can still be read."""
_PIPED = 1000
"""Columns of a listing that is piped: a run a line."""


@main.command()
@click.argument("codes", nargs=-1)
def explain(codes: tuple[str, ...]) -> int:
    """Say what the verdicts' CODES mean and what to do (default: all of them)."""
    from specgauge.explain.codes import CODES, text

    wanted = [code.upper() for code in codes] or list(CODES)
    unknown = [code for code in wanted if code not in CODES]
    if unknown:
        known = ", ".join(CODES)
        near = [n for code in unknown for n in difflib.get_close_matches(code, CODES, n=1)]
        rest = f"did you mean {', '.join(dict.fromkeys(near))}?" if near else f"there are {known}"
        raise UsageError(f"no verdict code {', '.join(unknown)}; {rest}")
    said = "\n\n".join(text(CODES[code]) for code in wanted)
    say(said)
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
    table = Table(box=None)
    table.add_column("run", no_wrap=True)  # to be copied
    for heading in ("model", "variants", "starts", "verdicts"):
        table.add_column(heading, overflow="fold")
    widest = 0
    found = False
    for folder in sorted(p for p in results.glob("*") if p.is_dir() and not p.is_symlink()):
        for paths in runs_of(results, folder.name):
            found = True
            name = f"{folder.name}/{paths.folder.name}"
            widest = max(widest, len(name))
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
        say(f"no runs yet in {results}")
        return ExitCode.MEASURED
    # A pipe has no width; a terminal too narrow for the ids and a little more wraps by itself.
    width = max(console.width, widest + _REST) if console.is_terminal else _PIPED
    Console(width=width).print(table)
    return ExitCode.MEASURED


@main.command("validate-config")
@click.argument("experiments", nargs=-1)
@model_option
def validate_config(experiments: tuple[str, ...], model: str | None) -> int:
    """Check EXPERIMENTS (default: all of config/experiments) and everything they name."""
    from specgauge.config.references import published

    def wrong(text: str) -> None:
        errors.print(text, style="red", markup=False, soft_wrap=True)

    def told(name: str, error: SpecgaugeError) -> str:
        """The name, then the error; where that begins with the same file, the error alone."""
        file = Path(str(error).partition(":")[0]).name
        return str(error) if file == Path(name).name else f"{name}: {error}"

    project = find_project()
    names = experiments or sorted(p.stem for p in project.config("experiments").glob("*.yaml"))
    found = {int(ExitCode.MEASURED)}
    for name in names:
        try:
            resolved = resolved_for(project, name, ("all",), model, None)
        except EnvironmentFault as fault:
            wrong(f"? {name}: all but its prompts is right; they cannot be checked here: {fault}")
            found.add(fault.exit_code)
            continue
        except SpecgaugeError as error:
            wrong(f"✗ {told(name, error)}")
            found.add(error.exit_code)
            continue
        e = resolved.experiment
        loads = ", ".join(load.name for load in e.loads)
        say(
            f"✓ {name}: {resolved.model.name}, {', '.join(e.variants)}; {loads}; "
            f"{e.rounds} round{'s' if e.rounds > 1 else ''}"
        )
    try:
        published(project)
    except UsageError as error:
        wrong(f"✗ references: {error}")
        found.add(error.exit_code)
    return max(found)
