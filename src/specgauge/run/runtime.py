"""The ways to run a server, as the orchestration sees them: where it is, how it is started."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any, Literal, Protocol

from specgauge.config.experiment import Server as ServerConfig
from specgauge.config.project import Project, cache_folder
from specgauge.errors import EnvironmentFault
from specgauge.gpu.pinned import Pinned
from specgauge.serve.local import LocalServer
from specgauge.serve.on_gpu import OnGpu
from specgauge.serve.protocol import Server, ServerSpec

GPU = "gpu"
"""Key of ``Runtime.machine`` under which a way tells of the servers' GPU (gpu/facts.py)."""


class Runtime(Protocol):
    """One way.  ``config`` is the experiment's ``server:`` section throughout."""

    @property
    def name(self) -> Literal["process", "compose"]:
        """As in the manifest; part of the fingerprint."""

    def program(self, config: ServerConfig, project: Project) -> list[str]:
        """Program and first arguments of the server.  Raises EnvironmentFault: not there."""

    def bind(self, config: ServerConfig) -> tuple[str, int]:
        """Host and port that the server listens on."""

    def reach(self, config: ServerConfig, variant: str) -> tuple[str, int]:
        """Host and port at which we reach it."""

    def compile_base(self) -> Path:
        """Folder for compile caches, as the server sees it."""

    def usual_caches(self, env: dict[str, str]) -> list[str]:
        """Compile caches of a server that is given none of its own."""

    def server(self, spec: ServerSpec, config: ServerConfig, one_time: Path | None) -> Server:
        """A server for one start; the cache folder ``one_time`` is not needed after it."""

    def facts(self) -> dict[str, Any]:
        """For ``vllm`` in the manifest."""

    def machine(self) -> dict[str, Any]:
        """For ``machine`` in the manifest: what only the server's place knows of it."""


class ProcessRuntime:
    """A process on this machine; ``gpu``: the one that its servers are given, None without."""

    name: Literal["process"] = "process"

    def __init__(self, gpu: Pinned | None = None) -> None:
        self.gpu = gpu

    def program(self, config: ServerConfig, project: Project) -> list[str]:
        """The experiment's server command with its program made absolute.

        Raises:
            EnvironmentFault: there is no such program; says how to get it.
        """
        name, *rest = config.command
        inside = project.root / name
        if inside.is_file():
            return [str(inside), *rest]
        found = shutil.which(name)
        if found is None:
            raise EnvironmentFault(
                f"no server program {name!r} (looked in {project.root} and on PATH). "
                "'make setup' makes the CPU environment; for a vLLM of your own set "
                "'server: command: [vllm, serve]' in the experiment"
            )
        return [found, *rest]

    def bind(self, config: ServerConfig) -> tuple[str, int]:
        """See ``Runtime``."""
        return config.host, config.port

    def reach(self, config: ServerConfig, variant: str) -> tuple[str, int]:
        """See ``Runtime``."""
        return config.host, config.port

    def compile_base(self) -> Path:
        """See ``Runtime``."""
        return cache_folder() / "compile"

    def usual_caches(self, env: dict[str, str]) -> list[str]:
        """See ``Runtime``."""
        home = Path.home()
        folders = (
            Path(env.get("VLLM_CACHE_ROOT", home / ".cache" / "vllm")),
            Path(env.get("TRITON_CACHE_DIR", home / ".triton" / "cache")),
        )
        return [str(folder) for folder in folders if folder.is_dir()]

    def server(self, spec: ServerSpec, config: ServerConfig, one_time: Path | None) -> Server:
        """See ``Runtime``; the start itself removes ``one_time``."""
        return LocalServer(spec) if self.gpu is None else OnGpu(spec, self.gpu)

    def facts(self) -> dict[str, Any]:
        """See ``Runtime``."""
        return {}

    def machine(self) -> dict[str, Any]:
        """See ``Runtime``."""
        return {} if self.gpu is None else {GPU: self.gpu.facts()}


def holding(runtime: Runtime) -> contextlib.AbstractContextManager[None]:
    """What the process way keeps to itself while starts are made: the lock of its GPU.

    (In the Compose way the server's own container holds it.)
    """
    if isinstance(runtime, ProcessRuntime) and runtime.gpu is not None:
        return runtime.gpu.hold()
    return contextlib.nullcontext()
