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


def changes(
    scrapes: Iterable[Scrape], more: Iterable[tuple[float, str, str, float]] = ()
) -> pa.Table:
    """A row when a series is first seen and whenever its value differs from its last row.

    ``more``: rows of other sources, already so.

    Only lines that the scrape before did not have are parsed: most of a scrape's thousand lines
    stay the same.  A scrape that cannot be parsed (cut off, or not metrics at all) counts for
    nothing but its ``SCRAPE_SERIES`` row.  NaN is equal to itself here.
    """
    rows: list[tuple[float, str, str, float]] = []
    last: dict[tuple[str, str], float] = {}
    before: set[str] = set()
    for scrape in scrapes:
        lines = scrape.text().split("\n")
        try:
            found = list(samples(_text_of(line for line in lines if line not in before)))
        except ValueError:
            found = []
        else:
            before = set(lines)
        for name, labels, value in found:
            known = last.get((name, labels))
            if known is None or not _same(known, value):
                last[name, labels] = value
                rows.append((scrape.t, name, labels, value))
        rows.append((scrape.t, SCRAPE_SERIES, "{}", scrape.seconds))
    rows += more
    columns = list(zip(*rows, strict=True)) or [()] * len(METRICS)
    return pa.Table.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, METRICS, strict=True)],
        schema=METRICS,
    )


def _text_of(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines if not line.startswith("#"))


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
