"""Looks at a GPU on a fixed grid and keeps what it saw as rows of ``telemetry.parquet``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from specgauge.gpu.source import Sample, Source
from specgauge.record.schema import TELEMETRY_HZ, TENANTS_EVERY
from specgauge.scrape.collect import next_tick

Row = tuple[Any, ...]
"""The columns of ``schema.TELEMETRY``, in their order."""


class Sampler:
    """Samples ``source`` until told to stop.

    A look that takes longer than a period skips the times that it missed and does not shift the
    later ones; a card that does not answer leaves a hole.
    """

    def __init__(self, source: Source, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._tenants_due = 0
        self.rows: list[Row] = []

    def run(self, stop: threading.Event) -> None:
        """Look now and then on the grid until ``stop`` is set; once more at the end."""
        period = 1.0 / TELEMETRY_HZ
        begin, k = self._clock(), 0
        while not stop.is_set():
            self._look(k)
            k = next_tick(k, (self._clock() - begin) / period)
            stop.wait(begin + k * period - self._clock())
        self._look(self._tenants_due)

    def _look(self, k: int) -> None:
        due = k >= self._tenants_due
        if due:
            self._tenants_due = k - k % TENANTS_EVERY + TENANTS_EVERY
        seen = self._source.sample(due)
        if seen is not None:
            self.rows.append(row(self._clock(), seen))


def row(t: float, seen: Sample) -> Row:
    """One sample as a row."""
    reading, tenants = seen.reading, seen.tenants
    who = (None, None, None, None)
    if tenants is not None:
        who = (tenants.ours, tenants.other, tenants.unknown, tenants.others)  # type: ignore[assignment]
    return (
        t,
        reading.power_w,
        reading.energy_j,
        reading.sm_clock_mhz,
        reading.memory_clock_mhz,
        reading.temperature_c,
        reading.utilisation,
        reading.throttle_reasons,
        reading.memory.used if reading.memory else None,
        *who,
    )
