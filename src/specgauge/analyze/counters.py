"""Server counters around a cell: differences of ``/metrics`` between the scrapes on either side."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from specgauge.record.schema import SCRAPE_SERIES

Floats = npt.NDArray[np.float64]

COUNTED_WITHIN_S = 0.05
"""vLLM sends a step's tokens and then counts them, in one turn of its event loop; a busy machine
stretches that turn.  A scrape asked for sooner than this after the last chunk may lack it."""


@dataclass(frozen=True)
class Window:
    """Two scrape times that bracket a cell."""

    t0: float
    """The last scrape at or before the cell's begin."""
    t1: float
    """The arrival of the first scrape that was asked for after the cell's end."""
    closed: bool
    """False: no scrape came after the cell's end (the server died); t1 is the last there was."""


class Counters:
    """The scrapes of one start.

    ``frame`` holds the columns of ``record.schema.METRICS``: a row only when a value changed, so
    a series' value at time t is its last row at or before t.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._series: dict[str, list[tuple[dict[str, str], Floats, Floats]]] = {}
        scrapes: Floats = np.empty(0)
        asked: Floats = np.empty(0)
        for (name, labels), rows in frame.groupby(["name", "labels"], sort=True):
            ordered = rows.sort_values("t", kind="stable")
            t = ordered["t"].to_numpy(dtype=np.float64)
            value = ordered["value"].to_numpy(dtype=np.float64)
            if name == SCRAPE_SERIES:
                scrapes, asked = t, t - value
                continue
            self._series.setdefault(str(name), []).append(
                (json.loads(str(labels) or "{}"), t, value)
            )
        self._scrapes = scrapes
        self._asked = asked

    @cached_property
    def scrapes(self) -> Floats:
        """Times at which a scrape's response had arrived."""
        if self._scrapes.size:
            return self._scrapes
        times = [t for group in self._series.values() for _, t, _ in group]
        return np.unique(np.concatenate(times)) if times else np.empty(0)

    @property
    def asked(self) -> Floats:
        """When each of ``scrapes`` was asked for: the server's numbers are of some time between."""
        return self._asked if self._scrapes.size else self.scrapes

    def window(self, t_begin: float, t_end: float) -> Window | None:
        """The scrapes around a cell, or None where none came before it or none since."""
        before = self.scrapes[self.scrapes <= t_begin]
        after = self.scrapes[self.asked >= t_end + COUNTED_WITHIN_S]
        if not before.size:
            return None
        t1 = float(after[0]) if after.size else float(self.scrapes[-1])
        return Window(float(before[-1]), t1, bool(after.size)) if t1 > before[-1] else None

    def has(self, name: str) -> bool:
        """Whether the server ever exposed ``name``."""
        return name in self._series

    def at(self, name: str, t: float, **labels: str) -> float | None:
        """Sum over the series called ``name`` (with these labels) at ``t``.

        None if unknown: without the series, or where the server said NaN.
        """
        group = self._matching(name, labels)
        total = sum(_value_at(times, values, t) for times, values in group)
        return total if group and math.isfinite(total) else None

    def delta(self, name: str, window: Window, **labels: str) -> float | None:
        """Growth over ``window`` of the counters called ``name``, summed over their labels.

        A series that first appears inside the window counts from 0.  None without the counter.
        """
        end = self.at(name, window.t1, **labels)
        begin = self.at(name, window.t0, **labels)
        return None if end is None or begin is None else end - begin

    def changed_at(self, *names: str) -> Floats:
        """Times at which a series called one of ``names`` has a row: when those were looked at."""
        times = [t for name in names for _, t, _ in self._series.get(name, ())]
        return np.unique(np.concatenate(times)) if times else np.empty(0)

    def delta_by(self, name: str, label: str, window: Window) -> dict[str, float]:
        """Growth over ``window`` per value of ``label``."""
        values = sorted({found[label] for found, _, _ in self._series.get(name, ())
                         if label in found})  # fmt: skip
        grown = {value: self.delta(name, window, **{label: value}) for value in values}
        return {value: growth for value, growth in grown.items() if growth is not None}

    def label_of(self, name: str, wanted: str, **labels: str) -> str | None:
        """The label ``wanted`` of the first series called ``name`` with these ``labels``."""
        for found, _, _ in self._series.get(name, ()):
            if all(found.get(key) == value for key, value in labels.items()):
                return found.get(wanted)
        return None

    def sampled(self, name: str, window: Window) -> tuple[Floats, Floats]:
        """(times, values) of ``name`` at every scrape in ``window``.

        Empty without it, or where the server said NaN.
        """
        inside = (self.scrapes >= window.t0) & (self.scrapes <= window.t1)
        times = self.scrapes[inside]
        group = self._matching(name, {})
        if not group:
            return np.empty(0), np.empty(0)
        values = sum((_values_at(t, v, times) for t, v in group), np.zeros(times.size))
        return (times, values) if np.isfinite(values).all() else (np.empty(0), np.empty(0))

    def _matching(self, name: str, labels: dict[str, str]) -> list[tuple[Floats, Floats]]:
        return [
            (t, value)
            for found, t, value in self._series.get(name, ())
            if all(found.get(key) == wanted for key, wanted in labels.items())
        ]


def _value_at(times: Floats, values: Floats, t: float) -> float:
    index = int(np.searchsorted(times, t, side="right")) - 1
    return float(values[index]) if index >= 0 else 0.0


def _values_at(times: Floats, values: Floats, wanted: Floats) -> Floats:
    """``_value_at`` of many times."""
    index = np.searchsorted(times, wanted, side="right") - 1
    found: Floats = np.where(index >= 0, values[np.maximum(index, 0)], 0.0)
    return found
