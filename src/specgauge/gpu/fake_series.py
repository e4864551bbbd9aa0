"""Values of planted cards over time: constant, in steps, or gently swinging.  Stdlib only."""

from __future__ import annotations

from collections.abc import Sequence

Series = float | str | Sequence[Sequence[float]] | None
"""A number; ``swing``; steps ``[[from_s, value], …]``, the first from 0; None: not told."""

SWING = "swing"
"""A saw tooth from 300 to 310 in ten seconds, so that graphs move."""
_PERIOD = 10.0
_LOW = 300.0


def value_at(series: Series, t: float) -> float | None:
    """Its value ``t`` seconds after the first look."""
    if series is None or isinstance(series, int | float):
        return series
    if isinstance(series, str):
        return _LOW + t % _PERIOD
    return [value for since, value in series if since <= t or since == series[0][0]][-1]


def integral(series: Series, t: float) -> float | None:
    """Its integral from 0 to ``t``."""
    if series is None:
        return None
    if isinstance(series, int | float):
        return series * t
    if isinstance(series, str):
        whole, rest = divmod(t, _PERIOD)
        return _LOW * t + whole * _PERIOD**2 / 2 + rest**2 / 2
    total = 0.0
    for n, (since, value) in enumerate(series):
        begin = 0.0 if n == 0 else since
        end = series[n + 1][0] if n + 1 < len(series) else t
        total += value * max(min(end, t) - min(begin, t), 0.0)
    return total
