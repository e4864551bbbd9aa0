"""The loop of ``specgauge watch``: look each second, show, until Ctrl-C."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

from rich.console import Console
from rich.live import Live

from specgauge.config.project import Project
from specgauge.stack.env import read
from specgauge.watch.figures import Figures, Look, figures
from specgauge.watch.screen import HISTORY, screen
from specgauge.watch.sources import PrometheusSource, ServerSource, Source

EVERY_S = 1.0
_WINDOW = 5
"""Looks between which the figures are taken: single seconds jump."""


class Watch:
    """What has been seen so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._looks: deque[Look] = deque(maxlen=_WINDOW + 1)
        self._history: dict[str, deque[float]] = {}

    def step(self) -> tuple[dict[str, Figures | None], Look | None]:
        """Look once more.  Returns the figures of each variant that answers."""
        seen = self.source.look()
        if seen is None:
            self._looks.clear()
            return {}, None
        self._looks.append(seen)
        now = {
            variant: figures(self._looks[0], seen, variant)
            for variant in seen.values
            if "vllm:generation_tokens_total" in seen.values[variant]
        }
        for variant, found in now.items():
            if found is not None and found.output_tok_s is not None:
                line = self._history.setdefault(variant, deque(maxlen=HISTORY))
                line.append(found.output_tok_s)
        return now, seen

    def show(self, live: Live) -> None:
        """One look onto the screen."""
        now, seen = self.step()
        cells = seen.cells if seen else {}
        gpus = seen.gpus if seen else ()
        live.update(screen(self.source.name, now, cells, self._history, gpus))


def source_for(project: Project, url: str | None) -> Source:
    """Where to look: ``url`` (a Prometheus), else the stack's if it answers, else the newest run's
    server."""
    if url is not None:
        return PrometheusSource(url)
    values = read(project.root / ".env")
    if values:
        port = values.get("PROMETHEUS_PORT") or "9090"
        stack = PrometheusSource(f"http://127.0.0.1:{port}")
        seen = stack.look()
        if seen is not None and seen.values:
            return stack
    return ServerSource(Path(project.results))


def watch(source: Source, console: Console, seconds: float | None = None) -> None:
    """Show until Ctrl-C, or for ``seconds``."""
    view = Watch(source)
    end = None if seconds is None else time.monotonic() + seconds
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while end is None or time.monotonic() < end:
            began = time.monotonic()
            view.show(live)
            live.refresh()
            time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))
