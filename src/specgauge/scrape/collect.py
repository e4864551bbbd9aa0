"""Collect ``/metrics`` on a fixed grid, at little cost: bodies are kept compressed, unparsed."""

from __future__ import annotations

import http.client
import math
import threading
import time
import zlib
from urllib.parse import urlsplit

from specgauge.record.schema import SCRAPE_HZ
from specgauge.scrape.series import Scrape

TIMEOUT_S = 2.0
_LEVEL = 1


def next_tick(k: int, periods: float) -> int:
    """The grid place after ``k`` that is still to come when ``periods`` have passed."""
    return max(k, math.floor(periods)) + 1


class Collector:
    """Scrapes one server until told to stop.

    The grid is fixed: a scrape that takes longer than a period skips the times it missed and does
    not shift the later ones.  A server that does not answer leaves a hole.
    """

    def __init__(self, url_base: str) -> None:
        parts = urlsplit(url_base)
        self._connection = http.client.HTTPConnection(
            parts.hostname or "127.0.0.1", parts.port or 80, timeout=TIMEOUT_S
        )
        self._path = parts.path.rstrip("/") + "/metrics"
        self.scrapes: list[Scrape] = []

    def run(self, stop: threading.Event) -> None:
        """Scrape now and then on the grid until ``stop`` is set; once more at the end."""
        period = 1.0 / SCRAPE_HZ
        begin, k = time.monotonic(), 0
        while not stop.is_set():
            self._scrape()
            k = next_tick(k, (time.monotonic() - begin) / period)
            stop.wait(begin + k * period - time.monotonic())
        self._scrape()
        self._connection.close()

    def _scrape(self) -> None:
        before = time.monotonic()
        try:
            self._connection.request("GET", self._path)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):  # starting, stopping, or busy: normal
            self._connection.close()
            return
        if response.status == 200:
            after = time.monotonic()
            packed = zlib.compress(body, _LEVEL)
            self.scrapes.append(Scrape(after, after - before, lambda: _text(packed)))


def _text(packed: bytes) -> str:
    return zlib.decompress(packed).decode("utf-8", "replace")
