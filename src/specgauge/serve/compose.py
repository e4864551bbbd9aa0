"""A server in its own container, seen from the load generator's container beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specgauge.errors import EnvironmentFault
from specgauge.record.documents import Launch
from specgauge.scrape.merge import merge_cpu_waits
from specgauge.serve.control import Control, is_held
from specgauge.serve.launchfile import LaunchFile
from specgauge.serve.protocol import ServerDied, ServerSpec

_POLL_S = 0.1
_RUNNER_WAIT_S = 120.0
"""For the vLLM container's PID 1 to appear: the engine has already started the container."""
_RUNNER_EXTRA_S = 60.0
"""On top of the grace time, for the runner to kill, drain and look at caches."""


class ComposeServer:
    """Implements ``protocol.Server`` by orders in a shared folder (``serve/control.py``).

    The other side is ``serve/container.py``, PID 1 of the vLLM container.
    """

    def __init__(
        self, spec: ServerSpec, control: Control, bind: tuple[str, int], remove_after: list[str]
    ) -> None:
        self._spec = spec
        self._control = control
        self._bind = bind
        self._remove_after = remove_after
        self._file = LaunchFile(spec)
        self._cpu_waits: Path = spec.paths.folder / "cpu_waits.jsonl"
        """Written by the container while the server runs; afterwards part of metrics.parquet."""
        self._ordered = False

    def start(self) -> None:
        """Order it.  Raises EnvironmentFault when no vLLM container is there to take the order."""
        find_runner(self._control)
        spec = self._spec
        spec.paths.folder.mkdir(parents=True, exist_ok=True)
        self._ordered = True
        self._control.order(
            {
                "id": spec.id,
                "argv": spec.argv,
                "env": spec.env,
                "cwd": spec.cwd,
                "log": str(spec.paths.server_log),
                "launch": str(spec.paths.launch),
                "cpu_waits": str(self._cpu_waits),
                # The runner asks from inside the server's own container.
                "health_url": f"http://127.0.0.1:{self._bind[1]}/health",
                "grace_s": spec.stop_grace_s,
                "caches": spec.caches,
                "remove_after": self._remove_after,
                "stop_marker": str(self._control.stop_marker(spec.id)),
            }
        )

    def wait_ready(self, on_wait: Callable[[str], None]) -> None:
        """See ``protocol.Server``.  Waiting for the GPU does not count as getting ready.

        Raises:
            EnvironmentFault: the container refused to start it: the GPU is not free, or another.
            ServerDied: see ``protocol.Server``.
        """
        deadline: float | None = None
        limit = self._spec.ready_timeout_s
        while True:
            launch = self._file.launch()
            if launch is not None and launch.ready_at is not None:
                return
            if (refusal := self._file.refusal()) is not None:
                raise EnvironmentFault(f"the server was not started: {refusal}")
            if (death := self.death()) is not None:
                raise ServerDied(f"the server ended before it was ready: {death}")
            if launch is not None:
                deadline = deadline or time.monotonic() + limit
                if time.monotonic() > deadline:
                    raise ServerDied(
                        f"the server was not ready within {limit:.0f} s "
                        f"('server: ready_timeout_s:').{self._file.tail()}"
                    )
            on_wait(self._control.waiting(self._spec.id) or self._file.newest_line())
            time.sleep(_POLL_S)

    def death(self) -> str | None:
        """See ``protocol.Server``."""
        alive = is_held(self._control.runner_lock)
        if (death := self._file.death()) is not None:
            return death
        if alive or not self._ordered:
            return None
        return f"its container ended.{self._file.tail()}"

    def stop(self) -> Launch:
        """See ``protocol.Server``."""
        if self._ordered:
            self._control.stop_marker(self._spec.id).touch()
            deadline = time.monotonic() + self._spec.stop_grace_s + _RUNNER_EXTRA_S
            while self.death() is None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            merge_cpu_waits(self._cpu_waits, self._spec.paths.metrics)
        launch = self._file.launch()
        if launch is None:
            launch = Launch(
                id=self._spec.id, argv=[], env={}, started_at=time.time(), clock_offset=0.0
            )
        return launch


def find_runner(control: Control) -> dict[str, Any]:
    """What PID 1 of the vLLM container says of itself, once it is there.

    Raises:
        EnvironmentFault: it does not come.
    """
    deadline = time.monotonic() + _RUNNER_WAIT_S
    while (runner := control.runner()) is None:
        if time.monotonic() > deadline:
            raise EnvironmentFault(
                f"the vLLM container of {control.folder.name!r} is not there: "
                "'docker compose ps --all' shows how it ended, 'make logs' what it said"
            )
        time.sleep(_POLL_S)
    return runner
