"""Where the live view gets its metrics: a server's own ``/metrics``, or the stack's Prometheus."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import Protocol

import requests

from specgauge.errors import UsageError
from specgauge.record.layout import RunPaths, StartPaths
from specgauge.record.manifest import Manifest, read_manifest
from specgauge.scrape.parse import samples
from specgauge.watch.figures import Look, look

_TIMEOUT_S = 2.0
_MATCH = r'{__name__=~"vllm:.*|specgauge_.*"}'


class Source(Protocol):
    """One way to look."""

    @property
    def name(self) -> str:
        """For people: where the figures come from."""

    def look(self) -> Look | None:
        """The metrics now; None while nothing answers."""


class PrometheusSource:
    """Everything that the stack's Prometheus has now, in one request (its federation endpoint)."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._http = _session()

    @property
    def name(self) -> str:
        """See ``Source``."""
        return f"Prometheus at {self._url}"

    def look(self) -> Look | None:
        """See ``Source``."""
        text = _get(self._http, f"{self._url}/federate", {"match[]": _MATCH})
        return None if text is None else look(time.monotonic(), samples(text))


class ServerSource:
    """The server of the newest start below ``results``, and what the results folder tells."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._http = _session()

    @property
    def name(self) -> str:
        """See ``Source``."""
        return f"the newest run in {self._results}"

    def look(self) -> Look | None:
        """See ``Source``."""
        start = newest_start(self._results)
        if start is None:
            return None
        manifest, variant, paths = start
        server = manifest.experiment["server"]
        text = _get(self._http, f"http://{server['host']}:{server['port']}/metrics", {})
        if text is None:
            return None
        seen = look(time.monotonic(), samples(text), variant)
        seen.values.setdefault(variant, {})["specgauge_jit_events_total"] = jit_events(
            paths.server_log
        )
        cell = current_cell(paths)
        return Look(seen.t, seen.values, {variant: cell} if cell else {}, seen.gpus)


def newest_start(results: Path) -> tuple[Manifest, str, StartPaths] | None:
    """The start of the latest run that was launched last."""
    folder = results / "latest"
    with contextlib.suppress(UsageError):
        manifest = read_manifest(folder / "manifest.json")
        starts = [
            (paths.server_log.stat().st_mtime, variant, paths)
            for variant, _, paths in RunPaths(folder.resolve()).starts()
            if paths.server_log.exists()
        ]
        if starts:
            _, variant, paths = max(starts, key=lambda item: item[0])
            return manifest, variant, paths
    return None


def current_cell(paths: StartPaths) -> str | None:
    """The cell whose folder is there and whose document is not yet."""
    for load, repeat, cell in paths.cells():
        if not cell.cell.exists():
            return f"{load} repeat {repeat}"
    return None


def jit_events(log: Path) -> int:
    """JIT monitor lines in a server's log."""
    with contextlib.suppress(OSError):
        return len(re.findall(rb" during inference: ", log.read_bytes()))
    return 0


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # a proxy must not stand between us and loopback
    return session


def _get(http: requests.Session, url: str, params: dict[str, str]) -> str | None:
    try:
        answer = http.get(url, params=params, timeout=_TIMEOUT_S)
    except requests.RequestException:
        return None
    return answer.text if answer.status_code == 200 else None
