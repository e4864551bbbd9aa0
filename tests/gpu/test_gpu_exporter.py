"""What the exporter tells of planted cards."""

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from specgauge.gpu.exported import facts_in, gpu_of_stack
from specgauge.gpu.exporter import GpuCollector
from specgauge.gpu.facts import facts
from specgauge.gpu.fake import FakeGpu, FakeNvml, FakeProcess
from specgauge.serve.control import Control, hold

ID = "c" * 64


def registry(nvml: FakeNvml, uuid: str, control: Path | None, proc: Path) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(GpuCollector(nvml, uuid, control, proc))
    return made


def value(made: CollectorRegistry, name: str, uuid: str, **labels: str) -> float | None:
    bus = {"GPU-a": "00000000:41:00.0", "GPU-b": "00000000:c1:00.0"}[uuid]
    full = {"uuid": uuid, "pci_bus_id": bus, "name": "Planted GPU", **labels}
    return made.get_sample_value(f"specgauge_gpu_{name}", full)


def test_only_the_pinned_card(tmp_path: Path) -> None:
    cards = [FakeGpu("GPU-a", "00000000:41:00.0"), FakeGpu("GPU-b", "00000000:c1:00.0")]
    made = registry(FakeNvml(cards), "GPU-b", None, tmp_path)
    assert value(made, "up", "GPU-b") == 1
    assert value(made, "up", "GPU-a") is None
    everything = registry(FakeNvml(cards), "", None, tmp_path)
    assert value(everything, "up", "GPU-a") == 1


def test_lost_card_is_down_and_has_no_other_value(tmp_path: Path) -> None:
    cards = [FakeGpu("GPU-a", "00000000:41:00.0", fault="GPU is lost")]
    made = registry(FakeNvml(cards), "GPU-a", None, tmp_path)
    assert value(made, "up", "GPU-a") == 0
    assert value(made, "power_watts", "GPU-a") is None
    assert value(made, "processes", "GPU-a", owner="other") is None


def test_processes_by_owner(tmp_path: Path) -> None:
    control = Control(tmp_path / "control" / "ngram")
    control.clear()
    lock = hold(control.runner_lock)
    control.announce({"container": ID[:12]})
    for pid, text in ((10, f"0::/docker/{ID}\n"), (11, "0::/user.slice\n")):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "cgroup").write_text(text)
    processes = [FakeProcess(10), FakeProcess(11), FakeProcess(12)]
    cards = [FakeGpu("GPU-a", "00000000:41:00.0", processes=processes)]
    made = registry(FakeNvml(cards), "GPU-a", control.folder.parent, tmp_path / "proc")
    owners = ("ours", "other", "unknown")
    assert lock is not None
    assert [value(made, "processes", "GPU-a", owner=o) for o in owners] == [1, 1, 1]


def test_hidden_processes_are_not_zero(tmp_path: Path) -> None:
    cards = [FakeGpu("GPU-a", "00000000:41:00.0", processes_fault="Insufficient Permissions")]
    made = registry(FakeNvml(cards), "GPU-a", None, tmp_path)
    assert value(made, "processes", "GPU-a", owner="other") is None
    assert value(made, "memory_used_bytes", "GPU-a") == 2**29


def test_what_the_stack_learns_of_its_card(tmp_path: Path) -> None:
    """The facts by way of the exporter are those that NVML itself gives."""
    nvml = FakeNvml([FakeGpu("GPU-a", "00000000:41:00.0")])
    text = generate_latest(registry(nvml, "GPU-a", None, tmp_path)).decode()
    assert facts_in(text) == facts(nvml, nvml.devices()[0])
    assert facts_in("") is None
    assert facts_in("{") is None


def test_a_mig_instance_and_only_its_tenants(tmp_path: Path) -> None:
    own = FakeProcess(10)
    cards = [
        FakeGpu("GPU-a", "00000000:41:00.0", mig=True, mig_uuids=["MIG-1", "MIG-2"],
                processes=[own, FakeProcess(11)]),
        FakeGpu("MIG-1", "00000000:41:00.0", instance=True, processes=[own]),
    ]  # fmt: skip
    made = registry(FakeNvml(cards), "MIG-1", None, tmp_path)
    assert value(made, "processes", "GPU-a", owner="unknown") == 1
    found = facts_in(generate_latest(made).decode())
    assert found is not None
    assert (found["uuid"], found["mig"], found["memory_gib"]) == ("MIG-1", True, None)


def test_a_stack_without_a_gpu_asks_nobody_and_a_silent_exporter_has_a_limit() -> None:
    waited: list[float] = []
    nowhere = {"SPECGAUGE_GPU_METRICS": "http://127.0.0.1:9/metrics"}
    assert gpu_of_stack([], nowhere, sleep=waited.append) is None
    assert gpu_of_stack(None, nowhere, sleep=waited.append) is None
    assert waited == []
    looks = iter([0.0, 4.0, 14.0])  # each question takes a while of the ten seconds
    found = gpu_of_stack(["NVIDIA H200"], nowhere, clock=lambda: next(looks), sleep=waited.append)
    assert found == {"name": "NVIDIA H200", "uuid": None, "pci_bus_id": None}
    assert waited == [0.5]
