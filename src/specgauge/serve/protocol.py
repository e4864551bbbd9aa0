"""What the harness asks of a server, whichever way it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from specgauge.record.documents import Launch
from specgauge.record.layout import StartPaths


@dataclass(frozen=True)
class ServerSpec:
    """One start of one server."""

    id: str
    """Unique per start."""
    argv: list[str]
    env: dict[str, str]
    """Set on top of the harness's own environment."""
    host: str
    port: int
    paths: StartPaths
    cwd: str
    ready_timeout_s: float
    stop_grace_s: float
    caches: list[str] = field(default_factory=list)
    """Compile cache folders whose state is recorded before and after."""

    @property
    def url(self) -> str:
        """Base URL, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class Server(Protocol):
    """A server between start and stop.  Every method may be called from one thread only."""

    def start(self) -> None:
        """Launch it.  Raises EnvironmentFault when it cannot even be tried (port taken)."""

    def wait_ready(self, on_wait: Callable[[str], None]) -> None:
        """Return when it answers ``/health``; ``on_wait`` gets its newest log line now and then.

        Raises:
            ServerDied: it ended, or was not ready in time.
        """

    def death(self) -> str | None:
        """How it ended by itself, or None while it lives.

        Raises:
            EnvironmentFault: its records cannot be written any more (disk full).
        """

    def stop(self) -> Launch:
        """End it and its whole tree; returns what the runner recorded.  Safe to call twice."""


class ServerDied(Exception):
    """The server ended by itself, or never became ready; the text says how, with its last lines."""
