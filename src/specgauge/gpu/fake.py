"""Planted GPUs: several cards, other people's processes, slow release, faults, MIG.  Stdlib only.

``SPECGAUGE_FAKE_NVML`` holds the JSON of ``FakeNvml.from_json`` (or the path of such a file), for
the tests of whole commands and for looking at the dashboards on a machine without a GPU.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specgauge.gpu.device import Device, GpuProcess, Memory, NvmlFault, NvmlUnavailable, Reading

_GIB = 2**30


@dataclass
class FakeProcess:
    """A process on a planted GPU from ``appears_s`` until ``ends_s`` after the first look."""

    pid: int
    memory: int | None = _GIB
    appears_s: float = 0.0
    ends_s: float | None = None
    release_s: float = 0.0
    """Its memory stays used this long after it ended, as a driver that tears down slowly."""


@dataclass
class FakeGpu:
    """One planted card."""

    uuid: str
    pci_bus_id: str
    name: str = "Planted GPU"
    total: int = 80 * _GIB
    base: int = _GIB // 2
    """Used by the driver itself, whoever is on it."""
    processes: list[FakeProcess] = field(default_factory=list)
    mig_uuids: list[str] = field(default_factory=list)
    mig: bool = False
    instance: bool = False
    """A MIG instance: asked about by its own UUID, listed only with its card's ``mig_uuids``."""
    fault: str | None = None
    """Every question about this card fails with this text."""
    processes_fault: str | None = None
    """Only the question who is on it fails (as without permission)."""
    throttle_reasons: int = 0


class FakeNvml:
    """Implements ``device.Nvml`` on planted cards; ``clock`` gives seconds."""

    def __init__(
        self,
        gpus: list[FakeGpu],
        driver: str = "999.99",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gpus = gpus
        self._driver = driver
        self._clock = clock
        self._began: float | None = None

    @classmethod
    def from_json(cls, text: str) -> FakeNvml:
        """``{"gpus": [{"uuid": …, "pci_bus_id": …, "processes": [{"pid": …}], …}]}``, or its path;
        ``{"unavailable": "why"}`` is a machine without NVML.

        Raises:
            NvmlUnavailable: as planted.
        """
        if not text.lstrip().startswith("{"):
            text = Path(text).read_text(encoding="utf-8")
        value: dict[str, Any] = json.loads(text)
        if "unavailable" in value:
            raise NvmlUnavailable(str(value["unavailable"]))
        gpus = []
        for item in value["gpus"]:
            processes = [FakeProcess(**process) for process in item.pop("processes", [])]
            gpus.append(FakeGpu(**item, processes=processes))
        return cls(gpus)

    def devices(self) -> list[Device]:
        """See ``device.Nvml``."""
        return [
            Device(n, gpu.uuid, gpu.pci_bus_id.lower(), gpu.name, gpu.mig, tuple(gpu.mig_uuids))
            for n, gpu in enumerate(g for g in self._gpus if not g.instance)
        ]

    def driver(self) -> str:
        """See ``device.Nvml``."""
        return self._driver

    def memory(self, device: Device) -> Memory:
        """See ``device.Nvml``."""
        gpu, now = self._gpu(device), self._now()
        used = gpu.base
        for process in gpu.processes:
            gone = process.ends_s is not None and now >= process.ends_s + process.release_s
            if process.appears_s <= now and not gone:
                used += process.memory or 0
        return Memory(gpu.total, used)

    def processes(self, device: Device) -> list[GpuProcess]:
        """See ``device.Nvml``."""
        gpu, now = self._gpu(device), self._now()
        if gpu.processes_fault is not None:
            raise NvmlFault(gpu.processes_fault)
        return [
            GpuProcess(process.pid, process.memory)
            for process in gpu.processes
            if process.appears_s <= now and (process.ends_s is None or now < process.ends_s)
        ]

    def read(self, device: Device) -> Reading:
        """See ``device.Nvml``: a card at 300 W that swings a little, so that graphs move."""
        gpu = self._gpu(device)
        swing = self._now() % 10
        return Reading(
            power_w=300.0 + swing,
            sm_clock_mhz=1980 - int(swing),
            memory_clock_mhz=2619,
            temperature_c=50 + int(swing / 5),
            utilisation=0.9,
            throttle_reasons=gpu.throttle_reasons,
            memory=self.memory(device),
        )

    def _gpu(self, device: Device) -> FakeGpu:
        for gpu in self._gpus:
            if gpu.uuid == device.uuid:
                if gpu.fault is not None:
                    raise NvmlFault(gpu.fault)
                return gpu
        raise NvmlFault("GPU is lost")

    def _now(self) -> float:
        now = self._clock()
        self._began = now if self._began is None else self._began
        return now - self._began
