"""Observes the container engine through the Docker SDK.  It never starts, stops or declares."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors

from specgauge.errors import EnvironmentFault

VIEWING = ("prometheus", "gpu-exporter", "grafana")
"""Services that may run beside a measurement."""
_PROJECT = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_FOLDER = "com.docker.compose.project.working_dir"


@dataclass(frozen=True)
class Seen:
    """One container of a project, as the engine tells it."""

    service: str
    name: str
    folder: str
    """The checkout that it was made from."""
    running: bool
    exit_code: int
    oom_killed: bool
    health: str | None

    def words(self) -> str:
        """For people."""
        if self.running:
            return f"{self.name} is running" + (f" ({self.health})" if self.health else "")
        why = ", killed for want of memory" if self.oom_killed else ""
        return f"{self.name} ended with {self.exit_code}{why}"


class Engine:
    """A container engine that answers."""

    def __init__(self) -> None:
        """Connect.  Raises EnvironmentFault: no engine, not running, or no permission."""
        try:
            self._client: Any = docker.from_env(timeout=10)
            self._client.ping()
        except docker.errors.DockerException as error:
            raise EnvironmentFault(_why(error)) from None

    def project(self, name: str) -> list[Seen]:
        """The containers of Compose project ``name``, by service."""
        with self._asked():
            found = self._client.containers.list(
                all=True, filters={"label": f"{_PROJECT}={name}"}, ignore_removed=True
            )
            return sorted((_seen(c) for c in found), key=lambda seen: seen.service)

    def has_image(self, name: str) -> bool:
        """Whether the image ``name`` is here."""
        try:
            self._client.images.get(name)
        except docker.errors.ImageNotFound:
            return False
        except docker.errors.DockerException as error:
            raise EnvironmentFault(_why(error)) from None
        return True

    def gpu_support(self) -> str | None:
        """How the engine gives GPUs to containers (``nvidia`` runtime or ``CDI``), or None."""
        with self._asked():
            info: dict[str, Any] = self._client.info()
        if "nvidia" in (info.get("Runtimes") or {}):
            return "the nvidia runtime"
        folders = [Path(folder) for folder in info.get("CDISpecDirs") or []]
        if any("nvidia" in spec.name for folder in folders for spec in folder.glob("*")):
            return "CDI"
        return None

    def words(self) -> str:
        """Which engine this is."""
        with self._asked():
            version: dict[str, Any] = self._client.version()
        names = [part.get("Name", "") for part in version.get("Components") or []]
        kind = "Podman" if any("Podman" in name for name in names) else "Docker"
        return f"{kind} {version.get('Version')}"

    @contextlib.contextmanager
    def _asked(self) -> Any:
        try:
            yield
        except docker.errors.DockerException as error:
            raise EnvironmentFault(_why(error)) from None


def strangers(seen: list[Seen], root: Path) -> list[Seen]:
    """Those of ``seen`` that another checkout made: they carry our project's name, not our folder.

    They are named and left alone.
    """
    return [one for one in seen if one.folder and Path(one.folder) != root.resolve()]


def at_work(seen: list[Seen]) -> list[Seen]:
    """Those of ``seen`` that run and are not for viewing: a measurement, or a preflight."""
    return [one for one in seen if one.running and one.service not in VIEWING]


def _seen(container: Any) -> Seen:
    state = container.attrs["State"]
    labels = container.labels
    return Seen(
        service=labels.get(_SERVICE, container.name),
        name=container.name,
        folder=labels.get(_FOLDER, ""),
        running=bool(state.get("Running")),
        exit_code=int(state.get("ExitCode") or 0),
        oom_killed=bool(state.get("OOMKilled")),
        health=(state.get("Health") or {}).get("Status"),
    )


def _why(error: Exception) -> str:
    text = str(error)
    if "PermissionError" in text or "Permission denied" in text:
        return (
            "the Docker engine refuses this user: join the group 'docker' (then log in again), "
            "or set up rootless Docker"
        )
    if "FileNotFoundError" in text or "No such file" in text:
        return "no Docker engine is here: its socket is missing. Install Docker, or start it"
    if "ConnectionRefused" in text or "Connection refused" in text:
        return "the Docker engine is not running: start it (systemctl start docker)"
    return f"the Docker engine does not answer: {text}"
