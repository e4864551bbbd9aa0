"""The exact command line and environment of a variant's server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgauge.config.experiment import Experiment
from specgauge.config.project import Project
from specgauge.config.resolve import Resolved, flags, is_folder, place
from specgauge.config.variant import Variant
from specgauge.embedded.model import ensure
from specgauge.errors import EnvironmentFault
from specgauge.run import jit_monitor
from specgauge.run.runtime import Runtime

_CACHE_VARIABLES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "NUMBA_CACHE_DIR": "numba",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUDA_CACHE_PATH": "cuda",
}
"""Every compile cache of the stack, and its folder under a common one."""


@dataclass(frozen=True)
class Command:
    """How to start a server."""

    argv: list[str]
    env: dict[str, str]
    caches: list[str]
    speculative_config: dict[str, Any] | None


def model_folder(resolved: Resolved, project: Project) -> str:
    """What vLLM is given as the model: a folder or a hub name.

    Raises:
        EnvironmentFault: a folder that is not there, or the embedded model cannot be made.
    """
    model = resolved.model
    if model.embedded is not None:
        return str(ensure(model.embedded, project.root))
    assert model.path is not None
    given = place(model.path, project)
    if model.path.startswith((".", "/", "~")) and not is_folder(given):
        raise EnvironmentFault(
            f"model folder {model.path} does not exist (model {model.name!r}, 'path:')"
        )
    return given


def build(
    resolved: Resolved,
    variant: Variant,
    project: Project,
    model: str,
    cache: Path | None,
    runtime: Runtime,
) -> Command:
    """The server command of ``variant``.

    Later sources win over earlier ones: model, experiment, variant.

    Args:
        resolved: the experiment.
        variant: which variant.
        project: for paths.
        model: from ``model_folder``.
        cache: folder for all compile caches; None leaves them where the user has them.
        runtime: where the server will run.
    """
    experiment = resolved.experiment
    server = experiment.server
    speculative = resolved.speculative_config(variant, project)
    args: dict[str, Any] = {
        "host": runtime.bind(server)[0],
        "port": runtime.bind(server)[1],
        "served-model-name": resolved.model.name,
    }
    if resolved.model.revision is not None:
        args["revision"] = resolved.model.revision
    for more in (resolved.model.server_args, server.args, variant.server_args):
        args |= {name.replace("_", "-"): value for name, value in more.items()}
    program = runtime.program(server, project)
    if jit_monitor.supported(server, program):
        args.setdefault(jit_monitor.FLAG, True)
    argv = [*program, model, *flags(args)]
    if speculative is not None:
        argv += ["--speculative-config", json.dumps(speculative)]
    env = {**resolved.model.server_env, **server.env, **variant.server_env}
    # A confirming repeat puts the prefix cache back; only a server that nobody else reaches is
    # given the means for that alone.
    if experiment.prefix_cache == "reset" or (experiment.confirm and _is_loopback(server.host)):
        env.setdefault("VLLM_SERVER_DEV_MODE", "1")
    caches: list[str] = []
    if cache is not None:
        for name, folder in _CACHE_VARIABLES.items():
            env[name] = str(cache / folder)
        caches = [str(cache)]
    else:
        caches = runtime.usual_caches(env)
    return Command(argv, env, caches, speculative)


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def compile_cache(
    experiment: Experiment, run_id: str, variant: str, k: int, base: Path
) -> Path | None:
    """Folder below ``base`` for a start's compile caches under the experiment's policy.

    None = where the user has them.
    """
    if experiment.compile_cache == "per-variant":
        return base / experiment.name / variant
    if experiment.compile_cache == "fresh":
        return base / "fresh" / run_id / variant / f"start-{k}"
    return None
