"""What the checks look at, and what earlier ones found for later ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specgauge.config.project import Project
from specgauge.config.resolve import Resolved
from specgauge.gpu.device import Device, Nvml
from specgauge.gpu.lock import DeviceLock
from specgauge.gpu.nvml import open_nvml
from specgauge.preflight.model_files import ModelFiles
from specgauge.run.runtime import ProcessRuntime, Runtime

SMOKE_MODEL = "smollm2-135m"
"""The embedded model: real, small, and no hub is needed for it."""


@dataclass
class Found:
    """What earlier checks found."""

    nvml: Nvml | None = None
    device: Device | None = None
    capability: str | None = None
    """``12.0``."""
    lock: DeviceLock | None = None
    """Of the GPU, held until the end so that nobody's measurement meets our matmul or smoke run."""
    program: list[str] | None = None
    """The server's program and first arguments."""
    python: list[str] | None = None
    """How to run the server's Python: one word, or a command into its container."""
    environment: dict[str, Any] = field(default_factory=dict)
    """What ``inside/environment.py`` said."""
    files: dict[str, ModelFiles] = field(default_factory=dict)
    """By name: the target and the drafters of the variants."""


@dataclass
class Context:
    """One preflight."""

    resolved: Resolved
    project: Project
    variants: list[str]
    runtime: Runtime = field(default_factory=ProcessRuntime)
    way: str = "process"
    bus_id: str | None = None
    smoke: bool = True
    smoke_model: str = SMOKE_MODEL
    fetch: bool = False
    say: Callable[[str], None] = lambda text: None
    """Progress of what takes long."""
    open_nvml: Callable[[], Nvml] = open_nvml
    found: Found = field(default_factory=Found)

    @property
    def compose(self) -> bool:
        """The servers run in containers."""
        return self.way == "compose"

    @property
    def cpu(self) -> bool:
        """No GPU takes part: the model is one for CPUs, or any will do and none was named."""
        platform = self.resolved.model.platform
        return platform == "cpu" or (platform == "any" and self.bus_id is None)

    def server_args(self, variant: str) -> dict[str, Any]:
        """vLLM's arguments of ``variant``, as ``run`` passes them: model, experiment, variant."""
        args: dict[str, Any] = {}
        resolved = self.resolved
        sources = (
            resolved.model.server_args,
            resolved.experiment.server.args,
            resolved.variants[variant].server_args,
        )
        for source in sources:
            args |= {name.replace("_", "-"): value for name, value in source.items()}
        return args

    def server_env(self) -> dict[str, str]:
        """The environment for questions to the server's Python: the user's, the model's, the
        experiment's, and the one GPU by UUID in PCI order."""
        env = dict(os.environ)
        if not self.compose:
            env |= self.resolved.model.server_env | self.resolved.experiment.server.env
        if self.found.device is not None:
            env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
            env["CUDA_VISIBLE_DEVICES"] = self.found.device.uuid
        return env

    def close(self) -> None:
        """Give the GPU's lock back."""
        if self.found.lock is not None:
            self.found.lock.release()
            self.found.lock = None


def gib(size: float) -> str:
    """For people."""
    return f"{size / 2**30:.1f} GiB"
