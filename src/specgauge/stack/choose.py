"""Process or Compose: which way a run goes, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specgauge.config.model import Model
from specgauge.errors import EnvironmentFault, UsageError
from specgauge.stack.engine import Engine
from specgauge.stack.env import read

Wish = Literal["process", "compose", "auto"]


@dataclass(frozen=True)
class Stack:
    """What is needed to drive Compose in one checkout."""

    root: Path
    project: str
    env: dict[str, str]
    """The variables of .env."""
    cpu: bool
    """Without a GPU: with compose.cpu.yaml."""
    engine: Engine

    @property
    def files(self) -> list[str]:
        """``-f`` words for ``docker compose``."""
        names = ["compose.yaml", *(["compose.cpu.yaml"] if self.cpu else [])]
        return [word for name in names for word in ("-f", str(self.root / name))]

    def image(self, part: str) -> str:
        """The image of ``vllm``, ``loadgen`` or ``analysis``, as compose.yaml names it."""
        if part == "vllm":
            version = self.env.get("VLLM_VERSION") or "0.32.0"
            usual = (
                f"{self.project}-vllm-cpu:0.32.0"
                if self.cpu
                else (f"{self.project}-vllm:{version}")
            )
            return self.env.get("VLLM_IMAGE") or usual
        return self.env.get(f"{part.upper()}_IMAGE") or f"{self.project}-{part}"


def choose(wish: Wish, root: Path, model: Model) -> tuple[Stack | None, str]:
    """The stack to run in, or None for the process way; and the reason, for people.

    Raises:
        EnvironmentFault: ``compose`` is wished for and cannot be had.
    """
    if wish == "process":
        return None, "asked for"
    try:
        stack = ready_stack(root, model)
    except (EnvironmentFault, UsageError) as fault:
        if wish == "compose":
            raise
        return None, f"Compose cannot be used: {fault}"
    where = "on the CPU" if stack.cpu else f"on GPU {stack.env['GPU_UUID']}"
    return stack, f"project {stack.project}, {where}, {stack.engine.words()}"


def ready_stack(root: Path, model: Model) -> Stack:
    """The checkout's stack if it can run ``model`` now.

    Raises:
        EnvironmentFault: no .env, no engine, no images, no way to give containers a GPU, or no GPU
            is pinned; each with what to type.
    """
    env = read(root / ".env")
    if "SPECGAUGE_PROJECT" not in env:
        raise EnvironmentFault("there is no .env here yet: type 'make env'")
    engine = Engine()
    support = engine.gpu_support()
    pinned = env.get("GPU_UUID", "")
    cpu = model.platform == "cpu" or (model.platform == "any" and not (support and pinned))
    stack = Stack(root, env["SPECGAUGE_PROJECT"], env, cpu, engine)
    if not cpu and support is None:
        raise EnvironmentFault(
            f"model {model.name!r} needs a GPU, and this engine has neither the nvidia runtime "
            "nor CDI: install the NVIDIA container toolkit"
        )
    if not cpu and not pinned:
        raise EnvironmentFault("no GPU is chosen: type 'make pin GPU_PCI_BUS_ID=…'")
    images = [stack.image(part) for part in ("vllm", "loadgen", "analysis")]
    missing = [image for image in images if not engine.has_image(image)]
    if missing:
        raise EnvironmentFault(
            f"images are missing ({', '.join(missing)}): type 'make build{' CPU=1' if cpu else ''}'"
        )
    return stack
