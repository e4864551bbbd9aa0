"""The whole path with a small model: serve, speculative config, completions, metrics."""

from __future__ import annotations

from specgauge.config.project import cache_folder
from specgauge.errors import EnvironmentFault
from specgauge.gpu.device import NvmlFault
from specgauge.gpu.occupancy import wait_free
from specgauge.preflight.context import RELEASE_WAIT_S, Context
from specgauge.preflight.result import Result, fail, ok, skipped
from specgauge.preflight.small import container, process
from specgauge.preflight.small.answer import TOKENS
from specgauge.preflight.small.server import SPECULATIVE, small_model


def smoke(context: Context) -> Result:
    """A real server, one streamed request, and its counters."""
    if not context.smoke:
        return skipped("not wanted (--no-smoke)")
    way = container if context.compose else process
    try:
        model = small_model(context)
        folder = way.folder_of(context, model)
    except EnvironmentFault as fault:
        return fail(
            f"no small model for it: {fault}",
            f"{_makes(context)} makes the embedded one; --smoke-model NAME takes another of "
            "config/models; --no-smoke leaves this out",
        )
    ready_s = way.served(context, model, folder)
    if isinstance(ready_s, Result):
        return ready_s
    if (left := _not_released(context)) is not None:
        return left
    containers = context.found.containers
    where = "" if containers is None else f", in a container of {containers.image}"
    return ok(
        f"{model.name} with {SPECULATIVE['method']}{where}: ready in {ready_s:.0f} s, {TOKENS} "
        "tokens streamed, drafts counted"
    )


def _makes(context: Context) -> str:
    if not context.compose:
        return "make setup"
    fetch = f"make build fetch CPU=1 MODEL={context.smoke_model}"
    return f"{fetch}, or make setup," if context.model_cache() == cache_folder() else fetch


def _not_released(context: Context) -> Result | None:
    """The driver gives memory back some seconds after a process has ended."""
    gpu = context.found.gpu
    if gpu is None:
        return None
    try:
        seen = wait_free(gpu.nvml, gpu.device, RELEASE_WAIT_S, lambda _: True)
    except NvmlFault as fault:
        return fail(f"NVML does not answer after the smoke run: {fault}", "ask who runs the node")
    if seen.free:
        return None
    return fail(f"the GPU's memory did not come back: {seen.words()}", "see whose it is")
