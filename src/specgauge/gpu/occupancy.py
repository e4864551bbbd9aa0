"""Who is on a GPU, and waiting until it is free again.  Stdlib only."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specgauge.gpu.device import Device, Memory, Nvml, NvmlFault
from specgauge.serve.redact import strike_out_argv

FREE_AT_MOST = 2**30
"""A card counts as free below this many used bytes: older drivers count their own share with it,
some hundred MiB (H200: about 0.6 GiB); a CUDA context of somebody else takes as much again."""
POLL_S = 0.5

Owner = Literal["ours", "other", "unknown"]
_CONTAINER = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Tenant:
    """A process on the GPU and whose it is.  ``unknown``: this process may not look, or it had
    ended when it was looked up."""

    pid: int
    memory: int | None
    owner: Owner
    user: str | None = None
    command: str | None = None

    def words(self) -> str:
        """For people: ``pid 4711 of ann (python train.py), 12.0 GiB``."""
        who = f" of {self.user}" if self.user else ""
        what = f" ({self.command[:80]})" if self.command else ""
        size = f", {self.memory / 2**30:.1f} GiB" if self.memory is not None else ""
        return f"pid {self.pid}{who}{what}{size}"


@dataclass(frozen=True)
class Occupancy:
    """One look at who uses a GPU.  ``tenants`` None: the driver does not say."""

    memory: Memory
    tenants: tuple[Tenant, ...] | None

    @property
    def free(self) -> bool:
        """Nobody's memory is on it: judged by memory, since processes may be invisible here."""
        return not self.tenants and self.memory.used <= FREE_AT_MOST

    def words(self) -> str:
        """For people."""
        used = f"{self.memory.used / 2**30:.1f} of {self.memory.total / 2**30:.1f} GiB used"
        if self.tenants is None:
            return f"{used}, by whom cannot be told here"
        return f"{used}" + "".join(f"; {tenant.words()}" for tenant in self.tenants)


def look(nvml: Nvml, device: Device, ours: Callable[[int], Owner] | None = None) -> Occupancy:
    """Who is on ``device`` now.  Raises NvmlFault when the card does not answer at all."""
    memory = nvml.memory(device)
    try:
        processes = nvml.processes(device)
    except NvmlFault:
        return Occupancy(memory, None)
    judge = ours or (lambda pid: "unknown")
    tenants = (Tenant(p.pid, p.memory, judge(p.pid), *_who(p.pid)) for p in processes)
    return Occupancy(memory, tuple(tenants))


def wait_free(
    nvml: Nvml,
    device: Device,
    limit_s: float,
    on_wait: Callable[[Occupancy], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Occupancy:
    """Wait until ``device`` is free; memory comes back some seconds after a process has ended.

    Args:
        nvml: where to ask.
        device: which card.
        limit_s: how long at most.
        on_wait: told every look at a card that is not free; False ends the waiting.
        clock: for tests.
        sleep: for tests.

    Returns the last look: not ``free`` if the time ran out.  Raises NvmlFault.
    """
    deadline = clock() + limit_s
    while True:
        seen = look(nvml, device)
        if seen.free or clock() >= deadline or not on_wait(seen):
            return seen
        sleep(POLL_S)


def in_containers(ids: Collection[str], proc: Path = Path("/proc")) -> Callable[[int], Owner]:
    """A judge for ``look``: a process is ours if its cgroup is one of the containers ``ids``.

    An id may be shortened (a container's host name is its first 12 digits).  NVML gives host PIDs,
    so this needs the host's PID namespace; a PID that is not in ``proc`` is unknown.
    """

    def judge(pid: int) -> Owner:
        try:
            text = (proc / str(pid) / "cgroup").read_text(encoding="utf-8")
        except OSError:
            return "unknown"
        found = set(_CONTAINER.findall(text))
        if any(full.startswith(short) for full in found for short in ids if short):
            return "ours"
        return "other"

    return judge


def _who(pid: int) -> tuple[str | None, str | None]:
    user = command = None
    with contextlib.suppress(OSError):
        uid = os.stat(f"/proc/{pid}").st_uid
        user = str(uid)
        with contextlib.suppress(ImportError, KeyError):
            import pwd

            user = pwd.getpwuid(uid).pw_name
        raw = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        command = " ".join(strike_out_argv(raw.split("\0"))).strip()
    return user, command or None
