"""A planted machine for the checks: cards, a Python that answers as told, a model's files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from specgauge.config.project import Project
from specgauge.config.resolve import resolve
from specgauge.gpu.device import NvmlUnavailable, Traits
from specgauge.gpu.fake import FakeGpu, FakeNvml
from specgauge.preflight.context import Context

GIB = 2**30
CARD = "GPU-preflight-a"
"""No other test's: planted cards carry every server of this machine that names them."""

QWEN3_32B: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "hidden_size": 5120, "intermediate_size": 25600,
    "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "max_position_embeddings": 40960,
}  # fmt: skip
"""Shape as published by Qwen."""
QWEN3_06B = QWEN3_32B | {
    "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "num_attention_heads": 16, "tie_word_embeddings": True,
}  # fmt: skip
EAGLE3_32B: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3",
    "draft_vocab_size": 32000,
    "transformer_layer_config": QWEN3_32B | {"num_hidden_layers": 1, "model_type": "llama"},
}  # fmt: skip

ENVIRONMENT: dict[str, Any] = {
    "python": "3.12.1", "executable": "/env/bin/python",
    "packages": {"vllm": "0.32.0", "torch": "2.13.0", "flashinfer-python": "0.6.16"},
    "array_subscript": None, "evaluates_array_subscript": None,
    "compiler": "/usr/bin/gcc", "cxx": "/usr/bin/g++", "ninja": "/usr/bin/ninja",
    "ninja_beside": None, "nvcc": "/usr/local/cuda/bin/nvcc", "python_h": True,
    "shm_bytes": 2 * GIB,
}  # fmt: skip
TORCH: dict[str, Any] = {
    "version": "2.13.0", "cuda": "13.2", "arch_list": ["sm_90", "sm_120"], "devices": 1,
    "capability": [12, 0], "name": "Planted GPU", "error": None,
}  # fmt: skip
MATMUL: dict[str, Any] = {"error": None, "right": True, "uuid": None}


class Cards(FakeNvml):
    """Planted cards, all of one compute capability."""

    capability = "12.0"

    def traits(self, device: Any) -> Traits:
        super().traits(device)
        return Traits(self.capability, 600.0, 2000, 2000)


def card(**more: Any) -> FakeGpu:
    """A 96 GB card, free."""
    return FakeGpu(CARD, "00000000:41:00.0", **{"total": 95 * GIB, **more})


class Machine:
    """A project in ``root`` with one model, and whatever is planted around it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cards: list[FakeGpu] | None = [card()]
        self.answers: dict[str, Any] = {
            "environment": ENVIRONMENT, "torch_build": TORCH, "matmul": MATMUL,
        }  # fmt: skip
        self.model: dict[str, Any] = {
            "path": "some/model",
            "platform": "cuda",
            "server_args": {"max-model-len": 2048, "gpu-memory-utilization": 0.9},
        }
        self.experiment: dict[str, Any] = {
            "model": "m",
            "variants": ["vanilla"],
            "loads": [{"concurrency": 16, "requests": 2}],
            "workload": "w",
        }
        self.write("variants", "vanilla", {})
        self.write("workloads", "w", {"path": "w.jsonl"})
        prompts = "".join(json.dumps({"id": f"p{i}", "prompt": f"q {i}"}) + "\n" for i in range(9))
        (root / "config" / "workloads" / "w.jsonl").write_text(prompts)

    def write(self, kind: str, name: str, value: dict[str, Any]) -> None:
        folder = self.root / "config" / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **value}))

    def context(self, **more: Any) -> Context:
        """A context of this machine, its program and Python known."""
        self.write("models", "m", self.model)
        self.write("experiments", "x", self.experiment)
        project = Project(self.root)
        resolved = resolve(project, "x", prompts_needed=False)
        context = Context(
            resolved, project, list(resolved.experiment.variants), open_nvml=self.nvml, **more
        )
        context.found.program = [str(self.python()), "-m", "vllm.entrypoints.cli.main", "serve"]
        context.found.python = [str(self.python())]
        context.found.environment = self.answers["environment"]
        return context

    def on_card(self, **more: Any) -> Context:
        """The same, with the card found."""
        context = self.context(**more)
        nvml = self.nvml()
        context.pin(nvml, nvml.devices()[0])
        return context

    def nvml(self) -> Cards:
        if self.cards is None:
            raise NvmlUnavailable("NVML Shared Library Not Found")
        return Cards(self.cards)

    def python(self) -> Path:
        """A program that answers each of ``inside/`` as planted; what is not planted, never."""
        path = self.root / "python3"
        path.write_text(
            f"#!{sys.executable}\n"
            "import json, sys, time\n"
            f"answers = json.loads({json.dumps(json.dumps(self.answers))})\n"
            "from specgauge.preflight.probe import MARK, source\n"
            "for name, answer in answers.items():\n"
            "    if sys.argv[2] == source(name):\n"
            "        print('a library says something')\n"
            "        print(MARK + json.dumps(answer))\n"
            "        sys.exit(0)\n"
            "time.sleep(600)\n"
        )
        path.chmod(0o755)
        return path

    def model_folder(self, config: dict[str, Any], shards: int = 0, name: str = "model") -> Path:
        """A model's folder; without shards only its config.json and, of its weights, none."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config))
        for number in range(shards):
            (folder / f"model-{number}.safetensors").write_bytes(b"0" * 1000)
        return folder
