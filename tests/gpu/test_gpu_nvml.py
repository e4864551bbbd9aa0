"""The real NVML's wrapper, over a stand-in for the module ``pynvml``."""

import importlib
import inspect
import re
import sys
import types

import pytest

from specgauge.gpu.device import Device, Memory, NvmlFault, NvmlUnavailable
from specgauge.gpu.nvml import RealNvml, open_nvml


class NVMLError(Exception):
    pass


class NVMLLibraryMismatchError(Exception):
    """As in pynvml: not an NVMLError."""


def unsupported(*words):
    raise NVMLError("Not Supported")


def module(**functions) -> types.ModuleType:
    made = types.ModuleType("pynvml")
    # Whatever is not planted is a question that this card cannot answer.
    made.__getattr__ = lambda name: unsupported
    made.NVMLError = NVMLError
    made.NVMLLibraryMismatchError = NVMLLibraryMismatchError
    made.NVML_CLOCK_SM, made.NVML_CLOCK_MEM, made.NVML_TEMPERATURE_GPU = 1, 2, 0
    made.NVML_DEVICE_MIG_ENABLE = 1
    made.nvmlMemory_v2 = 0x02000028
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
    assert reading.energy_j is None
    assert reading.throttle_reasons is None
    assert reading.memory is None


def test_energy_limits_and_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = real(
        monkeypatch,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: 1_234_500,
        nvmlDeviceGetEnforcedPowerLimit=lambda handle: 700_000,
        nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0),
        nvmlDeviceGetMaxClockInfo=lambda handle, which: {1: 1980, 2: 3201}[which],
    )
    (card,) = nvml.devices()
    assert nvml.read(card).energy_j == 1234.5
    traits = nvml.traits(card)
    assert (traits.compute_capability, traits.power_limit_w) == ("9.0", 700.0)
    assert (traits.max_sm_clock_mhz, traits.max_memory_clock_mhz) == (1980, 3201)


@pytest.mark.parametrize("name", ["Event", "Throttle"])
def test_throttle_reasons_by_either_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    asked = {f"nvmlDeviceGetCurrentClocks{name}Reasons": lambda handle: 0x44}
    nvml = real(monkeypatch, **asked)
    assert nvml.read(nvml.devices()[0]).throttle_reasons == 0x44


def test_an_instance_answers_for_its_memory_and_its_card_for_the_clocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = real(
        monkeypatch,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid.decode(),
        nvmlDeviceGetDeviceHandleFromMigDeviceHandle=lambda handle: f"card of {handle}",
        nvmlDeviceGetMemoryInfo=lambda handle, version: types.SimpleNamespace(
            total=20, used={"MIG-1": 7}[handle]
        ),
        nvmlDeviceGetClockInfo=lambda handle, which: {"card of MIG-1": 1980}[handle],
        nvmlDeviceGetPowerUsage=lambda handle: 300_000,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: 300_000,
    )
    reading = nvml.read(Device(0, "MIG-1", "00000000:c1:00.0", "NVIDIA H200", mig=True))
    assert (reading.sm_clock_mhz, reading.memory) == (1980, Memory(20, 7))
    # What the card draws is also other people's.
    assert (reading.power_w, reading.energy_j) == (None, None)


@pytest.mark.parametrize(("new_driver", "used"), [(True, 3), (False, 700)])
def test_what_the_driver_reserves_is_not_in_use_where_it_tells(
    monkeypatch: pytest.MonkeyPatch, new_driver: bool, used: int
) -> None:
    def info(handle, version=None):
        if version is not None and not new_driver:
            raise NVMLError("Function Not Found")
        return types.SimpleNamespace(total=1000, used=700 if version is None else 3)

    nvml = real(monkeypatch, nvmlDeviceGetMemoryInfo=info)
    (card,) = nvml.devices()
    assert nvml.memory(card) == nvml.read(card).memory == Memory(1000, used)


def test_a_library_that_lacks_a_function_is_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(handle):
        raise NVMLLibraryMismatchError("Unversioned function called")

    nvml = real(monkeypatch, nvmlDeviceGetComputeRunningProcesses=missing)
    with pytest.raises(NvmlFault, match="Unversioned"):
        nvml.processes(nvml.devices()[0])


def test_every_name_asked_for_is_one_of_the_installed_package() -> None:
    pynvml = importlib.import_module("pynvml")
    source = inspect.getsource(sys.modules[RealNvml.__module__])
    names = set(re.findall(r"nvml\.(nvml[A-Z]\w+|NVML\w+)", source))
    assert len(names) > 15
    assert [name for name in sorted(names) if not hasattr(pynvml, name)] == []


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
