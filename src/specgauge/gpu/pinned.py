"""The GPU of a run: its host-wide lock, and waiting until nobody else is on it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from specgauge.errors import EnvironmentFault
from specgauge.gpu.device import Device, Nvml, NvmlFault
from specgauge.gpu.facts import facts
from specgauge.gpu.find import devices
from specgauge.gpu.lock import DeviceLock
from specgauge.gpu.occupancy import Occupancy, wait_free

TELL_EVERY_S = 60.0
"""While the same people stay: one line a minute."""

SETTLE_S = 5.0
"""Waited even by those who do not wait for others: the driver lists a process that has just ended
a moment longer."""


class Pinned:
    """One GPU, as chosen; every word about it goes to ``tell``."""

    def __init__(
        self,
        nvml: Nvml,
        device: Device,
        wait_s: float,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``wait_s``: how long to wait for others; 0 = not at all."""
        self._clock = clock
        self._sleep = sleep
        self.nvml = nvml
        self.device = device
        self.tell = tell
        self._wait_s = wait_s
        self._told: tuple[str, float] | None = None

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.device.name} at {self.device.pci_bus_id}"

    @property
    def env(self) -> dict[str, str]:
        """Variables of a server that is to see this GPU alone.

        (vLLM 0.26 to 0.32 takes a UUID: read in its source.  Some earlier ones took only numbers.)
        """
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": self.device.uuid}

    def facts(self) -> dict[str, Any]:
        """For the manifest."""
        return facts(self.nvml, self.device)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Its lock, shared by all users and both ways to run, and nobody on it when it begins.

        Raises:
            EnvironmentFault: somebody has it; it is left alone.
        """
        lock = DeviceLock(self.device.uuid)
        began = self._clock()
        if not lock.acquire(self._wait_s, lambda by: self._say(by, f"held by {by}", began)):
            raise EnvironmentFault(
                f"the GPU {self.words} is held by another specgauge ({lock.holder()}). "
                f"{self._remedy()}"
            )
        try:
            self.await_idle(self._clock() - began)
            yield
        finally:
            lock.release()

    def await_idle(self, waited_s: float = 0.0) -> int:
        """Return when nobody is on it: bytes that are in use then.

        Raises:
            EnvironmentFault: somebody is (named; nothing of theirs is touched), or the card does
                not answer.
        """
        began = self._clock() - waited_s
        limit = max(SETTLE_S, self._wait_s - waited_s)
        try:
            seen = wait_free(
                self.nvml,
                self.device,
                limit,
                lambda seen: self._say(_who(seen), seen.words(), began),
                self._clock,
                self._sleep,
            )
        except NvmlFault as fault:
            raise EnvironmentFault(f"the GPU {self.words}: NVML does not answer: {fault}") from None
        if not seen.free:
            raise EnvironmentFault(
                f"the GPU {self.words} is in use: {seen.words()}. Whoever it is, is left alone. "
                f"{self._remedy()}"
            )
        return seen.memory.used

    def levels(self) -> dict[str, int]:
        """Bytes in use on every card here and on this one, by UUID; a silent one is left out."""
        found: dict[str, int] = {}
        for device in (*devices(self.nvml), self.device):
            with contextlib.suppress(NvmlFault):
                found[device.uuid] = self.nvml.memory(device).used
        return found

    def _say(self, who: str, words: str, began: float) -> bool:
        if not self._wait_s:
            return True
        now = self._clock()
        if self._told is None or self._told[0] != who or now - self._told[1] >= TELL_EVERY_S:
            self._told = (who, now)
            waited, limit = (now - began) / 60, self._wait_s / 60
            self.tell(
                f"waiting for the GPU {self.words}, {waited:.1f} of at most {limit:g} min: {words}"
            )
        return True

    def _remedy(self) -> str:
        if self._wait_s:
            return f"--wait-gpu: it was not free within {self._wait_s / 60:g} min."
        return "Name another GPU with --gpu BUS_ID, or wait for this one with --wait-gpu MINUTES."


def _who(seen: Occupancy) -> str:
    """Stays the same while the same processes stay."""
    return " ".join(str(tenant.pid) for tenant in seen.tenants or ())
