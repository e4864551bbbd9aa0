"""The server in a container of its own, as the load generator's container sees it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from specgauge.config.experiment import Server as ServerConfig
from specgauge.config.project import Project
from specgauge.serve.compose import ComposeServer, find_runner
from specgauge.serve.control import Control
from specgauge.serve.protocol import Server, ServerSpec

PORT = 8000
"""vLLM's port inside the stack's network; none of it is published."""
CACHE = Path("/cache")
"""All compile caches, in the vLLM container."""
VLLM = ["vllm", "serve"]
"""The program in vLLM's images, instead of the checkout's environment of the process way."""
IMAGE = "SPECGAUGE_VLLM_IMAGE"


class ContainerRuntime:
    """Implements ``run.runtime.Runtime`` for one variant's container."""

    name: Literal["compose"] = "compose"

    def __init__(self, control: Control) -> None:
        self._control = control
        self._told: dict[str, Any] | None = None

    def program(self, config: ServerConfig, project: Project) -> list[str]:
        """The image's vLLM, or what the experiment names instead of the default."""
        default = ServerConfig().command
        return list(VLLM if config.command == default else config.command)

    def bind(self, config: ServerConfig) -> tuple[str, int]:
        """All interfaces of the container: its networks are internal ones."""
        return "0.0.0.0", PORT

    def reach(self, config: ServerConfig, variant: str) -> tuple[str, int]:
        """The service's name."""
        return f"vllm-{variant}", PORT

    def compile_base(self) -> Path:
        """See ``Runtime``."""
        return CACHE / "compile"

    def usual_caches(self, env: dict[str, str]) -> list[str]:
        """See ``Runtime``."""
        return [str(CACHE)]

    def server(self, spec: ServerSpec, config: ServerConfig, one_time: Path | None) -> Server:
        """See ``Runtime``; the other container removes ``one_time``: it is not mounted here."""
        remove = [] if one_time is None else [str(one_time)]
        return ComposeServer(spec, self._control, self.bind(config), remove)

    def facts(self) -> dict[str, Any]:
        """Which image the server came from, and what is installed in it."""
        return {"image": os.environ.get(IMAGE), "packages": self._runner().get("packages") or {}}

    def machine(self) -> dict[str, Any]:
        """The GPUs: only the server's container has them."""
        return {"gpus": self._runner().get("gpus")}

    def _runner(self) -> dict[str, Any]:
        """What the other container said first: by the time one asks again it may be gone."""
        self._told = self._told or find_runner(self._control)
        return self._told
