"""A whole preflight on a planted GPU: a Python that answers as planted and serves as the simulator.

Also: interrupted in the middle, it leaves nothing running.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from planted import ENVIRONMENT, GIB, MATMUL, QWEN3_32B, TORCH, Machine
from project import SimulatedProject, until

pytestmark = pytest.mark.system

UUID = f"GPU-{os.getpid()}-preflight"
CARD = {"uuid": UUID, "pci_bus_id": "00000000:41:00.0", "total": 95 * GIB}


class Node:
    """A project whose server's Python is planted, on one planted card."""

    def __init__(self, root: Path, port: int) -> None:
        self.project = SimulatedProject(root, port)
        self.machine = Machine(root)
        self.answers: dict[str, Any] = {
            "environment": ENVIRONMENT,
            "torch_build": TORCH,
            "matmul": MATMUL | {"uuid": UUID.removeprefix("GPU-")},
        }
        self.card = dict(CARD)
        folder = self.machine.model_folder(QWEN3_32B, shards=1)
        self.project.write("models", "m", {
            "path": str(folder), "platform": "cuda",
            "server_args": {"max-model-len": 2048}})  # fmt: skip
        self.project.write("models", "small", {"path": str(folder), "platform": "any"})

    def start(self, *words: str) -> Any:
        self.machine.answers = self.answers
        python = self.machine.python()
        text = python.read_text().replace(
            "import json, sys, time\n",
            "import json, runpy, sys, time\n"
            "if sys.argv[1:2] == ['-m']:\n"
            "    sys.argv[1:] = sys.argv[3:]\n"
            "    runpy.run_module('specgauge.simulate', run_name='__main__')\n",
        )
        python.write_text(text)
        self.project.experiment["server"]["command"] = [str(python), "-m", "planted.server"]
        env = {
            "SPECGAUGE_FAKE_NVML": json.dumps({"gpus": [self.card]}),
            "SPECGAUGE_LOCKS": str(self.project.root / "locks"),
            "GPU_PCI_BUS_ID": "",
            "HF_HUB_OFFLINE": "1",
        }
        words = ("preflight", "-e", "x", "--smoke-model", "small", "--json", *words)
        return self.project.start(*words, **env)

    def found(self, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
        process = self.start(*words)
        out, err = process.communicate(timeout=240)
        assert out, err
        return process.returncode, {c["name"]: c for c in json.loads(out)["checks"]}


@pytest.fixture
def node(tmp_path: Path, free_port: int) -> Iterator[Node]:
    made = Node(tmp_path, free_port)
    yield made
    left = made.project.processes()
    for process in left:
        try:
            process.kill()
        except psutil.Error:
            continue
    assert not left, f"left running: {left}"


def test_everything_is_well_on_a_fit_node(node: Node) -> None:
    code, found = node.found()
    assert code == 0, found
    told = {name: check["status"] for name, check in found.items()}
    skipped = {"docker", "flags", "fetch"}  # processes; no vLLM; all is here
    assert told == {name: "skipped" if name in skipped else "ok" for name in told}
    assert "sm_120" in found["torch"]["seen"]


def test_server_on_another_card_is_found_by_the_smoke_run(node: Node) -> None:
    other = f"{UUID}-other"
    node.card["serves"] = other  # this card never shows the server that is given its UUID
    code, found = node.found()
    assert code == 5
    assert found["smoke"]["status"] == "fail"
    assert "neither a process" in found["smoke"]["seen"]


def test_card_without_kernels_stops_before_the_server(node: Node) -> None:
    node.answers["torch_build"] = TORCH | {"arch_list": ["sm_90", "sm_100"]}
    code, found = node.found()
    assert code == 5
    assert found["torch"]["status"] == "fail"
    assert found["matmul"]["blocked_by"] == found["smoke"]["blocked_by"] == "torch"
    assert found["memory"]["status"] == "ok"  # it does not depend on torch


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_smoke_run_leaves_nothing(node: Node, number: signal.Signals) -> None:
    node.project.truth["loading"] = {"load_s": 60}
    process = node.start()

    def serving() -> bool:
        return any("planted.server" in " ".join(p.cmdline()) for p in node.project.processes())

    assert until(serving)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert node.project.nothing_runs()
