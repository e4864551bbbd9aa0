"""From the words of the command line to the context of its checks."""

from __future__ import annotations

import sys
from typing import Literal

from specgauge.config.base import find_named, load
from specgauge.config.model import Model
from specgauge.config.project import Project
from specgauge.config.resolve import resolve
from specgauge.preflight.context import SMOKE_MODEL, Context
from specgauge.preflight.progress import Line
from specgauge.run.runtime import ProcessRuntime, Runtime
from specgauge.serve.control import Control
from specgauge.stack.runtime import ContainerRuntime

_FOR_GPU, _FOR_ANY = "robust", "quick"
"""The experiment that fits, if none is named: its ``server:`` section says which vLLM is meant."""


def prepare(
    project: Project,
    experiment: str | None,
    variants: list[str],
    model: str | None,
    port: int | None,
    way: Literal["process", "compose"],
    bus_id: str | None,
    smoke_model: str | None,
) -> Context:
    """Read the configuration.

    Raises:
        UsageError: an unknown experiment, model or variant.
    """
    name = experiment or _fitting(project, model)
    only = variants or None
    if only == ["all"]:
        only = None
    resolved = resolve(project, name, only, model, port, prompts_needed=False)
    if smoke_model is not None:
        find_named(project.config("models"), "model", smoke_model)
    runtime: Runtime = ProcessRuntime()
    if way == "compose":
        runtime = ContainerRuntime(Control(project.root / ".stack" / "control"))
    line = Line(sys.stderr)
    return Context(
        resolved=resolved,
        project=project,
        variants=list(dict.fromkeys(only or resolved.experiment.variants)),
        runtime=runtime,
        way=way,
        bus_id=bus_id,
        smoke_model=smoke_model or SMOKE_MODEL,
        say=line,
        clear=line.clear,
    )


def _fitting(project: Project, model: str | None) -> str:
    if model is None:
        return _FOR_ANY
    path = find_named(project.config("models"), "model", model)
    platform = load(Model, path, name=path.stem).platform
    robust = project.config("experiments") / f"{_FOR_GPU}.yaml"
    return _FOR_GPU if platform == "cuda" and robust.is_file() else _FOR_ANY
