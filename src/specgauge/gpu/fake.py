"""Planted GPUs: several cards, other people's processes, slow release, faults, MIG.  Stdlib only.

``SPECGAUGE_FAKE_NVML`` holds the JSON of ``FakeNvml.from_json`` (or the path of such a file, read
again whenever it changes), for the tests of whole commands and for looking at the dashboards on a
machine without a GPU.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specgauge.gpu.device import (
    Device,
    GpuProcess,
    Memory,
    NvmlFault,
    NvmlUnavailable,
    Reading,
    Traits,
)
from specgauge.gpu.fake_series import SWING, Series, integral, value_at
from specgauge.serve.tree import START_MARK

_GIB = 2**30
_SCAN_S = 0.3
"""The planted cards look this seldom at which servers live."""


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
    """One planted card.  A ``Series`` is a number, steps in time, or None: the card cannot tell."""

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
    throttle_reasons: Series = 0
    power_w: Series = SWING
    sm_clock_mhz: Series = 1980
    memory_clock_mhz: Series = 2619
    temperature_c: Series = 50
    utilisation: Series = 0.9
    energy: bool = True
    """It has an energy counter (the integral of its power)."""
    serves: str | None = None
    """On this card is every server of specgauge whose CUDA_VISIBLE_DEVICES names this UUID; None:
    the card's own.  Another's: the server is on the wrong card."""
    server_memory: int = 10 * _GIB
    server_release_s: float = 0.0
    """A server's memory stays used this long after it ended."""
    hide_pids: int = 0
    """Added to every PID: numbers that this system does not know, as inside a container."""


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
        self._file: Path | None = None
        self._stamp: tuple[int, int] | None = None
        self._lost: str | None = None
        self._scanned: tuple[float, dict[int, str]] | None = None
        self._counters: dict[str, tuple[float, float]] = {}
        """UUID → when its energy was last asked for, and what it was."""
        self._served: dict[str, dict[int, float | None]] = {}
        """UUID → servers seen on it → when each was first missed."""

    @classmethod
    def from_json(cls, text: str) -> FakeNvml:
        """``{"gpus": [{"uuid": …, "pci_bus_id": …, "processes": [{"pid": …}], …}]}``, or its path;
        ``{"unavailable": "why"}`` is a machine without NVML.

        Raises:
            NvmlUnavailable: as planted.
        """
        made = cls([])
        if not text.lstrip().startswith("{"):
            made._file = Path(text)
            made._stamp = _stamp(made._file)
            text = made._file.read_text(encoding="utf-8")
        made._plant(json.loads(text))
        if made._lost is not None:
            raise NvmlUnavailable(made._lost)
        return made

    def devices(self) -> list[Device]:
        """See ``device.Nvml``."""
        self._refresh()
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
        self._servers(gpu)
        for missed in self._served.get(gpu.uuid, {}).values():
            if missed is None or self._clock() < missed + gpu.server_release_s:
                used += gpu.server_memory
        return Memory(gpu.total, used)

    def processes(self, device: Device) -> list[GpuProcess]:
        """See ``device.Nvml``."""
        gpu, now = self._gpu(device), self._now()
        if gpu.processes_fault is not None:
            raise NvmlFault(gpu.processes_fault)
        found = [
            (process.pid, process.memory)
            for process in gpu.processes
            if process.appears_s <= now and (process.ends_s is None or now < process.ends_s)
        ]
        found += [(pid, gpu.server_memory) for pid in self._servers(gpu)]
        return [GpuProcess(pid + gpu.hide_pids, memory) for pid, memory in found]

    def read(self, device: Device) -> Reading:
        """See ``device.Nvml``."""
        gpu, t = self._gpu(device), self._now()
        clock, memory_clock = value_at(gpu.sm_clock_mhz, t), value_at(gpu.memory_clock_mhz, t)
        temperature, reasons = value_at(gpu.temperature_c, t), value_at(gpu.throttle_reasons, t)
        return Reading(
            power_w=value_at(gpu.power_w, t),
            energy_j=self._energy(gpu, t),
            sm_clock_mhz=None if clock is None else int(clock),
            memory_clock_mhz=None if memory_clock is None else int(memory_clock),
            temperature_c=None if temperature is None else int(temperature),
            utilisation=value_at(gpu.utilisation, t),
            throttle_reasons=None if reasons is None else int(reasons),
            memory=self.memory(device),
        )

    def traits(self, device: Device) -> Traits:
        """See ``device.Nvml``."""
        self._gpu(device)
        return Traits("9.0", 700.0, 1980, 2619)

    def _energy(self, gpu: FakeGpu, t: float) -> float | None:
        """Its counter: what was added since the last look, so that it never falls."""
        since, joules = self._counters.get(gpu.uuid, (t, 1000.0))
        end, begin = integral(gpu.power_w, t), integral(gpu.power_w, since)
        if not gpu.energy or end is None or begin is None:
            return None
        self._counters[gpu.uuid] = (t, joules + end - begin)
        return joules + end - begin

    def _plant(self, value: dict[str, Any]) -> None:
        self._lost = str(value["unavailable"]) if "unavailable" in value else None
        self._gpus = []
        for item in value.get("gpus", []):
            processes = [FakeProcess(**process) for process in item.pop("processes", [])]
            self._gpus.append(FakeGpu(**item, processes=processes))

    def _refresh(self) -> None:
        """Read the file again if it changed.  Raises NvmlFault: it says that NVML is gone."""
        if self._file is not None and (stamp := _stamp(self._file)) != self._stamp:
            with contextlib.suppress(OSError, ValueError):  # being written just now
                self._plant(json.loads(self._file.read_text(encoding="utf-8")))
                self._stamp = stamp
        if self._lost is not None:
            raise NvmlFault(self._lost)

    def _gpu(self, device: Device) -> FakeGpu:
        self._refresh()
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

    def _servers(self, gpu: FakeGpu) -> list[int]:
        """Living servers on it; keeps book of those that have gone."""
        now = self._clock()
        if self._scanned is None or not 0 <= now - self._scanned[0] < _SCAN_S:
            self._scanned = (now, _pinned())
        wanted = gpu.serves or gpu.uuid
        alive = [pid for pid, uuid in self._scanned[1].items() if uuid == wanted]
        seen = self._served.setdefault(gpu.uuid, {})
        seen.update(dict.fromkeys(alive))
        for pid, missed in seen.items():
            if pid not in alive and missed is None:
                seen[pid] = now
        return alive


def _stamp(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        seen = path.stat()
        return seen.st_mtime_ns, seen.st_size
    return None


def _pinned() -> dict[int, str]:
    """PID → CUDA_VISIBLE_DEVICES of every server of specgauge that lives now."""
    found = {}
    mark, pin = f"{START_MARK}=".encode(), b"CUDA_VISIBLE_DEVICES="
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            pinned = next((w.removeprefix(pin) for w in words if w.startswith(pin)), None)
            if pinned and any(word.startswith(mark) for word in words):
                found[int(entry)] = pinned.decode()
    return found
