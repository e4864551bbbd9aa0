"""The whole verb as a program: on planted cards, on the simulator, and with bad words."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from planted import CARD, QWEN3_32B
from project import SIMULATOR, SimulatedProject

from specgauge.preflight.registry import CHECKS

pytestmark = pytest.mark.system

CARDS = {
    "gpus": [
        {"uuid": CARD, "pci_bus_id": "00000000:41:00.0"},
        {
            "uuid": "GPU-preflight-b",
            "pci_bus_id": "00000000:C1:00.0",
            "processes": [{"pid": os.getpid()}],
        },
    ]
}


@pytest.fixture
def project(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimulatedProject]:
    for name in ("GPU_PCI_BUS_ID", "HF_HUB_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPECGAUGE_LOCKS", str(tmp_path / "locks"))
    made = SimulatedProject(tmp_path, free_port)
    folder = tmp_path / "model"
    folder.mkdir()
    config = QWEN3_32B | {"num_hidden_layers": 1, "hidden_size": 64, "vocab_size": 100}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"0" * 1000)
    made.write("models", "m", {"path": str(folder), "platform": "cpu"})
    made.write("models", "gpu", {"path": str(folder), "platform": "cuda"})
    yield made
    left = made.processes()
    for process in left:
        try:
            process.kill()
        except psutil.Error:
            continue
    assert not left, f"left running: {left}"


def found(done: Any) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_fit_machine_with_a_smoke_run(project: SimulatedProject) -> None:
    done = project.specgauge("preflight", "-e", "x", "--smoke-model", "m", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    checks = found(done)
    assert list(checks) == [check.name for check in CHECKS]
    assert {checks[n]["status"] for n in ("port", "server", "weights", "smoke")} == {"ok"}
    assert checks["driver"]["status"] == checks["matmul"]["status"] == "skipped"
    assert "platform: cpu" in checks["driver"]["seen"]
    assert checks["smoke"]["seconds"] > 0
    assert not (project.root / "results").exists()  # it measures nothing


@pytest.mark.parametrize(
    ("truth", "status", "word"),
    [
        (
            {"die": {"while_loading": "RuntimeError: CUDA error: operation failed due to a "
                     "previous error during capture"}},
            "fail",
            "Capturing CUDA graphs failed",
        ),
        ({"foreign": {"rate": 50.0}}, "fail", "were ours"),
        ({"variants": {"ngram": {"coverage": 0.0}}}, "warn", "not one draft"),
        ({"faults": [{"request": 1, "kind": "status"}]}, "fail", "answers 500"),
    ],
)  # fmt: skip
def test_smoke_run_s_faults(
    project: SimulatedProject, truth: dict[str, Any], status: str, word: str
) -> None:
    project.truth |= truth
    done = project.specgauge("preflight", "-e", "x", "--smoke-model", "m", "--json")
    smoke = found(done)["smoke"]
    assert smoke["status"] == status
    assert word in smoke["seen"]
    assert done.returncode == (5 if status == "fail" else 0)


def test_words_of_a_machine_that_is_not_fit(project: SimulatedProject) -> None:
    none = json.dumps({"unavailable": "NVML Shared Library Not Found"})
    done = project.specgauge("preflight", "-e", "x", "--model", "gpu", SPECGAUGE_FAKE_NVML=none)
    assert done.returncode == 5
    assert "NVML Shared Library Not Found" in done.stdout
    assert "→" in done.stdout
    last = done.stdout.split("not fit")[1]
    for word in ("driver", "matmul", "smoke"):
        assert word in last


def test_busy_and_unknown_cards(project: SimulatedProject) -> None:
    cards = json.dumps(CARDS)
    words = ("preflight", "-e", "x", "--model", "gpu", "--no-smoke", "--json")
    busy = project.specgauge(*words, "--gpu", "c1:00.0", SPECGAUGE_FAKE_NVML=cards)
    assert busy.returncode == 5
    assert f"pid {os.getpid()}" in found(busy)["tenants"]["seen"]
    assert "00000000:41:00.0" in found(busy)["tenants"]["remedy"]
    assert psutil.pid_exists(os.getpid())
    unknown = project.specgauge(*words, "--gpu", "42:00.0", SPECGAUGE_FAKE_NVML=cards)
    assert unknown.returncode == 2
    for part in ("00000000:41:00.0", CARD, "00000000:c1:00.0"):
        assert part in found(unknown)["gpu"]["seen"]
    unnamed = project.specgauge(*words, SPECGAUGE_FAKE_NVML=cards)
    assert unnamed.returncode == 2


def test_lock_is_given_back(project: SimulatedProject) -> None:
    cards = json.dumps(CARDS)
    words = ("preflight", "-e", "x", "--model", "gpu", "--no-smoke", "--json", "--gpu", "41:00.0")
    for _ in range(2):
        done = project.specgauge(*words, SPECGAUGE_FAKE_NVML=cards)
        assert found(done)["tenants"]["status"] == "ok"


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "nothing"),
        ("-e", "nothing"),
        ("-e", "x", "-v", "nothing"),
        ("-e", "x", "--smoke-model", "nothing"),
        ("-e", "x", "--gpu", "0"),
        ("-e", "x", "--runtime", "nothing"),
    ],
)
def test_bad_words(project: SimulatedProject, words: tuple[str, ...]) -> None:
    done = project.specgauge("preflight", "--no-smoke", *words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_server_s_python_that_is_not_there(project: SimulatedProject) -> None:
    project.experiment["server"]["command"] = ["/nowhere/bin/python", "-m", "vllm"]
    done = project.specgauge("preflight", "-e", "x", "--json")
    assert done.returncode == 5
    assert found(done)["server"]["status"] == "fail"
    assert found(done)["smoke"]["blocked_by"] == "server"


def test_workload_that_cannot_be_had_hides_nothing(project: SimulatedProject) -> None:
    project.write("workloads", "far", {"url": "http://127.0.0.1:9/none.jsonl", "sha256": "0" * 64})
    project.experiment["workload"] = "far"
    done = project.specgauge("preflight", "-e", "x", "--json")
    assert done.returncode == 5
    assert found(done)["prompts"]["status"] == "fail"
    assert found(done)["server"]["status"] == "ok"


def test_secret_in_the_environment_is_not_shown(project: SimulatedProject) -> None:
    secret = "hf_abcdefghijklmnop"
    broken = project.root / "python3"
    broken.write_text(f"#!{sys.executable}\nimport os, sys\nsys.exit(os.environ['HF_TOKEN'])\n")
    broken.chmod(0o755)
    project.experiment["server"]["command"] = [str(broken), *SIMULATOR[1:]]
    done = project.specgauge("preflight", "-e", "x", "--no-smoke", "--json", HF_TOKEN=secret)
    assert found(done)["server"]["status"] == "fail"
    assert "***" in found(done)["server"]["seen"]
    assert secret not in done.stdout + done.stderr
