"""A server on this machine, under a process runner of its own (``serve/process.py``)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from specgauge.errors import EnvironmentFault
from specgauge.gpu.lock import DeviceLock
from specgauge.record.documents import Launch
from specgauge.serve.launchfile import LaunchFile
from specgauge.serve.ports import claim, require_free, require_ours
from specgauge.serve.process import UNWRITABLE
from specgauge.serve.protocol import ServerDied, ServerSpec
from specgauge.serve.tree import leftovers

_POLL_S = 0.2
_RUNNER_EXTRA_S = 60.0
"""On top of the grace time, for the runner to kill, drain and look at caches; then it is killed."""


class LocalServer:
    """Implements ``protocol.Server``.

    The server shares our session but not our process group: Ctrl-C at the terminal reaches only
    the harness, which stops things in order.  A session of its own would starve the client: the
    kernel groups threads by session, and vLLM's engine spins.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._file = LaunchFile(spec)
        self._runner: subprocess.Popen[bytes] | None = None
        self._claim: DeviceLock | None = None

    def start(self) -> None:
        """Launch it.  Raises EnvironmentFault when its port is taken."""
        spec = self._spec
        self._claim = claim(spec.port)
        require_free(spec.host, spec.port)
        spec.paths.folder.mkdir(parents=True, exist_ok=True)
        description = {
            "id": spec.id,
            "argv": spec.argv,
            "env": spec.env,
            "cwd": spec.cwd,
            "log": str(spec.paths.server_log),
            "launch": str(spec.paths.launch),
            "health_url": f"{spec.url}/health",
            "grace_s": spec.stop_grace_s,
            "caches": spec.caches,
            "parent_pipe": True,
        }
        self._runner = subprocess.Popen(
            [sys.executable, "-m", "specgauge.serve.process", "-"],
            stdin=subprocess.PIPE,
            process_group=0,
        )
        assert self._runner.stdin is not None
        # Not through a file: the environment may hold secrets.
        self._runner.stdin.write(json.dumps(description).encode() + b"\n")
        self._runner.stdin.flush()

    @property
    def runner_pid(self) -> int | None:
        """The process runner, below which all of the server's processes are; None before start."""
        return None if self._runner is None else self._runner.pid

    def wait_ready(self, on_wait: Callable[[str], None]) -> None:
        """See ``protocol.Server``."""
        deadline = time.monotonic() + self._spec.ready_timeout_s
        while True:
            launch = self._file.launch()
            if launch is not None and launch.ready_at is not None:
                assert self._runner is not None
                require_ours(self._spec.port, self._runner.pid)
                return
            if (death := self.death()) is not None:
                raise ServerDied(f"the server ended before it was ready: {death}")
            if time.monotonic() > deadline:
                raise ServerDied(
                    f"the server was not ready within {self._spec.ready_timeout_s:.0f} s "
                    f"('server: ready_timeout_s:').{self._file.tail()}"
                )
            on_wait(self._file.newest_line())
            time.sleep(_POLL_S)

    def death(self) -> str | None:
        """See ``protocol.Server``."""
        if (death := self._file.death()) is not None:
            return death
        if self._runner is None or self._runner.poll() is None:
            return None
        if self._runner.returncode == UNWRITABLE:
            raise EnvironmentFault(
                f"{self._spec.paths.folder}: the server's records cannot be written: "
                "the disk is full, or the folder is not ours to write. The server was stopped."
            )
        return f"its runner ended with status {self._runner.returncode}.{self._file.tail()}"

    def stop(self) -> Launch:
        """See ``protocol.Server``."""
        runner = self._runner
        if runner is not None:
            if runner.stdin is not None:
                with contextlib.suppress(OSError):
                    runner.stdin.close()
            if runner.poll() is None:
                runner.send_signal(signal.SIGTERM)
            try:
                runner.wait(self._spec.stop_grace_s + _RUNNER_EXTRA_S)
            except subprocess.TimeoutExpired:
                runner.kill()
                runner.wait()
            for pid in leftovers(self._spec.id):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self._claim is not None:
            self._claim.release()
        launch = self._file.launch()
        if launch is None:
            launch = Launch(
                id=self._spec.id, argv=[], env={}, started_at=time.time(), clock_offset=0.0
            )
        return launch
