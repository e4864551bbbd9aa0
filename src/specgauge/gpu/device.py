"""What specgauge asks of NVML, as a small protocol, so that tests can plant GPUs.  Stdlib only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class NvmlUnavailable(Exception):
    """No NVML here: no driver, no library, or no permission.  The text says which."""


class NvmlFault(Exception):
    """One question that NVML could not answer (not supported on this card, card lost, …)."""


@dataclass(frozen=True)
class Device:
    """One GPU, or one MIG instance of a GPU, as NVML names it."""

    index: int
    """NVML's index: its order is by PCI bus ID, CUDA's own is not unless it is told so."""
    uuid: str
    pci_bus_id: str
    """Domain, bus, device and function in NVML's long form: ``00000000:41:00.0``."""
    name: str
    mig: bool = False
    """MIG mode is on: the card as a whole cannot be given to a container."""
    mig_uuids: tuple[str, ...] = ()

    @property
    def is_instance(self) -> bool:
        """It stands for a MIG instance (``uuid`` is the instance's), not for a whole card."""
        return self.uuid.startswith("MIG-")


@dataclass(frozen=True)
class Memory:
    """Bytes of a GPU's memory."""

    total: int
    used: int


@dataclass(frozen=True)
class GpuProcess:
    """A process that NVML sees on a GPU."""

    pid: int
    """On the host: a container without ``pid: host`` cannot look it up."""
    memory: int | None
    """Bytes, None where the driver does not tell (always so inside some containers)."""


@dataclass(frozen=True)
class Reading:
    """One look at a GPU.  None: the card does not tell."""

    power_w: float | None
    """Drawn now; cards since Ampere give the mean of the last second (NVML's documentation)."""
    energy_j: float | None
    """The card's own counter since its driver was loaded; only differences mean something."""
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    temperature_c: int | None
    utilisation: float | None
    """Share of the last sampling period in which a kernel ran, 0 to 1."""
    throttle_reasons: int | None
    """NVML's bit mask of why the clocks are not at their highest (``throttle.py``)."""
    memory: Memory | None


@dataclass(frozen=True)
class Traits:
    """What stays the same about a GPU.  None: the card does not tell."""

    compute_capability: str | None
    """``9.0``: kernels are built for it as ``sm_90``."""
    power_limit_w: float | None
    """The limit in force, whoever set it."""
    max_sm_clock_mhz: int | None
    max_memory_clock_mhz: int | None


class Nvml(Protocol):
    """The questions.  Each may raise ``NvmlFault``; a device can vanish between two of them."""

    def devices(self) -> list[Device]:
        """All GPUs that this process may see, by index."""

    def driver(self) -> str:
        """The driver's version."""

    def memory(self, device: Device) -> Memory:
        """How full it is."""

    def processes(self, device: Device) -> list[GpuProcess]:
        """Compute and graphics processes on it, each once."""

    def read(self, device: Device) -> Reading:
        """Power, energy, clocks, temperature and memory.

        Of a MIG instance only its memory, and the clocks that it shares with its card: what the
        card draws is also other people's.
        """

    def traits(self, device: Device) -> Traits:
        """Its limits and its compute capability."""
