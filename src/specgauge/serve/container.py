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
from specgauge.gpu.lock import DeviceLock
from specgauge.serve.claim import Refused, claim, gpu_names
from specgauge.serve.control import FOLDER, Control, hold, is_held, write
from specgauge.serve.cpu_accounts import AccountsFile, CpuAccounts
from specgauge.serve.linelog import LineLog
from specgauge.serve.packages import versions
from specgauge.serve.process import Runner

_POLL_S = 0.1
_CLIENT_WAIT_S = 120.0
"""How long a load generator may take to appear after this container."""
_REFUSED = 5
"""As ``ExitCode.ENVIRONMENT``: the machine is not fit for this start."""


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
        self._control.announce(
            {
                "container": socket.gethostname(),
                "since": time.time(),
                # What the load generator's container cannot see.
                "gpus": gpu_names(self._env),
                "packages": versions(),
            }
        )
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
            lock = claim(self._env, lambda why: self._hold_on(order, why, unwanted))
        except (Refused, SpecgaugeError) as refusal:
            self._ok &= unwanted()
            refuse(order, str(refusal))
        else:
            # This process is not counted: it is the runner, not the server.
            waits = AccountsFile(Path(order["cpu_waits"]), CpuAccounts(os.getpid(), counts=False))

            def look_and_ask() -> bool:
                # Not before: vLLM's processes name themselves late.  No thread: the runner forks.
                if runner.is_ready:
                    waits.look()
                return unwanted()

            runner = Runner({**order, "tee": True}, should_stop=look_and_ask)
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

    def _listen(self) -> None:
        def stop(number: int, frame: object) -> None:
            self._term = True

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop)


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
