"""Statistics of a few starts: t intervals on log ratios, Holm's correction, percentiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import stats

CONFIDENCE = 0.95
MIN_ROUNDS = 3
"""Fewest rounds for an interval: two give one degree of freedom, whose t quantile (12.7) says
nothing; DESIGN asks for three."""
ROUNDING = 1e-12
"""Standard error of log ratios that is nothing but floating point."""
MIN_BEYOND = 10
"""Samples that must lie beyond a percentile on its thinner side.  With ten, the percentile's own
rank is uncertain by about a third of that tail (1/sqrt(10)); with fewer it is one or two requests'
luck.  So the median needs 20 samples, p90 100, p99 1000."""


@dataclass(frozen=True)
class Ratio:
    """A ratio over rounds: geometric mean, and from three that differ an interval and a p-value."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    """Two-sided, of the hypothesis that the true ratio is 1."""
    rounds: int


def ratio(log_ratios: Sequence[float], confidence: float = CONFIDENCE) -> Ratio | None:
    """Geometric mean of the rounds' ratios with Student's t interval on their logarithms.

    ``log_ratios``: one natural logarithm per round.  None without any; no interval below
    ``MIN_ROUNDS``, nor where all are equal: what does not vary says nothing of how much it would.
    Resampling (bootstrap) so few starts would give intervals far too narrow.
    """
    n = len(log_ratios)
    if n == 0:
        return None
    mean = math.fsum(log_ratios) / n
    if n < MIN_ROUNDS:
        return Ratio(math.exp(mean), None, None, None, n)
    error = float(np.std(log_ratios, ddof=1)) / math.sqrt(n)
    if error <= ROUNDING:
        return Ratio(math.exp(mean), None, None, None, n)
    half = _quantile(confidence, n - 1) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, n - 1))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), p, n)


@cache
def _quantile(confidence: float, degrees: int) -> float:
    """Student's t beyond which ``1 - confidence`` lies on both sides together."""
    return float(stats.t.ppf((1 + confidence) / 2, degrees))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def samples_for(q: float) -> int:
    """Samples needed before the ``q`` quantile (0 < q < 1) is printed."""
    return math.ceil(round(MIN_BEYOND / min(q, 1 - q), 9))


def percentile(values: npt.ArrayLike, q: float) -> float | None:
    """The ``q`` quantile (linear interpolation), or None with fewer than ``samples_for(q)``."""
    array = np.asarray(values, dtype=np.float64)
    array = array[np.isfinite(array)]
    return float(np.quantile(array, q)) if array.size >= samples_for(q) else None


def mean(values: npt.ArrayLike) -> float | None:
    """Arithmetic mean of the finite values, or None without any."""
    array = np.asarray(values, dtype=np.float64)
    array = array[np.isfinite(array)]
    return float(array.mean()) if array.size else None


def geometric_mean(values: Sequence[float]) -> float | None:
    """Geometric mean of positive values, or None without any."""
    positive = [math.log(v) for v in values if v > 0]
    return math.exp(math.fsum(positive) / len(positive)) if positive else None
