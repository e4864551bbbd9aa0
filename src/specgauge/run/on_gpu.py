"""The process way with the GPU that the person, .env or the machine names."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from specgauge.config.model import Model
from specgauge.errors import UsageError
from specgauge.gpu.choose import choose
from specgauge.gpu.pinned import Pinned
from specgauge.run.runtime import ProcessRuntime
from specgauge.stack.env import read


def process_runtime(
    model: Model, root: Path, option: str | None, wait_minutes: float | None, console: Console
) -> ProcessRuntime:
    """Servers as processes here, on a GPU if ``model`` may use one; says which.

    Args:
        model: its ``platform`` decides.
        root: the project's folder; its .env may name the GPU.
        option: ``--gpu``.
        wait_minutes: ``--wait-gpu``.
        console: for lines that stay.

    Raises:
        UsageError: an index, an unknown GPU, or several and none named.
        EnvironmentFault: no GPU where one is needed.
    """

    def tell(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    found = choose(model.platform, model.name, option, os.environ, read(root / ".env"))
    if found is None:
        if wait_minutes is not None:
            raise UsageError(
                f"--wait-gpu: no GPU is used for model {model.name!r} (platform: "
                f"{model.platform}); name one with --gpu BUS_ID if it may"
            )
        return ProcessRuntime()
    pinned = Pinned(found.nvml, found.device, 60 * (wait_minutes or 0.0), tell)
    tell(f"GPU {pinned.words} ({found.why}), {found.device.uuid}")
    return ProcessRuntime(pinned)
