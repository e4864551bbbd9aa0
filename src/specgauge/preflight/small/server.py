"""The small model and the command of its server."""

from __future__ import annotations

import json
from typing import Any

from specgauge.config.base import find_named, load
from specgauge.config.model import Model
from specgauge.config.resolve import flags
from specgauge.preflight.context import Context

READY_LIMIT_S = 600.0
"""A cold compile cache on a GPU took 114 to 173 s."""
ANSWER_LIMIT_S = 120.0
SPECULATIVE = {
    "method": "ngram",
    "num_speculative_tokens": 4,
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 8,
}
_ENGINE_ARGS = frozenset(
    {
        "enforce-eager", "dtype", "attention-backend", "compilation-config", "async-scheduling",
        "kv-cache-dtype", "block-size", "enable-prefix-caching", "max-num-batched-tokens",
    }
)  # fmt: skip
"""Arguments that decide which kernels and graphs are built: the smoke run takes them from the real
model and experiment.  Those that belong to the real model's size and kind it does not."""


def small_model(context: Context) -> Model:
    """The model that is meant.  Raises UsageError: there is none of that name."""
    path = find_named(context.project.config("models"), "model", context.smoke_model)
    return load(Model, path, name=path.stem)


def ready_limit_s(context: Context) -> float:
    """How long the server may take until it answers."""
    return min(context.resolved.experiment.server.ready_timeout_s, READY_LIMIT_S)


def env(context: Context, model: Model) -> dict[str, str]:
    """The variables that it is given."""
    return {**model.server_env, **context.resolved.experiment.server.env}


def argv(
    context: Context, model: Model, folder: str, bind: tuple[str, int], *, cpu: bool
) -> list[str]:
    """Its command: its own arguments, and the real model's kernels and graphs.

    Args:
        context: what is really meant.
        model: the small one.
        folder: where it is, as its server sees it; or a hub name.
        bind: host and port to listen on.
        cpu: no GPU takes part.
    """
    args: dict[str, Any] = {
        "host": bind[0],
        "port": bind[1],
        "served-model-name": model.name,
        "max-model-len": 2048,
    }
    own = {k.replace("_", "-"): v for k, v in model.server_args.items()}
    if cpu:
        args |= own
    else:
        # Which kernels and graphs are built is the real model's affair, not this one's.
        args |= {name: value for name, value in own.items() if name not in _ENGINE_ARGS}
        args["gpu-memory-utilization"] = 0.15  # enough for a small model on 24 GB
    real = context.server_args(context.variants[0])
    args |= {name: value for name, value in real.items() if name in _ENGINE_ARGS}
    assert context.found.program is not None
    words = [*context.found.program, folder, *flags(args)]
    return [*words, "--speculative-config", json.dumps(SPECULATIVE)]
