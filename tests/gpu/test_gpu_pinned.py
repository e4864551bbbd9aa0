"""The run's GPU: locked, waited for, its facts; and a server's own memory on it."""

import os
from pathlib import Path

import pytest

from specgauge.errors import EnvironmentFault
from specgauge.gpu.facts import facts_of
from specgauge.gpu.fake import FakeGpu, FakeNvml, FakeProcess
from specgauge.gpu.lock import DeviceLock
from specgauge.gpu.pinned import Pinned

GIB = 2**30


class Clock:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clock:
    monkeypatch.setenv("SPECGAUGE_LOCKS", str(tmp_path / "locks"))
    return Clock()


def pinned(clock: Clock, *processes: FakeProcess, wait_s: float = 0.0, **gpu):
    told: list[str] = []
    card = FakeGpu("GPU-a", "00000000:41:00.0", processes=list(processes), **gpu)
    nvml = FakeNvml([card], clock=clock)
    return Pinned(nvml, nvml.devices()[0], wait_s, told.append, clock, clock.sleep), told


def test_a_free_card_is_held_against_other_runs(clock: Clock) -> None:
    gpu, told = pinned(clock)
    other = DeviceLock("GPU-a")
    with gpu.hold():
        assert not other.acquire(0, lambda by: True)
    assert other.acquire(0, lambda by: True)
    other.release()
    assert told == []


def test_a_card_that_another_run_holds_names_it(clock: Clock) -> None:
    other = DeviceLock("GPU-a")
    other.acquire(0, lambda by: True, "ann, pid 4711")
    gpu, _ = pinned(clock)
    with pytest.raises(EnvironmentFault, match=r"ann, pid 4711.*--wait-gpu MINUTES"), gpu.hold():
        pass
    other.release()


def test_a_busy_card_names_who_is_on_it_and_gives_the_lock_back(clock: Clock) -> None:
    gpu, _ = pinned(clock, FakeProcess(os.getpid(), 70 * GIB))
    with pytest.raises(EnvironmentFault) as caught, gpu.hold():
        pass
    for part in (f"pid {os.getpid()}", "70.0 GiB", "left alone", "--gpu BUS_ID"):
        assert part in str(caught.value)
    assert clock.now <= 56
    free = DeviceLock("GPU-a")
    assert free.acquire(0, lambda by: True)
    free.release()


def test_somebody_who_is_just_leaving_is_no_reason_to_give_up(clock: Clock) -> None:
    gpu, told = pinned(clock, FakeProcess(4_711_000, 10 * GIB, ends_s=1, release_s=2))
    with gpu.hold():
        assert clock.now == pytest.approx(53, abs=0.6)
    assert told == []


def test_waiting_tells_who_is_on_it_once_a_minute_and_goes_on(clock: Clock) -> None:
    gpu, told = pinned(clock, FakeProcess(4_711_000, 70 * GIB, ends_s=150), wait_s=600)
    with gpu.hold():
        assert clock.now == pytest.approx(200, abs=1)
    assert len(told) == 3
    assert "0.0 of at most 10 min" in told[0]
    assert "pid 4711000" in told[0]
    assert "2.0 of at most 10 min" in told[2]


def test_waiting_tells_at_once_when_somebody_else_comes(clock: Clock) -> None:
    first = FakeProcess(4_711_000, 10 * GIB, ends_s=10)
    second = FakeProcess(4_712_000, 10 * GIB, appears_s=5, ends_s=20)
    gpu, told = pinned(clock, first, second, wait_s=600)
    with gpu.hold():
        pass
    assert [("4711000" in t, "4712000" in t) for t in told] == [
        (True, False),
        (True, True),
        (False, True),
    ]


def test_waiting_has_a_limit(clock: Clock) -> None:
    gpu, _ = pinned(clock, FakeProcess(4_711_000, 70 * GIB), wait_s=120)
    with pytest.raises(EnvironmentFault, match="not free within 2 min"), gpu.hold():
        pass
    assert clock.now == pytest.approx(170, abs=1)  # not SETTLE_S longer


def test_a_card_that_does_not_answer(clock: Clock) -> None:
    gpu, _ = pinned(clock, fault="GPU is lost")
    with pytest.raises(EnvironmentFault, match="GPU is lost"), gpu.hold():
        pass


def test_facts_for_the_manifest(clock: Clock) -> None:
    gpu, _ = pinned(clock)
    facts = gpu.facts()
    assert (facts["uuid"], facts["pci_bus_id"]) == ("GPU-a", "00000000:41:00.0")
    assert (facts["driver"], facts["memory_gib"], facts["power_limit_w"]) == ("999.99", 80.0, 700.0)
    assert facts["compute_capability"] == "9.0"
    silent, _ = pinned(clock, fault="GPU is lost")
    assert silent.facts()["memory_gib"] is None


def test_facts_by_uuid_for_who_only_knows_that(monkeypatch: pytest.MonkeyPatch) -> None:
    card = (
        '{"uuid": "GPU-a", "pci_bus_id": "00000000:41:00.0", "mig_uuids": ["MIG-1"], "mig": true}'
    )
    part = (
        '{"uuid": "MIG-1", "pci_bus_id": "00000000:41:00.0", "instance": true, "total": 1073741824}'
    )
    monkeypatch.setenv("SPECGAUGE_FAKE_NVML", f'{{"gpus": [{card}, {part}]}}')
    whole, instance = facts_of("GPU-a"), facts_of("MIG-1")
    assert whole is not None
    assert instance is not None
    assert (whole["mig"], instance["mig"]) == (False, True)
    assert (whole["memory_gib"], instance["memory_gib"]) == (80.0, 1.0)
    assert facts_of("GPU-b") is None
