"""The scraper as the harness sees it: a process of its own, started and stopped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from specgauge.errors import EnvironmentFault

STOP_LIMIT_S = 120.0
"""To parse and write: an hour of scrapes takes half a minute."""


class Scraper:
    """Scrapes ``url_base``/metrics five times a second into ``out`` (schema.METRICS).

    The process ends, and writes, also when its parent dies: its stdin ends then.
    ``server_pid``: also how long that process and its children wait for a CPU.
    """

    def __init__(self, url_base: str, out: Path, server_pid: int | None = None) -> None:
        self._url = url_base
        self._out = out
        self._pid = server_pid
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start scraping; the server need not answer yet."""
        words = [self._url, str(self._out.absolute())]
        words += [] if self._pid is None else [str(self._pid)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "specgauge.scrape", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
        )

    def stop(self) -> None:
        """Scrape a last time, parse, write ``out``; returns when that is done.  May be repeated.

        Raises:
            EnvironmentFault: it did not write the file; with the reason.
        """
        process, self._process = self._process, None
        if process is None:
            return
        try:
            _out, complaint = process.communicate(timeout=STOP_LIMIT_S)  # closes its stdin
        except subprocess.TimeoutExpired:
            complaint = f"not done within {STOP_LIMIT_S:g} s".encode()
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            how = f"exit status {process.returncode}"
            if process.returncode < 0:
                how = f"ended by signal {-process.returncode}"
            text = complaint.decode("utf-8", "replace").strip().splitlines() or [how]
            raise EnvironmentFault(f"{self._out}: the scraper failed: {text[-1]}")
