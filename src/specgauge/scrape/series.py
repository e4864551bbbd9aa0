"""Scrapes as a table of changes (schema.METRICS)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from specgauge.record.schema import METRICS, SCRAPE_SERIES
from specgauge.scrape.parse import samples


@dataclass(frozen=True)
class Scrape:
    """One response's text."""

    t: float
    """Monotonic seconds: its last byte had arrived."""
    seconds: float
    """From the request to that."""
    text: Callable[[], str]
    """Gives the text (it is kept compressed)."""


def changes(scrapes: Iterable[Scrape]) -> pa.Table:
    """A row when a series is first seen and whenever its value differs from its last row.

    A scrape that cannot be parsed (cut off, or not metrics at all) counts for nothing but its
    ``SCRAPE_SERIES`` row.  NaN is equal to itself here.
    """
    rows: list[tuple[float, str, str, float]] = []
    last: dict[tuple[str, str], float] = {}
    previous: str | None = None
    for scrape in scrapes:
        text = scrape.text()
        for name, labels, value in [] if text == previous else _parsed(text):
            before = last.get((name, labels))
            if before is None or not _same(before, value):
                last[name, labels] = value
                rows.append((scrape.t, name, labels, value))
        previous = text
        rows.append((scrape.t, SCRAPE_SERIES, "{}", scrape.seconds))
    columns = list(zip(*rows, strict=True)) or [()] * len(METRICS)
    return pa.Table.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, METRICS, strict=True)],
        schema=METRICS,
    )


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _parsed(text: str) -> list[tuple[str, str, float]]:
    try:
        return list(samples(text))
    except ValueError:
        return []
