"""What the verbs share: the group with its exit codes, the consoles, common options."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console

import specgauge
from specgauge.config.project import Project
from specgauge.config.resolve import Resolved, resolve
from specgauge.errors import ExitCode, SpecgaugeError

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


def say(text: str) -> None:
    """A line as it is: paths and names may hold what rich takes for markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def model_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--model``."""
    return click.option("--model", help="A model of config/models instead of the experiment's.")(
        function
    )


def resolved_for(
    project: Project,
    experiment: str,
    variants: tuple[str, ...],
    model: str | None,
    port: int | None,
) -> Resolved:
    """The experiment with what it names; its warnings are printed.  Raises SpecgaugeError."""
    only = None if "all" in variants else list(variants)
    resolved = resolve(project, experiment, only, model, port)
    for warning in resolved.warnings:
        errors.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)
    return resolved
