"""CPU accounts with a planted truth, around synthetic cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from specgauge.analyze.context import CellContext
from specgauge.analyze.counters import Counters
from specgauge.record.schema import METRICS

ENGINE = '{"pid":"7","process":"VLLM::EngineCor"}'
API = '{"pid":"5","process":"python3"}'
MACHINE = "{}"

Series = tuple[str, str]
"""Name and labels."""


def with_rows(
    cell: CellContext, rows: Sequence[tuple[float, str, str, float]], instead_of: str = ""
) -> CellContext:
    """``cell`` with more rows of ``metrics.parquet``, in the place of those of one name."""
    more = pd.DataFrame(rows, columns=METRICS.names)
    kept = cell.start.record.metrics
    kept = kept[kept["name"] != instead_of]
    metrics = pd.concat([kept, more], ignore_index=True)
    record = replace(cell.start.record, metrics=metrics)
    return replace(cell, start=replace(cell.start, record=record, counters=Counters(metrics)))


def accounts(
    cell: CellContext, before: float, after: float, grown: Mapping[Series, float]
) -> CellContext:
    """Samples ``before`` seconds ahead of the first send and ``after`` seconds past the last chunk.

    Between those two each series has ``grown``; to others further off nothing more.
    """
    assert cell.span is not None
    begin, end = cell.span.t0 - before, cell.span.t1 + after
    rows = []
    for (name, labels), seconds in grown.items():
        rows += [(begin - 1, name, labels, 3.0), (begin, name, labels, 4.0)]
        rows += [(end, name, labels, 4.0 + seconds), (end + 1, name, labels, 5.0 + seconds)]
    return with_rows(cell, rows)
