"""A server's GPU before, while and after it runs: verified there, its memory waited for."""

import json
import os
from pathlib import Path

import pytest

from specgauge.errors import EnvironmentFault
from specgauge.gpu.fake import FakeGpu, FakeNvml, FakeProcess
from specgauge.gpu.pinned import Pinned
from specgauge.record.documents import Launch
from specgauge.record.layout import StartPaths
from specgauge.serve import on_gpu
from specgauge.serve.on_gpu import OnGpu
from specgauge.serve.protocol import ServerSpec

GIB = 2**30
SERVER = 4_900_001
"""A number that no process here has: its owner cannot be told."""


class Clock:
    def __init__(self) -> None:
        self.now = 10.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Local:
    """A stand-in for ``serve/local.py``: this very process is its runner."""

    runner_pid = os.getpid()

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec

    def start(self) -> None:
        self.spec.paths.folder.mkdir(parents=True)
        document = {"id": self.spec.id, "argv": [], "env": {}, "started_at": 0, "clock_offset": 0}
        self.spec.paths.launch.write_text(json.dumps({**document, "refused": None}))

    def wait_ready(self, on_wait) -> None:
        on_wait("loading")

    def death(self) -> None:
        return None

    def stop(self) -> Launch:
        return Launch.model_validate_json(self.spec.paths.launch.read_text())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(on_gpu, "time", made)
    monkeypatch.setattr(on_gpu, "LocalServer", Local)
    return made


def server(tmp_path: Path, clock: Clock, *processes: FakeProcess, more=(), **card):
    told: list[str] = []
    gpus = [FakeGpu("GPU-a", "00000000:41:00.0", "A", processes=list(processes), **card), *more]
    nvml = FakeNvml(gpus, clock=clock.monotonic)
    gpu = Pinned(nvml, nvml.devices()[0], 0.0, told.append, clock.monotonic, clock.sleep)
    spec = ServerSpec(
        "start-1", [], {"X": "1"}, "127.0.0.1", 1, StartPaths(tmp_path / "s"), "", 1, 1
    )
    return OnGpu(spec, gpu), told


def ours(**times) -> FakeProcess:
    """Ours appears a second after the first look: the card is free before."""
    return FakeProcess(os.getpid(), 30 * GIB, appears_s=1.0, **times)


def made_ready(made: OnGpu, clock: Clock) -> None:
    made.start()
    clock.now += 5
    made.wait_ready(lambda text: None)


def test_a_process_of_ours_is_seen_and_recorded(tmp_path: Path, clock: Clock) -> None:
    made, told = server(tmp_path, clock, ours(ends_s=100, release_s=7))
    made_ready(made, clock)
    assert made.telemetry == ("GPU-a", {"root": os.getpid(), "id": "start-1"})
    clock.now = 110.2
    use = made.stop().gpu
    assert use is not None
    assert use.pids_visible is True
    assert use.memory_ready == use.memory_before + 30 * GIB
    assert use.release_s == pytest.approx(7, abs=0.6)
    assert told == []
    written = json.loads((tmp_path / "s" / "launch.json").read_text())
    assert written["gpu"]["memory_after"] == use.memory_before
    assert "refused" in written  # what else the runner wrote stays
    clock.now += 50
    assert made.stop().gpu == use  # again changes nothing


def test_the_environment_pins_by_uuid(tmp_path: Path, clock: Clock) -> None:
    made, _ = server(tmp_path, clock, ours())
    assert made._server.spec.env == {
        "X": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-a",
    }


def test_somebody_who_came_since_the_lock_is_named(tmp_path: Path, clock: Clock) -> None:
    made, _ = server(tmp_path, clock, FakeProcess(SERVER, GIB))
    with pytest.raises(EnvironmentFault, match=f"pid {SERVER}.*the same command goes on"):
        made.start()
    assert not (tmp_path / "s").exists()


def test_on_another_card_both_are_named(tmp_path: Path, clock: Clock) -> None:
    other = FakeGpu("GPU-b", "00000000:c1:00.0", "B", processes=[ours()])
    made, _ = server(tmp_path, clock, more=[other])
    with pytest.raises(EnvironmentFault) as caught:
        made_ready(made, clock)
    assert "A at 00000000:41:00.0" in str(caught.value)
    assert "B at 00000000:c1:00.0" in str(caught.value)


def test_hidden_numbers_and_risen_memory(tmp_path: Path, clock: Clock) -> None:
    made, told = server(tmp_path, clock, FakeProcess(SERVER, 30 * GIB, appears_s=1, ends_s=60))
    made_ready(made, clock)
    assert "30.0 GiB more than before" in told[0]
    assert made.telemetry == ("GPU-a", {"blind": True})
    clock.now = 50.0
    use = made.stop().gpu
    assert use is not None
    assert use.pids_visible is False
    # Its memory is not taken for somebody else's: it was waited for.
    assert use.release_s == pytest.approx(20, abs=0.6)


def test_nothing_on_any_card(tmp_path: Path, clock: Clock) -> None:
    made, _ = server(tmp_path, clock)
    with pytest.raises(EnvironmentFault, match="nor does any other card"):
        made_ready(made, clock)
    grown = FakeGpu("GPU-b", "00000000:c1:00.0", "B", processes=[
        FakeProcess(SERVER, 30 * GIB, appears_s=1)])  # fmt: skip
    made, _ = server(tmp_path / "2", clock, more=[grown])
    with pytest.raises(EnvironmentFault, match=r"GPU-b used 30\.0 GiB more"):
        made_ready(made, clock)


def test_memory_that_does_not_come_back_has_a_limit(tmp_path: Path, clock: Clock) -> None:
    made, told = server(tmp_path, clock, ours(ends_s=20, release_s=9999))
    made_ready(made, clock)
    clock.now = 40.0
    use = made.stop().gpu
    assert use is not None
    assert use.release_s is None
    assert clock.now == pytest.approx(40 + on_gpu.RELEASE_S, abs=1)
    assert "did not give the memory back within 60 s" in told[-1]
    assert "it was 0.5 GiB before" in told[-1]


def test_somebody_who_came_meanwhile_keeps_his_own(tmp_path: Path, clock: Clock) -> None:
    stranger = FakeProcess(1, 20 * GIB, appears_s=15)  # init: not below this process
    made, told = server(tmp_path, clock, ours(ends_s=30), stranger)
    made_ready(made, clock)
    clock.now = 45.0
    use = made.stop().gpu
    assert use is not None
    assert use.release_s is not None
    assert use.kept_by[0].startswith("pid 1 ")
    assert "somebody else, left alone: pid 1 " in told[-1]
    assert clock.now < 46


def test_a_card_that_is_lost_at_the_end(tmp_path: Path, clock: Clock) -> None:
    made, told = server(tmp_path, clock, ours())
    made_ready(made, clock)
    made._gpu.nvml._gpus[0].fault = "GPU is lost"
    assert made.stop().gpu.release_s is None
    assert "does not answer any more: GPU is lost" in told[-1]


def test_a_server_that_never_came_leaves_its_gpu_in_the_record(
    tmp_path: Path, clock: Clock
) -> None:
    made, _ = server(tmp_path, clock, ours(ends_s=3))
    made.start()
    clock.now += 10
    use = made.stop().gpu
    assert (use.memory_ready, use.pids_visible) == (None, None)
    assert use.release_s is not None
