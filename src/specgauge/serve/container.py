"""PID 1 of a vLLM container: starts the servers that the load generator orders.  Stdlib only.

For each order: check that the GPU is the wanted one, take its host-wide lock, wait until its
memory is free, then run the server under ``process.Runner``.  It ends when the load generator says
so or is gone, and on TERM.  Exit code: 0, or 1 if a server ended by itself or was refused.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specgauge.errors import SpecgaugeError
from specgauge.gpu.device import Device, Nvml, NvmlFault, NvmlUnavailable
from specgauge.gpu.find import devices, normal_bus_id, table
from specgauge.gpu.lock import DeviceLock
from specgauge.gpu.nvml import open_nvml
from specgauge.gpu.occupancy import wait_free
from specgauge.serve.control import FOLDER, Control, hold, is_held, write
from specgauge.serve.linelog import LineLog
from specgauge.serve.process import Runner

_POLL_S = 0.1
_CLIENT_WAIT_S = 120.0
"""How long a load generator may take to appear after this container."""
_GPU_WAIT_S = 4 * 3600.0
_REFUSED = 5
"""As ``ExitCode.ENVIRONMENT``: the machine is not fit for this start."""


class Refused(Exception):
    """The server is not started; the text says why."""


class Keeper:
    """Serves the orders of one control folder, one after the other."""

    def __init__(self, control: Control, env: dict[str, str]) -> None:
        self._control = control
        self._env = env
        self._term = False
        self._client_seen = False
        self._waits_for = ""
        self._ok = True

    def run(self) -> int:
        """Stay until no more orders can come.  Returns this container's exit code."""
        self._listen()
        self._control.clear()
        lock = hold(self._control.runner_lock)
        if lock is None:
            say(f"{self._control.folder}: another container serves this variant here already")
            return 1
        self._control.announce({"container": socket.gethostname(), "since": time.time()})
        say("ready for orders")
        while (order := self._next()) is not None:
            self._serve(order)
        os.close(lock)
        return 0 if self._ok else 1

    def _next(self) -> dict[str, Any] | None:
        deadline = time.monotonic() + _CLIENT_WAIT_S
        while True:
            if (order := self._control.take_order()) is not None:
                return order
            if self._should_quit():
                return None
            if not self._client_seen and time.monotonic() > deadline:
                say("no load generator came: ending")
                self._ok = False
                return None
            time.sleep(_POLL_S)

    def _should_quit(self) -> bool:
        if self._term or self._control.quits():
            return True
        if is_held(self._control.client_lock):
            self._client_seen = True
            return False
        return self._client_seen  # it has gone without a word

    def _serve(self, order: dict[str, Any]) -> None:
        marker = self._control.stop_marker(order["id"])

        def unwanted() -> bool:
            return marker.exists() or self._should_quit()

        lock: DeviceLock | None = None
        try:
            lock = self._gpu(lambda why: self._hold_on(order, why, unwanted))
        except (Refused, SpecgaugeError) as refusal:
            self._ok &= unwanted()
            refuse(order, str(refusal))
        else:
            runner = Runner({**order, "tee": True}, should_stop=unwanted)
            runner.run()
            self._term |= runner.signalled
            self._listen()
            self._ok &= runner.asked_to_stop
        finally:
            if lock is not None:
                lock.release()
            marker.unlink(missing_ok=True)
        for folder in order.get("remove_after", []):
            shutil.rmtree(folder, ignore_errors=True)

    def _hold_on(self, order: dict[str, Any], why: str, unwanted: Callable[[], bool]) -> bool:
        if self._waits_for != order["id"]:
            self._waits_for = order["id"]
            say(f"waiting: {why}")
        self._control.wait_for(order["id"], why)
        return not unwanted()

    def _gpu(self, on_wait: Callable[[str], bool]) -> DeviceLock:
        """Lock the wanted GPU and see that it is free.  Without one: the lock of the CPU.

        Raises:
            Refused: another GPU than the wanted one, or not free in time.
            EnvironmentFault: NVML or the lock's folder does not work.
        """
        uuid = self._env.get("GPU_UUID", "")
        bus_id = self._env.get("GPU_PCI_BUS_ID", "")
        nvml = device = None
        if uuid:
            nvml, device = wanted_device(uuid, bus_id)
        lock = DeviceLock(uuid or "cpu")
        limit = float(self._env.get("SPECGAUGE_GPU_WAIT_S") or _GPU_WAIT_S)
        began = time.monotonic()
        who = f"{self._env.get('COMPOSE_PROJECT', 'specgauge')}, container {socket.gethostname()}"
        what = f"GPU {uuid}" if uuid else "CPU"
        if not lock.acquire(limit, lambda by: on_wait(f"the {what} is held by {by}"), who):
            raise Refused(
                f"the {what} was not to be had within {limit:.0f} s: {lock.holder()} holds it "
                "(SPECGAUGE_GPU_WAIT_S sets the limit)"
            )
        if nvml is not None and device is not None:
            left = max(0.0, limit - (time.monotonic() - began))
            try:
                seen = wait_free(
                    nvml, device, left, lambda o: on_wait(f"the GPU is in use: {o.words()}")
                )
            except NvmlFault as fault:
                lock.release()
                raise Refused(f"NVML does not answer about GPU {uuid}: {fault}") from None
            if not seen.free:
                lock.release()
                raise Refused(f"the GPU {uuid} is in use and was not freed: {seen.words()}")
        return lock

    def _listen(self) -> None:
        def stop(number: int, frame: object) -> None:
            self._term = True

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop)


def wanted_device(uuid: str, bus_id: str) -> tuple[Nvml, Device]:
    """NVML and the one GPU that this container was to get.

    Raises:
        Refused: none, another, or more than one is here.
    """
    try:
        nvml = open_nvml()
    except NvmlUnavailable as error:
        raise Refused(
            f"{error}. The container got no GPU: is the NVIDIA container toolkit installed? "
            "('make doctor' looks)"
        ) from None
    present = devices(nvml)
    fit = [d for d in present if uuid == d.uuid or uuid in d.mig_uuids]
    if bus_id:
        fit = [d for d in fit if normal_bus_id(d.pci_bus_id) == normal_bus_id(bus_id)]
    if len(fit) != 1 or len(present) != 1:
        raise Refused(
            f"wanted exactly the GPU {uuid} at {bus_id or 'any bus ID'}, and this container has:\n"
            f"{table(present)}\n'make pin GPU_PCI_BUS_ID=…' writes both to .env"
        )
    return nvml, fit[0]


def refuse(order: dict[str, Any], why: str) -> None:
    """Record a server that was not started as one that ended at once."""
    log = LineLog(Path(order["log"]), tee=True)
    log.feed("E", f"specgauge: not started: {why}\n".encode())
    log.finish()
    now = time.time()
    with contextlib.suppress(OSError):
        write(
            Path(order["launch"]),
            {
                "document": "specgauge.launch/1",
                "id": order["id"],
                "argv": [],
                "env": {},
                "started_at": now,
                "clock_offset": now - time.monotonic(),
                "ended_at": now,
                "exit_code": _REFUSED,
                "refused": why,
            },
        )


def say(text: str) -> None:
    """A line in the container's log that is not the server's."""
    print(f"specgauge: {text}", flush=True)


def main() -> int:
    """``python3 -m specgauge.serve.container VARIANT``."""
    os.umask(0o022)
    folder = Path(os.environ[FOLDER]) / sys.argv[1]
    return Keeper(Control(folder), dict(os.environ)).run()


if __name__ == "__main__":
    sys.exit(main())
