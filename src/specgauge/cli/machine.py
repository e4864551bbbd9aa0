"""The verbs about this machine: preflight, doctor, pin."""

from __future__ import annotations

from typing import Literal

import click

from specgauge.cli.common import console, errors, main, model_option, resolved_for, say
from specgauge.config.project import find_project
from specgauge.errors import ExitCode


@main.command()
@click.option("--experiment", "-e", help="Name or YAML path.  [default: one that fits the model]")
@click.option("--variant", "-v", "variants", multiple=True, help="Only these, not all of them.")
@model_option
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
@click.argument("bus_id", required=False)
@click.option("--uuid", help="A MIG instance's UUID, instead of a bus ID.")
def pin(bus_id: str | None, uuid: str | None) -> int:
    """Choose the GPU at PCI bus ID BUS_ID for the Compose stack (into .env)."""
    from specgauge.stack.pin import pin as write_pin

    line = write_pin(find_project().root, bus_id, uuid)
    say(line)
    return ExitCode.MEASURED


@main.command(hidden=True)
@click.option("--experiment", "-e", default="quick")
@model_option
def fetches(experiment: str, model: str | None) -> int:
    """Print the words that the stack's ``fetch`` container needs for EXPERIMENT."""
    from specgauge.stack.fetches import words

    project = find_project()
    click.echo(" ".join(words(resolved_for(project, experiment, ("all",), model, None), project)))
    return ExitCode.MEASURED
