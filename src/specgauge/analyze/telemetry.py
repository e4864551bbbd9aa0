"""What a GPU told of itself while cells were measured: energy, clocks, tenants.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from specgauge.gpu import throttle
from specgauge.record.schema import TELEMETRY

Floats = npt.NDArray[np.float64]
EnergySource = Literal["energy counter", "integral of power"]

MAX_HOLE_S = 1.0
"""Between two samples of energy or power: five on the grid.  What is drawn in a longer hole is not
known; over one second the error is at most a second of the card's swing in a cell of many."""


@dataclass(frozen=True)
class Energy:
    """What the card drew over a span."""

    joules: float
    source: EnergySource


@dataclass(frozen=True)
class Looks:
    """Looks at who is on the card."""

    times: Floats
    ours: Floats
    other: Floats
    unknown: Floats
    words: tuple[str, ...]
    """Others in words; empty where there were none."""


class Telemetry:
    """The samples of one start; ``frame`` holds the columns of ``record.schema.TELEMETRY``."""

    def __init__(self, frame: pd.DataFrame) -> None:
        if frame.empty:
            frame = pd.DataFrame(columns=TELEMETRY.names)
        self._frame = frame.sort_values("t", kind="stable")
        self._t = self._column("t")

    @property
    def empty(self) -> bool:
        """Nothing was recorded."""
        return not self._t.size

    @property
    def begin(self) -> float:
        """Time of the first sample; only where there is one."""
        return float(self._t[0])

    def energy(self, t0: float, t1: float) -> Energy | None:
        """What the card drew from ``t0`` to ``t1``, idle draw included.

        The difference of its counter, interpolated between the samples around either end; else
        (no counter, or it fell because the driver was loaded anew) the integral of power by the
        trapezoid rule.  None where samples do not lie around the span without a hole.
        """
        times, counter = self._told("energy_j", t0, t1)
        if times.size and (np.diff(counter) >= 0).all():
            begin, end = np.interp([t0, t1], times, counter)
            return Energy(float(end - begin), "energy counter")
        times, power = self._told("power_w", t0, t1)
        if not times.size:
            return None
        inner = times[(times > t0) & (times < t1)]
        grid = np.concatenate(([t0], inner, [t1]))
        return Energy(float(np.trapezoid(np.interp(grid, times, power), grid)), "integral of power")

    def values(self, column: str, t0: float, t1: float) -> Floats:
        """The samples of ``column`` in the span that have a value."""
        inside = self._column(column)[(self._t >= t0) & (self._t <= t1)]
        return inside[np.isfinite(inside)]

    def throttled(self, t0: float, t1: float) -> dict[int, float]:
        """Bit of NVML's mask → share of the samples in the span that have it; without idle."""
        masks = self.values("throttle_reasons", t0, t1).astype(np.int64)
        bits = (1 << n for n in range(1, 63))
        shares = {bit: float(((masks & bit) != 0).mean()) for bit in bits} if masks.size else {}
        return {bit: share for bit, share in shares.items() if share > 0}

    def looks(self, t0: float, t1: float) -> Looks:
        """Looks at the tenants in the span at which the driver said who is there."""
        other = self._column("other")
        at = (self._t >= t0) & (self._t <= t1) & np.isfinite(other)
        told = self._frame["others"].to_numpy()[at]
        return Looks(
            self._t[at],
            self._column("ours")[at],
            other[at],
            self._column("unknown")[at],
            tuple(dict.fromkeys(text for text in told if isinstance(text, str) and text)),
        )

    def drawn(self, t0: float, t1: float) -> tuple[Floats, Floats, Floats, float]:
        """Power between neighbouring samples of the span: (begins, ends, watts, lag in seconds).

        By the counter where there is one (``lag`` 0); else power samples, each of which is the
        mean of up to a second before it (NVML's documentation; ``lag`` 1).
        """
        counter = self._column("energy_j")
        power = self._column("power_w")
        by_counter = bool(np.isfinite(counter).any())
        source = counter if by_counter else power
        at = (self._t >= t0) & (self._t <= t1) & np.isfinite(source)
        times, told = self._t[at], source[at]
        gaps = np.diff(times)
        watts = np.diff(told) / np.where(gaps > 0, gaps, np.nan) if by_counter else told[1:]
        return times[:-1], times[1:], watts, 0.0 if by_counter else 1.0

    def _told(self, column: str, t0: float, t1: float) -> tuple[Floats, Floats]:
        """(times, values) from the last sample before the span to the first after it.

        Empty where there is none on a side, or a hole.
        """
        value = self._column(column)
        known = np.isfinite(value)
        times, values = self._t[known], value[known]
        before, after = times <= t0, times >= t1
        if not before.any() or not after.any():
            return np.empty(0), np.empty(0)
        first, last = int(np.flatnonzero(before)[-1]), int(np.flatnonzero(after)[0])
        times, values = times[first : last + 1], values[first : last + 1]
        if times.size < 2 or np.diff(times).max() > MAX_HOLE_S:
            return np.empty(0), np.empty(0)
        return times, values

    def _column(self, name: str) -> Floats:
        found: Floats = self._frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        return found


def slowdown_share(shares: dict[int, float]) -> float:
    """The largest share among the bits that mean heat or a hardware slowdown."""
    return max((s for bit, s in shares.items() if bit & throttle.SLOWDOWN), default=0.0)
