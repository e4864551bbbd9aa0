"""The real NVML's wrapper, over a stand-in for the module ``pynvml``."""

import sys
import types

import pytest

from specgauge.gpu.device import NvmlFault, NvmlUnavailable
from specgauge.gpu.nvml import RealNvml, open_nvml


class NVMLError(Exception):
    pass


def unsupported(*words):
    raise NVMLError("Not Supported")


def module(**functions) -> types.ModuleType:
    made = types.ModuleType("pynvml")
    # Whatever is not planted is a question that this card cannot answer.
    made.__getattr__ = lambda name: unsupported
    made.NVMLError = NVMLError
    made.NVML_CLOCK_SM, made.NVML_CLOCK_MEM, made.NVML_TEMPERATURE_GPU = 1, 2, 0
    made.NVML_DEVICE_MIG_ENABLE = 1
    usual = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda n: "card",
        "nvmlDeviceGetHandleByUUID": lambda uuid: "card",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetPciInfo": lambda handle: types.SimpleNamespace(busId=b"00000000:C1:00.0"),
        "nvmlDeviceGetName": lambda handle: b"NVIDIA H200",
    }
    for name, function in {**usual, **functions}.items():
        setattr(made, name, function)
    return made


def real(monkeypatch: pytest.MonkeyPatch, **functions) -> RealNvml:
    monkeypatch.setitem(sys.modules, "pynvml", module(**functions))
    return RealNvml()


def test_card_without_mig(monkeypatch: pytest.MonkeyPatch) -> None:
    (card,) = real(monkeypatch).devices()
    assert (card.uuid, card.pci_bus_id, card.name) == (
        "GPU-card",
        "00000000:c1:00.0",
        "NVIDIA H200",
    )
    assert (card.mig, card.mig_uuids) == (False, ())


def test_mig_instances_empty_slots_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def slot(handle, n):
        if n == 1:
            raise NVMLError("Not Found")
        return f"mig{n}"

    nvml = real(
        monkeypatch,
        nvmlDeviceGetMigMode=lambda handle: (1, 1),
        nvmlDeviceGetMaxMigDeviceCount=lambda handle: 3,
        nvmlDeviceGetMigDeviceHandleByIndex=slot,
    )
    (card,) = nvml.devices()
    assert card.mig
    assert card.mig_uuids == ("GPU-mig0", "GPU-mig2")


def test_units_and_what_the_card_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = real(
        monkeypatch,
        nvmlDeviceGetPowerUsage=lambda handle: 312_500,
        nvmlDeviceGetClockInfo=lambda handle, which: {1: 1980, 2: 2619}[which],
        nvmlDeviceGetUtilizationRates=lambda handle: types.SimpleNamespace(gpu=97),
    )
    reading = nvml.read(nvml.devices()[0])
    assert (reading.power_w, reading.sm_clock_mhz, reading.utilisation) == (312.5, 1980, 0.97)
    assert reading.temperature_c is None
    assert reading.memory is None


def test_process_in_both_lists_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    process = types.SimpleNamespace(pid=7, usedGpuMemory=None)
    nvml = real(
        monkeypatch,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [process],
        nvmlDeviceGetGraphicsRunningProcesses=lambda handle: [process],
    )
    (found,) = nvml.processes(nvml.devices()[0])
    assert (found.pid, found.memory) == (7, None)


def test_faults_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = real(monkeypatch)
    with pytest.raises(NvmlFault, match="Not Supported"):
        nvml.memory(nvml.devices()[0])

    def broken():
        raise NVMLError("Driver Not Loaded")

    with pytest.raises(NvmlUnavailable, match="Driver Not Loaded"):
        real(monkeypatch, nvmlInit=broken)


def test_planted_cards_take_the_place_of_the_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = '{"gpus": [{"uuid": "GPU-x", "pci_bus_id": "00000000:01:00.0"}]}'
    monkeypatch.setenv("SPECGAUGE_FAKE_NVML", planted)
    assert [d.uuid for d in open_nvml().devices()] == ["GPU-x"]
    monkeypatch.setenv("SPECGAUGE_FAKE_NVML", '{"unavailable": "no driver"}')
    with pytest.raises(NvmlUnavailable, match="no driver"):
        open_nvml()
