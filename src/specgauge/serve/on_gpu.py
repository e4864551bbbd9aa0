"""A server on a GPU of this machine: is it really on it, and is the memory back after it?"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

from specgauge.errors import EnvironmentFault
from specgauge.gpu.device import NvmlFault
from specgauge.gpu.find import devices
from specgauge.gpu.occupancy import POLL_S, Occupancy, look
from specgauge.gpu.owners import Judge, of_server
from specgauge.gpu.pinned import Pinned
from specgauge.record.atomic import write_json
from specgauge.record.documents import GpuUse, Launch
from specgauge.serve.local import LocalServer
from specgauge.serve.protocol import ServerSpec

VERIFY_S = 10.0
"""For NVML to show a server that has answered: it has allocated its memory long before."""
RISEN = 256 * 2**20
"""By at least so many bytes a card's memory rises with a server on it: a CUDA context alone takes
some 500 MiB of an H200."""
TOLERANCE = 256 * 2**20
"""The memory is back when so many bytes more than before are used: less than anybody's CUDA
context, more than the tens of MiB by which the driver's own share moves."""
RELEASE_S = 60.0
"""For the driver to give the memory back: it takes seconds; later, something holds it."""


class OnGpu:
    """Implements ``protocol.Server``: ``serve/local.py`` on the run's GPU."""

    def __init__(self, spec: ServerSpec, gpu: Pinned) -> None:
        self._spec = dataclasses.replace(spec, env={**spec.env, **gpu.env})
        self._gpu = gpu
        self._server = LocalServer(self._spec)
        self._before: dict[str, int] = {}
        self._use: GpuUse | None = None
        self._stopped = False

    def start(self) -> None:
        """Launch it.  Raises EnvironmentFault when its port is taken or somebody is on the GPU."""
        try:
            used = self._gpu.await_idle()
        except EnvironmentFault as fault:
            text = f"{fault} What was measured is kept: the same command goes on from there."
            raise EnvironmentFault(text) from None
        self._before = {**self._gpu.levels(), self._gpu.device.uuid: used}
        device = self._gpu.device
        self._use = GpuUse(uuid=device.uuid, pci_bus_id=device.pci_bus_id, memory_before=used)
        self._server.start()

    def wait_ready(self, on_wait: Callable[[str], None]) -> None:
        """See ``protocol.Server``.

        Raises:
            EnvironmentFault: it is ready, and not on the GPU that was asked for.
            ServerDied: see ``protocol.Server``.
        """
        self._server.wait_ready(on_wait)
        on_wait("is it on the GPU?")
        self._verify()

    def death(self) -> str | None:
        """See ``protocol.Server``."""
        return self._server.death()

    def stop(self) -> Launch:
        """See ``protocol.Server``; returns when the driver reports the memory back, or says who
        keeps it."""
        launch = self._server.stop()
        if self._use is not None and not self._stopped:
            self._stopped = True
            self._await_release(self._use)
            self._record()
        return launch.model_copy(update={"gpu": self._use})

    @property
    def telemetry(self) -> tuple[str, dict[str, Any]]:
        """UUID and how to tell whose processes are on it (``gpu/telemetry.py``)."""
        visible = self._use is not None and self._use.pids_visible
        pid = self._server.runner_pid
        if not visible or pid is None:
            return self._gpu.device.uuid, {"blind": True}
        return self._gpu.device.uuid, {"root": pid, "id": self._spec.id}

    def _judge(self) -> Judge:
        return of_server(self._server.runner_pid or 0, self._spec.id)

    def _verify(self) -> None:
        assert self._use is not None
        device, judge = self._gpu.device, self._judge()
        deadline = time.monotonic() + VERIFY_S
        while True:
            try:
                seen = look(self._gpu.nvml, device, judge)
            except NvmlFault as fault:
                raise EnvironmentFault(
                    f"the GPU {self._gpu.words}: NVML does not answer: {fault}"
                ) from None
            if _ours(seen):
                self._use = self._use.model_copy(
                    update={"memory_ready": seen.memory.used, "pids_visible": True}
                )
                return
            if (other := self._elsewhere(judge)) is not None:
                raise EnvironmentFault(
                    f"the server is not on the GPU that it was given, {self._gpu.words}, but on "
                    f"{other}: something in its environment or arguments chooses another one"
                )
            risen = seen.memory.used - self._before[device.uuid]
            if risen >= RISEN:
                self._use = self._use.model_copy(
                    update={"memory_ready": seen.memory.used, "pids_visible": False}
                )
                self._gpu.tell(
                    f"NVML shows no process of this server by its number (in a container numbers "
                    f"differ): that it is on the GPU {self._gpu.words} is told by the memory used "
                    f"there, {risen / 2**30:.1f} GiB more than before"
                )
                return
            if time.monotonic() > deadline:
                raise EnvironmentFault(
                    f"the server is ready, and the GPU {self._gpu.words} shows neither a process "
                    f"of it nor more used memory ({self._grown()}). Is it a CPU build of vLLM? "
                    "Then give its model 'platform: cpu'."
                )
            time.sleep(POLL_S)

    def _elsewhere(self, judge: Judge) -> str | None:
        """Another card that has a process of ours, for people."""
        for device in devices(self._gpu.nvml):
            if device.pci_bus_id == self._gpu.device.pci_bus_id:
                continue
            with contextlib.suppress(NvmlFault):
                if _ours(look(self._gpu.nvml, device, judge)):
                    return f"{device.name} at {device.pci_bus_id}"
        return None

    def _grown(self) -> str:
        now = self._gpu.levels()
        grown = [
            f"{uuid} used {(now[uuid] - was) / 2**30:.1f} GiB more"
            for uuid, was in self._before.items()
            if now.get(uuid, was) - was >= RISEN
        ]
        return "; ".join(grown) or "nor does any other card here"

    def _await_release(self, use: GpuUse) -> None:
        """Wait until our memory is back; what others use by then is theirs."""
        began = time.monotonic()
        while True:
            try:
                seen = look(self._gpu.nvml, self._gpu.device, self._judge())
            except NvmlFault as fault:
                self._gpu.tell(f"the GPU {self._gpu.words} does not answer any more: {fault}")
                return
            waited = time.monotonic() - began
            others = [tenant for tenant in seen.tenants or () if tenant.owner == "other"]
            if use.pids_visible is False:  # ours and theirs look alike
                others = []
            theirs = sum(tenant.memory or 0 for tenant in others)
            back = seen.memory.used - theirs <= use.memory_before + TOLERANCE
            kept = [tenant.words() for tenant in seen.tenants or ()]
            self._use = use.model_copy(
                update={
                    "memory_after": seen.memory.used,
                    "release_s": waited if back else None,
                    "kept_by": kept,
                }
            )
            if back or waited >= RELEASE_S:
                break
            time.sleep(POLL_S)
        use = self._use
        if not back:
            self._gpu.tell(
                f"the GPU {self._gpu.words} did not give the memory back within {RELEASE_S:.0f} s "
                f"after the server's end: {seen.words()}; it was {use.memory_before / 2**30:.1f} "
                "GiB before. Whoever is on it is left alone"
            )
        elif others:
            who = "; ".join(tenant.words() for tenant in others)
            self._gpu.tell(f"on the GPU {self._gpu.words} is now somebody else, left alone: {who}")

    def _record(self) -> None:
        """Put it into launch.json: the runner, which wrote it, has ended."""
        path = self._spec.paths.launch
        with contextlib.suppress(OSError, ValueError, EnvironmentFault):
            value = json.loads(path.read_text(encoding="utf-8"))
            if value.get("id") == self._spec.id and self._use is not None:
                write_json(path, {**value, "gpu": self._use.model_dump(mode="json")})


def _ours(seen: Occupancy) -> bool:
    return any(tenant.owner == "ours" for tenant in seen.tenants or ())
