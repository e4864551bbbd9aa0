"""What ``specgauge doctor`` finds, with the machine planted."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from specgauge.errors import EnvironmentFault
from specgauge.stack import doctor
from specgauge.stack.engine import Seen
from specgauge.stack.env import put

CARDS = '{"gpus": [{"uuid": "GPU-a", "pci_bus_id": "00000000:41:00.0"}]}'


class FakeEngine:
    containers: list[Seen] = []

    def words(self) -> str:
        return "Docker 99"

    def gpu_support(self) -> str | None:
        return "CDI"

    def project(self, name: str) -> list[Seen]:
        return self.containers


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: int) -> Path:
    answer = subprocess.CompletedProcess([], 0, stdout="5.6.1\n", stderr="")
    monkeypatch.setattr(doctor.subprocess, "run", lambda *words, **more: answer)
    monkeypatch.setattr(doctor, "Engine", FakeEngine)
    monkeypatch.setattr(FakeEngine, "containers", [])
    monkeypatch.setenv("SPECGAUGE_FAKE_NVML", CARDS)
    ports = {"PROMETHEUS_PORT": str(free_port), "GRAFANA_PORT": str(free_port)}
    put(tmp_path / ".env", {"SPECGAUGE_PROJECT": "p", "GPU_UUID": "GPU-a", **ports})
    return tmp_path


def faults(root: Path) -> list[str]:
    return [finding.text for finding in doctor.examine(root) if finding.ok is False]


def test_fit_machine_has_no_fault(root: Path) -> None:
    assert faults(root) == []


def test_nothing_prepared(root: Path) -> None:
    (root / ".env").unlink()
    found = "\n".join(faults(root))
    assert "make env" in found
    assert "make pin" in found
    assert "GPU-a" in found


@pytest.mark.parametrize(
    ("code", "stdout", "what"),
    [(0, "2.17.3\n", "too old"), (1, "", "does not work")],
)
def test_compose_that_is_too_old_or_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int, stdout: str, what: str
) -> None:
    answer = subprocess.CompletedProcess([], code, stdout=stdout, stderr="")
    monkeypatch.setattr(doctor.subprocess, "run", lambda *words, **more: answer)
    (found,) = faults(root)
    assert what in found
    assert "2.24" in found


def test_engine_s_fault_is_told_and_ends_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise EnvironmentFault("the Docker engine is not running")

    monkeypatch.setattr(doctor, "Engine", refuse)
    assert faults(root) == ["the Docker engine is not running"]


def test_pinned_gpu_that_is_gone(root: Path) -> None:
    put(root / ".env", {"GPU_UUID": "GPU-old"})
    (found,) = faults(root)
    assert "GPU-old" in found
    assert "00000000:41:00.0" in found


def test_taken_port_unless_it_is_our_own(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        put(root / ".env", {"GRAFANA_PORT": str(other.getsockname()[1])})
        (found,) = faults(root)
        assert "set GRAFANA_PORT" in found
        ours = Seen("grafana", "p-grafana-1", str(root), True, 0, False, None)
        monkeypatch.setattr(FakeEngine, "containers", [ours])
        assert faults(root) == []


def test_stranger_with_our_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = Seen("vllm-ngram", "p-vllm-ngram-1", "/elsewhere", True, 0, False, None)
    monkeypatch.setattr(FakeEngine, "containers", [stranger])
    (found,) = faults(root)
    assert "/elsewhere" in found
