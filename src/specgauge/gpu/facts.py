"""What a manifest says of the GPU that the servers were given.  Stdlib only."""

from __future__ import annotations

import contextlib
from typing import Any

from specgauge.errors import SpecgaugeError
from specgauge.gpu.device import Device, Nvml, NvmlFault, NvmlUnavailable, Traits
from specgauge.gpu.find import by_uuid
from specgauge.gpu.nvml import open_nvml


def facts(nvml: Nvml, device: Device) -> dict[str, Any]:
    """Name, UUID, PCI bus ID, driver, memory, clocks and limits; null what the card does not tell.

    Of a MIG instance its own UUID and memory.
    """
    traits, total = Traits(None, None, None, None), None
    driver = None
    with contextlib.suppress(NvmlFault):
        driver = nvml.driver()
    with contextlib.suppress(NvmlFault):
        traits = nvml.traits(device)
    with contextlib.suppress(NvmlFault):
        total = nvml.memory(device).total
    return {
        "name": device.name,
        "uuid": device.uuid,
        "pci_bus_id": device.pci_bus_id,
        "mig": device.is_instance,
        "driver": driver,
        "memory_gib": None if total is None else round(total / 2**30, 1),
        "compute_capability": traits.compute_capability,
        "power_limit_w": traits.power_limit_w,
        "max_sm_clock_mhz": traits.max_sm_clock_mhz,
        "max_memory_clock_mhz": traits.max_memory_clock_mhz,
    }


def facts_of(uuid: str) -> dict[str, Any] | None:
    """``facts`` of the card or MIG instance ``uuid``; None where it cannot be asked."""
    try:
        nvml = open_nvml()
        return facts(nvml, by_uuid(nvml, uuid))
    except (NvmlUnavailable, NvmlFault, SpecgaugeError):
        return None
