"""Live metrics of a run for Prometheus: which cell runs now, compile events of its server.

They come from the harness's own process, never from Locust's event loop: what is looked at while
measuring must not delay what is measured.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from specgauge.record.layout import RunPaths

PORT = 9100
JIT_TEXT = b" during inference: "
"""In every line of vLLM's JIT monitor, whichever compiler it tells of."""
_POLL_S = 1.0
_LABELS = ("run", "variant", "start", "load", "repeat")


class LiveMetrics:
    """Implements ``run.observer.Observer``."""

    def __init__(self, results: Path, experiment: str) -> None:
        self.registry = CollectorRegistry()
        self._folder = results / experiment
        self._cell = Gauge(
            "specgauge_cell_info", "1 while this cell runs", _LABELS, registry=self.registry
        )
        self._jit = Counter(
            "specgauge_jit_events",
            "Lines of vLLM's JIT monitor since the start of its server",
            ("variant",),
            registry=self.registry,
        )
        self._place = ("", "", "")
        self._log: Path | None = None
        self._read = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def serve(self, port: int = PORT) -> None:
        """Listen on ``port`` and watch the current server's log, in threads of this process."""
        start_http_server(port, registry=self.registry)
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._ended.set()

    def start_begins(self, run_id: str, variant: str, start: int) -> None:
        """See ``Observer``."""
        paths = RunPaths(self._folder / run_id)
        with self._lock:
            self._place = (run_id, variant, str(start))
            self._log = paths.start(variant, start).server_log
            self._read = 0
        self._jit.labels(variant).inc(0)

    @contextlib.contextmanager
    def cell(self, load: str, repeat: int) -> Iterator[None]:
        """See ``Observer``."""
        labels = (*self._place, load, str(repeat))
        self._cell.labels(*labels).set(1)
        try:
            yield
        finally:
            self._cell.remove(*labels)

    def look(self) -> None:
        """Count the log's new JIT lines."""
        with self._lock:
            if self._log is None:
                return
            variant = self._place[1]
            try:
                with self._log.open("rb") as log:
                    log.seek(self._read)
                    data = log.read()
            except FileNotFoundError:
                return
            whole = data.rfind(b"\n") + 1
            self._read += whole
        self._jit.labels(variant).inc(data[:whole].count(JIT_TEXT))

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_S):
            self.look()
