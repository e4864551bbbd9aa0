"""An experiment with everything it names: read, cross-checked, ready to be planned."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgauge.config.base import find_named, load
from specgauge.config.experiment import Experiment
from specgauge.config.model import Model
from specgauge.config.project import Project
from specgauge.config.prompts import Prompts, load_prompts
from specgauge.config.variant import Variant
from specgauge.config.warmup_classes import cold
from specgauge.config.workload import Workload
from specgauge.errors import EnvironmentFault, UsageError


@dataclass(frozen=True)
class Resolved:
    """An experiment and the files it names.  ``variants`` holds those to run and the baseline."""

    experiment: Experiment
    path: Path
    model: Model
    variants: dict[str, Variant]
    prompts: Prompts
    warmup_prompts: Prompts | None
    warnings: tuple[str, ...]
    missing: str | None = None
    """Why a workload could not be had; its prompts are then none."""

    def speculative_config(self, variant: Variant, project: Project) -> dict[str, Any] | None:
        """What ``variant`` passes as ``--speculative-config``, its drafter's place filled in."""
        if variant.speculative_config is None:
            return None
        config = dict(variant.speculative_config)
        if variant.drafter is not None:
            config["model"] = place(self.model.drafters[variant.drafter], project)
        return config


def place(name: str, project: Project) -> str:
    """A model's folder, in the project or anywhere, as an absolute path; else ``name`` as it is."""
    folder = project.root / Path(name).expanduser()
    return str(folder) if folder.is_dir() else name


def is_folder(placed: str) -> bool:
    """Whether what ``place`` gave is a folder that exists, not a hub name or a missing one."""
    return os.path.isabs(placed) and os.path.isdir(placed)


def resolve(
    project: Project,
    experiment_name: str,
    only: list[str] | None = None,
    model_name: str | None = None,
    port: int | None = None,
    *,
    prompts_needed: bool = True,
) -> Resolved:
    """Read ``config/experiments/<experiment_name>.yaml`` (or a path) and all that it names.

    Args:
        project: where the files are.
        experiment_name: a name, or the path of a YAML file.
        only: variants to run; None = all of the experiment's.
        model_name: instead of the experiment's model.
        port: instead of the experiment's port.
        prompts_needed: False: a workload that cannot be downloaded is told in ``missing``.

    Raises:
        UsageError: anything is missing, misspelt or does not fit together.
        EnvironmentFault: a workload's download failed.
    """
    experiment, path = read_experiment(project, experiment_name)
    changes: dict[str, Any] = {}
    if model_name is not None:
        changes["model"] = model_name
    if port is not None:
        changes["server"] = experiment.server.model_copy(update={"port": port})
    experiment = experiment.model_copy(update=changes)
    model_path = find_named(project.config("models"), "model", experiment.model)
    model = load(Model, model_path, name=model_path.stem)
    names = list(dict.fromkeys([*experiment.variants, *(only or [])]))
    variants = {name: _variant(project, name) for name in names}
    warnings = [
        f"variant {v.name!r}: vLLM's speculative config has no key {key!r} known here; passed as is"
        for v in variants.values()
        for key in v.unknown_keys()
    ]
    _check_length(experiment, model, path)
    for name in only if only is not None else experiment.variants:
        _check_drafter(variants[name], model, model_path)
    if experiment.baseline not in names:
        warnings.append(
            f"the baseline {experiment.baseline!r} is not among the variants: "
            "cells get verdicts, but there will be no speed-ups"
        )
    # A workload that must be downloaded and cannot be hides no other fault: it is named last.
    missing: EnvironmentFault | None = None
    prompts = warmup = None
    try:
        prompts = _workload(project, experiment.workload)
        warnings += _check_prompts(prompts, experiment, path)
    except EnvironmentFault as fault:
        missing = fault
    try:
        warmup = _warmup(project, experiment, prompts, path)
    except EnvironmentFault as fault:
        missing = missing or fault
    if experiment.warmup is not None and model.platform != "cpu" and (classes := cold(experiment)):
        # (No Triton on a CPU.)
        warnings.append(
            f"{path}: no warm-up batch of the class {' or '.join(classes)}: Triton builds its "
            "kernels for each class anew, then inside a measured cell ('warmup: batches:')"
        )
    if missing is not None and prompts_needed:
        raise missing
    if prompts is None:
        nothing = Workload.model_construct(name=experiment.workload)
        prompts = Prompts(nothing, project.config("workloads"), "", ())
    why = None if missing is None else str(missing)
    return Resolved(experiment, path, model, variants, prompts, warmup, tuple(warnings), why)


def _check_prompts(prompts: Prompts, experiment: Experiment, path: Path) -> list[str]:
    """Warnings.  Raises UsageError: fewer prompts than a load asks for."""
    for item in experiment.loads:
        prompts.first(item.requests, f"{path}: load {item.name}")
    same = prompts.same_texts(max(item.requests for item in experiment.loads))
    if not same:
        return []
    (earlier, repeated), more = same[0], len(same) - 1
    return [
        f"{prompts.path}: prompts {earlier!r} and {repeated!r} are the same text"
        + (f" (and {more} more such)" if more else "")
        + ": the later one is answered from the prefix cache"
    ]


def _warmup(
    project: Project, experiment: Experiment, measured: Prompts | None, path: Path
) -> Prompts | None:
    """The warm-up's prompts.  Raises UsageError: too few, or also measured."""
    if experiment.warmup is None:
        return None
    warmup = _workload(project, experiment.warmup.workload)
    needed = 1 + sum(experiment.warmup.batches)
    warmup.first(needed, f"{path}: the warm-up (one prompt, then batches)")
    texts = {p.text for p in measured.prompts} if measured is not None else set()
    shared = next((p.id for p in warmup.prompts if p.text in texts), None)
    if shared is not None:
        raise UsageError(
            f"{warmup.path}: prompt {shared!r} is also measured: "
            "a warm-up must use other prompts, or it warms the prefix cache"
        )
    return warmup


def read_experiment(project: Project, name: str) -> tuple[Experiment, Path]:
    """The experiment of that name or path, alone, and its file.  Raises UsageError."""
    path = Path(name)
    if path.suffix not in (".yaml", ".yml") and path.parent == Path():
        path = find_named(project.config("experiments"), "experiment", name)
    return load(Experiment, path, name=path.stem), path


def _variant(project: Project, name: str) -> Variant:
    path = find_named(project.config("variants"), "variant", name)
    variant = load(Variant, path, name=path.stem)
    if variant.name != path.stem:
        raise UsageError(f"{path}: name is {variant.name!r}; it must be the file's, {path.stem!r}")
    return variant


def _check_drafter(variant: Variant, model: Model, model_path: Path) -> None:
    if variant.drafter is None or variant.drafter in model.drafters:
        return
    known = ", ".join(sorted(model.drafters)) or "none"
    raise UsageError(
        f"variant {variant.name!r} needs the drafter {variant.drafter!r}, but model "
        f"{model.name!r} has {known}: add it under 'drafters:' in {model_path}"
    )


def _check_length(experiment: Experiment, model: Model, path: Path) -> None:
    """Raises UsageError: the output alone fills the context that the files give the server."""
    args = {**model.server_args, **experiment.server.args}
    limit = args.get("max-model-len", args.get("max_model_len"))
    if isinstance(limit, int) and experiment.output_tokens >= limit:
        raise UsageError(
            f"{path}: output_tokens: {experiment.output_tokens} leaves no room for a prompt in the "
            f"server's max-model-len of {limit}"
        )


def _workload(project: Project, name: str) -> Prompts:
    folder = project.config("workloads")
    given = Path(name)
    if given.suffix == ".jsonl":
        path = given.expanduser().absolute()
        return load_prompts(Workload(name=given.stem, path=str(path)), path.parent)
    path = find_named(folder, "workload", name)
    return load_prompts(load(Workload, path, name=path.stem), path.parent)


def flags(args: dict[str, Any]) -> list[str]:
    """vLLM's command-line words for ``args`` (see ``variant.ServerArgs``)."""
    words: list[str] = []
    for name, value in args.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None:
            continue
        if value is True:
            words.append(flag)
        elif value is False:
            words.append(f"--no-{flag[2:]}")
        elif isinstance(value, dict):
            words += [flag, json.dumps(value)]
        elif isinstance(value, list):
            words += [flag, *(_word(item) for item in value)]
        else:
            words += [flag, str(value)]
    return words


def _word(item: Any) -> str:
    return json.dumps(item) if isinstance(item, dict | list) else str(item)
