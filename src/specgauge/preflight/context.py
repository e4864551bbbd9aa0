"""What the checks look at, and what earlier ones found for later ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specgauge.config.project import Project, cache_folder
from specgauge.config.resolve import Resolved
from specgauge.gpu.choose import BUS_ID
from specgauge.gpu.device import Device, Nvml
from specgauge.gpu.lock import DeviceLock
from specgauge.gpu.nvml import open_nvml
from specgauge.gpu.pinned import Pinned
from specgauge.preflight.containers import Containers
from specgauge.preflight.model_files import ModelFiles, hub_cache
from specgauge.run.runtime import ProcessRuntime, Runtime
from specgauge.stack.env import read

RELEASE_WAIT_S = 60.0
"""For the driver to give back what the product of matrices took."""
SMOKE_MODEL = "smollm2-135m"
"""The embedded model: real, small, and no hub is needed for it."""


@dataclass
class Found:
    """What earlier checks found."""

    gpu: Pinned | None = None
    """The card that was chosen, as a run would choose it."""
    lock: DeviceLock | None = None
    """Of the GPU, held until the end so that nobody's measurement meets our matmul or smoke run."""
    program: list[str] | None = None
    """The server's program and first arguments."""
    python: list[str] | None = None
    """How to run the server's Python: one word, or a command into its container."""
    containers: Containers | None = None
    """Of the stack's vLLM image, where servers run in containers."""
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
    clear: Callable[[], None] = lambda: None
    """Take the progress away before a result is shown."""
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
        named = self.bus_id or os.environ.get(BUS_ID) or self.dotenv.get(BUS_ID)
        return platform == "cpu" or (platform == "any" and not named)

    @property
    def dotenv(self) -> dict[str, str]:
        """The variables of .env; none where there is no such file."""
        return read(self.project.root / ".env")

    def pin(self, nvml: Nvml, device: Device) -> None:
        """This card is meant."""
        self.found.gpu = Pinned(nvml, device, RELEASE_WAIT_S, self.say)

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

    def own_env(self, variant: str) -> dict[str, str]:
        """The variables that ``variant``'s server is given: model, experiment, variant."""
        resolved = self.resolved
        own = resolved.model.server_env | resolved.experiment.server.env
        return own | resolved.variants[variant].server_env

    def server_env(self) -> dict[str, str]:
        """The environment for questions to the server's Python: the user's, the model's, the
        experiment's, and the one GPU by UUID in PCI order.  (A container has its own.)"""
        env = dict(os.environ)
        if not self.compose:
            env |= self.resolved.model.server_env | self.resolved.experiment.server.env
        if self.found.gpu is not None:
            env |= self.found.gpu.env
        return env

    def hub_cache(self) -> Path:
        """Where the hub's files are kept: the folder that the containers mount, or the user's."""
        mounted = self.dotenv.get("HF_CACHE") if self.compose else None
        download = self.server_args(self.variants[0]).get("download-dir")
        return Path(mounted or download or hub_cache(self.server_env()))

    def model_cache(self) -> Path:
        """Where embedded models are kept: the folder that the containers mount, or the user's."""
        mounted = self.dotenv.get("MODEL_CACHE") if self.compose else None
        return Path(mounted or cache_folder())

    def close(self) -> list[str]:
        """Remove what containers there still are, then give the GPU's lock back.

        Returns the ids of containers that cannot be removed.
        """
        left = [] if self.found.containers is None else self.found.containers.sweep()
        if self.found.lock is not None:
            self.found.lock.release()
            self.found.lock = None
        return left


def gib(size: float) -> str:
    """For people."""
    return (
        f"{size / 2**30:.1f} GiB" if size >= 2**30 / 10 or not size else f"{size / 2**20:.0f} MiB"
    )
