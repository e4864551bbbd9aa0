"""The folder in which the load generator and a vLLM container's PID 1 talk.  Stdlib only.

One folder per variant, mounted into both containers; no engine socket, no network:

- ``runner.lock``   held (flock) by PID 1 of the vLLM container while it lives
- ``runner.json``   what PID 1 says of itself; its presence = ready for an order
- ``client.lock``   held by the load generator while it lives
- ``order.json``    the next server to start (``process.main``'s keys); PID 1 takes it away
- ``waiting.json``  why the ordered server does not start yet
- ``stop-<id>``     stop the server of that start, and only that
- ``quit``          no more orders will come
- ``result.json``   which run the load generator wrote into, or why into none; for the analysis

Locks, not process IDs or heartbeats, say who lives: the kernel gives them back with their holder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from pathlib import Path
from typing import Any

FOLDER = "SPECGAUGE_CONTROL"
"""Environment variable that names the folder of all variants' control folders."""


class Control:
    """One variant's control folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner_lock = folder / "runner.lock"
        self.client_lock = folder / "client.lock"
        self._runner = folder / "runner.json"
        self._order = folder / "order.json"
        self._waiting = folder / "waiting.json"
        self._quit = folder / "quit"
        self._result = folder / "result.json"

    # PID 1 of the vLLM container

    def clear(self) -> None:
        """Take away what an earlier run left.  Before the runner's lock is taken: the client
        believes in ``runner.json`` only while that lock is held."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in (self._runner, self._order, self._waiting, self._quit):
            path.unlink(missing_ok=True)
        for path in self.folder.glob("stop-*"):
            path.unlink(missing_ok=True)

    def announce(self, facts: dict[str, Any]) -> None:
        """PID 1 is ready for orders."""
        write(self._runner, facts)

    def take_order(self) -> dict[str, Any] | None:
        """The next server to start, once."""
        order = read(self._order)
        if order is not None:
            self._order.unlink(missing_ok=True)
        return order

    def quits(self) -> bool:
        """No more orders will come."""
        return self._quit.exists()

    def wait_for(self, start_id: str, why: str) -> None:
        """Say why the start does not begin yet."""
        write(self._waiting, {"id": start_id, "why": why})

    # the load generator

    def runner(self) -> dict[str, Any] | None:
        """What PID 1 says of itself; None unless it lives and is ready."""
        return read(self._runner) if is_held(self.runner_lock) else None

    def order(self, spec: dict[str, Any]) -> None:
        """Ask for a server.  The file holds its environment: for the owner's eyes only."""
        write(self._order, spec, mode=0o600)

    def waiting(self, start_id: str) -> str | None:
        """Why the start does not begin yet, if PID 1 said so."""
        value = read(self._waiting)
        return str(value["why"]) if value and value.get("id") == start_id else None

    def stop_marker(self, start_id: str) -> Path:
        """The file whose appearance stops that start's server."""
        return self.folder / f"stop-{re.sub(r'[^A-Za-z0-9_.-]', '_', start_id)}"

    def quit(self) -> None:
        """Tell PID 1 that no more orders will come."""
        with contextlib.suppress(OSError):
            self._quit.touch()

    def report(
        self,
        run: str | None,
        error: str | None = None,
        code: int = 0,
        graph_failure: str | None = None,
        instead_of: str | None = None,
    ) -> None:
        """Say into which run the load generator wrote, or with which error it ended.

        ``graph_failure``: the start that ended the run because it died while it captured CUDA
        graphs (run/eager.py); who ordered single starts begins anew.  ``instead_of``: the run that
        was asked for, where the load generator itself began anew.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        told = {"run": run, "error": error, "code": code, "at": time.time()}
        write(self._result, {**told, "graph_failure": graph_failure, "instead_of": instead_of})

    def result(self) -> dict[str, Any] | None:
        """What the last load generator reported."""
        return read(self._result)


def hold(path: Path) -> int | None:
    """Take the lock ``path`` until this process ends (or the descriptor returned is closed).

    None: somebody else holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def is_held(path: Path) -> bool:
    """Whether some process holds the lock ``path``."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared: two who look at the same moment do not take each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def write(path: Path, value: dict[str, Any], mode: int = 0o644) -> None:
    """Write JSON whole: a reader sees the old file or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
    temporary.replace(path)


def read(path: Path) -> dict[str, Any] | None:
    """The JSON object in ``path``, or None where there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
