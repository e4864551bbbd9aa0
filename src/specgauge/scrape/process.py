"""The scraper as the harness sees it: a process of its own, started and stopped."""

from __future__ import annotations

from pathlib import Path

from specgauge.errors import EnvironmentFault
from specgauge.side_process import SideProcess

STOP_LIMIT_S = 120.0
"""To parse and write: an hour of scrapes takes half a minute."""


class Scraper:
    """Scrapes ``url_base``/metrics five times a second into ``out`` (schema.METRICS).

    ``server_pid``: also how long that process and its children wait for a CPU.
    """

    def __init__(self, url_base: str, out: Path, server_pid: int | None = None) -> None:
        self._out = out
        words = [url_base, str(out.absolute())]
        words += [] if server_pid is None else [str(server_pid)]
        self._process = SideProcess("specgauge.scrape", words)

    def start(self) -> None:
        """Start scraping; the server need not answer yet."""
        self._process.start()

    def stop(self) -> None:
        """Scrape a last time, parse, write ``out``; returns when that is done.  May be repeated.

        Raises:
            EnvironmentFault: it did not write the file; with the reason.
        """
        why = self._process.stop(STOP_LIMIT_S)
        if why is not None:
            raise EnvironmentFault(f"{self._out}: the scraper failed: {why}")
