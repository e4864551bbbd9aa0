"""GPU metrics for Prometheus: power, clocks, temperature, memory, and whose processes are on it.

``python -m specgauge.gpu.exporter``.  Environment: ``GPU_UUID`` (only this card, and a MIG
instance's card; all if empty), ``SPECGAUGE_CONTROL`` (where the vLLM containers of this stack say
who they are).  A value that a card does not tell is absent, never 0.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from specgauge.gpu.device import Device, Nvml, NvmlFault, NvmlUnavailable, Traits
from specgauge.gpu.nvml import open_nvml
from specgauge.gpu.occupancy import in_containers, look
from specgauge.serve.control import FOLDER, Control

PORT = 9400
_LABELS = ("uuid", "pci_bus_id", "name")
_OWNERS = ("ours", "other", "unknown")


class GpuCollector(Collector):
    """Asks NVML at each scrape; a card that does not answer has ``specgauge_gpu_up`` 0."""

    def __init__(self, nvml: Nvml, uuid: str, control: Path | None, proc: Path) -> None:
        self._nvml = nvml
        self._uuid = uuid
        self._control = control
        self._proc = proc

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """All families, each with one sample a card (and owner)."""
        families = _families()
        with contextlib.suppress(NvmlFault):
            for device in self._nvml.devices():
                if not self._uuid or self._uuid in (device.uuid, *device.mig_uuids):
                    self._one(device, families)
        return families.values()

    def _one(self, device: Device, families: dict[str, GaugeMetricFamily]) -> None:
        labels = [device.uuid, device.pci_bus_id, device.name]
        try:
            reading = self._nvml.read(device)
        except NvmlFault:
            families["up"].add_metric(labels, 0)
            return
        families["up"].add_metric(labels, 1)
        traits = self._about(device, labels, families["info"])
        memory = reading.memory
        values = {
            "power": reading.power_w,
            "energy": reading.energy_j,
            "sm_clock": _hertz(reading.sm_clock_mhz),
            "memory_clock": _hertz(reading.memory_clock_mhz),
            "temperature": reading.temperature_c,
            "utilisation": reading.utilisation,
            "throttle": reading.throttle_reasons,
            "memory_used": memory.used if memory else None,
            "memory_total": memory.total if memory else None,
            "power_limit": traits.power_limit_w,
            "sm_clock_max": _hertz(traits.max_sm_clock_mhz),
            "memory_clock_max": _hertz(traits.max_memory_clock_mhz),
        }
        for name, value in values.items():
            if value is not None:
                families[name].add_metric(labels, value)
        with contextlib.suppress(NvmlFault):
            # On a card in MIG mode are other people's instances too: only ours is looked at.
            part = device
            if self._uuid in device.mig_uuids:
                part = dataclasses.replace(device, uuid=self._uuid)
            seen = look(self._nvml, part, in_containers(list(self._containers()), self._proc))
            for owner in _OWNERS if seen.tenants is not None else ():
                count = sum(tenant.owner == owner for tenant in seen.tenants or ())
                families["processes"].add_metric([*labels, owner], count)

    def _about(self, device: Device, labels: list[str], info: GaugeMetricFamily) -> Traits:
        """What stays the same about it: the words into ``info``, the numbers returned."""
        traits, driver = Traits(None, None, None, None), ""
        with contextlib.suppress(NvmlFault):
            traits = self._nvml.traits(device)
        with contextlib.suppress(NvmlFault):
            driver = self._nvml.driver()
        instance = self._uuid if self._uuid in device.mig_uuids else ""
        info.add_metric([*labels, driver, traits.compute_capability or "", instance], 1)
        return traits

    def _containers(self) -> Iterator[str]:
        """Ids of this stack's vLLM containers that live now."""
        if self._control is None:
            return
        for folder in self._control.glob("*"):
            runner = Control(folder).runner() if folder.is_dir() else None
            if runner is not None:
                yield str(runner["container"])


def _hertz(megahertz: int | None) -> float | None:
    return None if megahertz is None else megahertz * 1e6


def _families() -> dict[str, GaugeMetricFamily]:
    def gauge(name: str, text: str, labels: tuple[str, ...] = _LABELS) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"specgauge_gpu_{name}", text, labels=labels)

    return {
        "up": gauge("up", "1 if NVML answers about this card"),
        "info": gauge(
            "info",
            "1; driver, compute capability and the pinned MIG instance, if any, as labels",
            (*_LABELS, "driver", "compute_capability", "instance"),
        ),
        "power_limit": gauge("power_limit_watts", "Power limit in force"),
        "sm_clock_max": gauge("sm_clock_max_hertz", "Highest clock of the multiprocessors"),
        "memory_clock_max": gauge("memory_clock_max_hertz", "Highest clock of the memory"),
        "power": gauge("power_watts", "Power drawn"),
        "energy": gauge(
            "energy_joules", "The card's own energy counter, since its driver was loaded"
        ),
        "sm_clock": gauge("sm_clock_hertz", "Clock of the multiprocessors"),
        "memory_clock": gauge("memory_clock_hertz", "Clock of the memory"),
        "temperature": gauge("temperature_celsius", "Temperature of the chip"),
        "utilisation": gauge("utilisation_ratio", "Share of time in which a kernel ran, 0 to 1"),
        "throttle": gauge("throttle_reasons", "NVML's bit mask of clock throttle reasons"),
        "memory_used": gauge("memory_used_bytes", "Memory in use, whoever uses it"),
        "memory_total": gauge("memory_total_bytes", "Memory of the card"),
        "processes": gauge(
            "processes",
            "Processes on the card: ours (this stack's vLLM containers), other, or unknown",
            (*_LABELS, "owner"),
        ),
    }


def main() -> int:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="specgauge.gpu.exporter")
    parser.add_argument("--port", type=int, default=PORT)
    port = parser.parse_args().port
    try:
        nvml = open_nvml()
    except NvmlUnavailable as error:
        print(f"specgauge: no GPU metrics: {error}", file=sys.stderr)
        return 5
    control = os.environ.get(FOLDER)
    registry = CollectorRegistry()
    registry.register(
        GpuCollector(
            nvml,
            os.environ.get("GPU_UUID", ""),
            Path(control) if control else None,
            Path("/proc"),
        )
    )
    start_http_server(port, registry=registry)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
