"""Output tokens per second through a cell, in equal bins."""

from __future__ import annotations

import numpy as np
import pandas as pd

from specgauge.analyze.throughput import Span

BINS = 150
"""About one a pixel column and a half of a printed figure."""
MIN_BIN_S = 0.1


def tokens_over_time(chunks: pd.DataFrame, span: Span) -> list[tuple[float, float]]:
    """(seconds after the first send at the bin's begin, tokens per second in it)."""
    width = max(span.seconds / BINS, MIN_BIN_S)
    count = max(int(np.ceil(span.seconds / width)), 1)
    edges = span.t0 + width * np.arange(count + 1)
    times = chunks["t"].to_numpy(dtype=np.float64)
    tokens = chunks["tokens"].to_numpy(dtype=np.float64)
    sums, _ = np.histogram(times, bins=edges, weights=tokens)
    return [(float(edge - span.t0), float(n / width)) for edge, n in zip(edges, sums, strict=False)]
