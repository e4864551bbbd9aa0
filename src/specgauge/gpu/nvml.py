"""The real NVML, through nvidia-ml-py (``pynvml``)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

from specgauge.gpu.device import (
    Device,
    GpuProcess,
    Memory,
    Nvml,
    NvmlFault,
    NvmlUnavailable,
    Reading,
    Traits,
)

FAKE = "SPECGAUGE_FAKE_NVML"
"""Environment variable with planted GPUs (``gpu/fake.py``): for tests and for trying dashboards."""

T = TypeVar("T")


def open_nvml() -> Nvml:
    """NVML of this machine, or the planted one.

    Raises:
        NvmlUnavailable: no driver or library, or it cannot be initialised.
    """
    if planted := os.environ.get(FAKE):
        from specgauge.gpu.fake import FakeNvml

        return FakeNvml.from_json(planted)
    return RealNvml()


class RealNvml:
    """Implements ``device.Nvml``.  Handles are looked up by UUID each time: they survive a reset
    of another card, an index does not."""

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError:
            raise NvmlUnavailable("the package nvidia-ml-py is not installed") from None
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlUnavailable(f"NVML: {error}") from None

    def devices(self) -> list[Device]:
        """See ``device.Nvml``."""
        nvml = self._nvml
        count = self._ask(nvml.nvmlDeviceGetCount)
        return [self._device(index) for index in range(count)]

    def driver(self) -> str:
        """See ``device.Nvml``."""
        return _text(self._ask(self._nvml.nvmlSystemGetDriverVersion))

    def memory(self, device: Device) -> Memory:
        """See ``device.Nvml``."""
        return self._memory(self._handle(device))

    def processes(self, device: Device) -> list[GpuProcess]:
        """See ``device.Nvml``."""
        handle = self._handle(device)
        found: dict[int, GpuProcess] = {}
        lists = [
            self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle),
            self._ask(self._nvml.nvmlDeviceGetGraphicsRunningProcesses, handle),
            # Those that share the card through the Multi-Process Service are in neither.
            self._maybe(self._nvml.nvmlDeviceGetMPSComputeRunningProcesses, handle) or [],
        ]
        for items in lists:
            for item in items:
                used = item.usedGpuMemory
                found.setdefault(
                    item.pid, GpuProcess(item.pid, None if used is None else int(used))
                )
        return [found[pid] for pid in sorted(found)]

    def read(self, device: Device) -> Reading:
        """See ``device.Nvml``."""
        nvml, handle = self._nvml, self._handle(device)
        card = self._card(device, handle)
        whole = not device.is_instance
        power = self._maybe(nvml.nvmlDeviceGetPowerUsage, card) if whole else None
        energy = self._maybe(nvml.nvmlDeviceGetTotalEnergyConsumption, card) if whole else None
        rates = self._maybe(nvml.nvmlDeviceGetUtilizationRates, card) if whole else None
        memory: Memory | None = None
        with contextlib.suppress(NvmlFault):
            memory = self._memory(handle)
        return Reading(
            power_w=None if power is None else power / 1000,  # NVML: milliwatts
            energy_j=None if energy is None else energy / 1000,  # NVML: millijoules
            sm_clock_mhz=self._maybe(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._maybe(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_MEM),
            temperature_c=self._maybe(
                nvml.nvmlDeviceGetTemperature, card, nvml.NVML_TEMPERATURE_GPU
            ),
            utilisation=None if rates is None else rates.gpu / 100,  # NVML: percent
            throttle_reasons=self._throttle_reasons(card),
            memory=memory,
        )

    def traits(self, device: Device) -> Traits:
        """See ``device.Nvml``."""
        nvml = self._nvml
        card = self._card(device, self._handle(device))
        capability = self._maybe(nvml.nvmlDeviceGetCudaComputeCapability, card)
        limit = self._maybe(nvml.nvmlDeviceGetEnforcedPowerLimit, card)
        return Traits(
            compute_capability=None if capability is None else "{}.{}".format(*capability),
            power_limit_w=None if limit is None else limit / 1000,  # NVML: milliwatts
            max_sm_clock_mhz=self._maybe(nvml.nvmlDeviceGetMaxClockInfo, card, nvml.NVML_CLOCK_SM),
            max_memory_clock_mhz=self._maybe(
                nvml.nvmlDeviceGetMaxClockInfo, card, nvml.NVML_CLOCK_MEM
            ),
        )

    def _memory(self, handle: Any) -> Memory:
        """By the newer question, whose ``used`` leaves out what the driver reserves for itself (on
        some cards more than 1 GiB); older drivers know only the other."""
        question = self._nvml.nvmlDeviceGetMemoryInfo
        info = self._maybe(question, handle, self._nvml.nvmlMemory_v2)
        info = self._ask(question, handle) if info is None else info
        return Memory(total=int(info.total), used=int(info.used))

    def _throttle_reasons(self, card: Any) -> int | None:
        """Its newer name first: the old one is announced to go with CUDA 14."""
        for name in ("Event", "Throttle"):
            question = getattr(self._nvml, f"nvmlDeviceGetCurrentClocks{name}Reasons", None)
            if question is not None and (found := self._maybe(question, card)) is not None:
                return int(found)
        return None

    def _card(self, device: Device, handle: Any) -> Any:
        """The handle of the whole card: an instance's answers neither clocks nor temperature."""
        if not device.is_instance:
            return handle
        return self._ask(self._nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle)

    def _maybe(self, question: Callable[..., Any], *words: Any) -> Any:
        """None where the card cannot say."""
        with contextlib.suppress(NvmlFault):
            return self._ask(question, *words)
        return None

    def _device(self, index: int) -> Device:
        nvml = self._nvml
        handle = self._ask(nvml.nvmlDeviceGetHandleByIndex, index)
        mig, uuids = False, []
        with contextlib.suppress(NvmlFault):  # most cards cannot do MIG
            mig = self._ask(nvml.nvmlDeviceGetMigMode, handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
        if mig:
            for slot in range(self._ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle)):
                with contextlib.suppress(NvmlFault):  # an empty slot
                    part = self._ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot)
                    uuids.append(_text(self._ask(nvml.nvmlDeviceGetUUID, part)))
        return Device(
            index=index,
            uuid=_text(self._ask(nvml.nvmlDeviceGetUUID, handle)),
            pci_bus_id=_text(self._ask(nvml.nvmlDeviceGetPciInfo, handle).busId).lower(),
            name=_text(self._ask(nvml.nvmlDeviceGetName, handle)),
            mig=mig,
            mig_uuids=tuple(uuids),
        )

    def _handle(self, device: Device) -> Any:
        return self._ask(self._nvml.nvmlDeviceGetHandleByUUID, device.uuid.encode())

    def _ask(self, question: Callable[..., Any], *words: Any) -> Any:
        try:
            return question(*words)
        except (self._nvml.NVMLError, self._nvml.NVMLLibraryMismatchError) as error:
            raise NvmlFault(str(error)) from None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
