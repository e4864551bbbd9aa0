"""Who is on a GPU, and waiting for it."""

from pathlib import Path

import pytest

from specgauge.gpu.device import NvmlFault
from specgauge.gpu.fake import FakeGpu, FakeNvml, FakeProcess
from specgauge.gpu.occupancy import in_containers, look, wait_free

GIB = 2**30
OURS = "a" * 64
OTHER = "b" * 64


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def planted(*processes: FakeProcess, **gpu) -> tuple[FakeNvml, Clock]:
    clock = Clock()
    card = FakeGpu("GPU-a", "00000000:41:00.0", processes=list(processes), **gpu)
    return FakeNvml([card], clock=clock), clock


def wait(nvml: FakeNvml, clock: Clock, limit_s: float, patient: bool = True):
    seen = []

    def on_wait(occupancy) -> bool:
        seen.append(occupancy)
        return patient

    (device,) = nvml.devices()
    return wait_free(nvml, device, limit_s, on_wait, clock, clock.sleep), seen


def test_empty_card_is_free_although_the_driver_uses_some() -> None:
    nvml, clock = planted()
    last, seen = wait(nvml, clock, 10)
    assert last.free
    assert seen == []


def test_memory_comes_back_some_time_after_the_process_ended() -> None:
    nvml, clock = planted(FakeProcess(1, 70 * GIB, ends_s=2, release_s=3))
    last, seen = wait(nvml, clock, 60)
    assert last.free
    assert clock.now == pytest.approx(105, abs=0.6)
    # Nobody on it any more, and still not free: judged by memory.
    assert any(not o.tenants and not o.free for o in seen)


def test_time_runs_out_on_somebody_who_stays() -> None:
    nvml, clock = planted(FakeProcess(4711, 70 * GIB))
    last, _ = wait(nvml, clock, 5)
    assert not last.free
    assert "pid 4711" in last.words()
    assert "70.0 GiB" in last.words()


def test_waiting_can_be_given_up() -> None:
    nvml, clock = planted(FakeProcess(4711, 70 * GIB))
    _, seen = wait(nvml, clock, 1000, patient=False)
    assert len(seen) == 1


def test_process_without_memory_figure_still_counts() -> None:
    nvml, _ = planted(FakeProcess(4711, None))
    seen = look(nvml, nvml.devices()[0])
    assert not seen.free
    assert seen.tenants is not None
    assert seen.tenants[0].memory is None


def test_hidden_processes_leave_memory_as_the_judge() -> None:
    nvml, _ = planted(FakeProcess(1, 70 * GIB), processes_fault="Insufficient Permissions")
    seen = look(nvml, nvml.devices()[0])
    assert seen.tenants is None
    assert not seen.free
    assert "cannot be told" in seen.words()


def test_lost_card_is_an_error_not_a_free_card() -> None:
    nvml, _ = planted(fault="GPU is lost")
    with pytest.raises(NvmlFault, match="lost"):
        look(nvml, nvml.devices()[0])


def proc(tmp_path: Path, **groups: str) -> Path:
    for pid, text in groups.items():
        (tmp_path / pid[1:]).mkdir()
        (tmp_path / pid[1:] / "cgroup").write_text(text)
    return tmp_path


def test_owner_by_control_group(tmp_path: Path) -> None:
    root = proc(
        tmp_path,
        _10=f"12:memory:/docker/{OURS}\n1:name=systemd:/docker/{OURS}\n",
        _11=f"0::/../docker-{OURS}.scope\n",
        _12=f"0::/docker/{OTHER}\n",
        _13="0::/user.slice/session-1.scope\n",
    )
    judge = in_containers([OURS[:12]], root)
    # 99 has ended, or is in another PID namespace.
    assert [judge(p) for p in (10, 11, 12, 13, 99)] == ["ours", "ours", "other", "other", "unknown"]
    assert in_containers([], root)(10) == "other"
    assert in_containers([""], root)(10) == "other"
