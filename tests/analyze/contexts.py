"""Contexts of synthetic cells, and what the checks say of them."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from synthetic_run import NGRAM, Built, Plant, scrapes

from specgauge.analyze import validity
from specgauge.analyze.context import CellContext, StartContext
from specgauge.analyze.counters import Counters
from specgauge.analyze.document import Reason
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.records import (
    CellRecord,
    LoadSetup,
    RunSetup,
    StartRecord,
    VariantSetup,
)
from specgauge.record.schema import METRICS

OTHER = '{"engine":"1"}'
WATCHED = EngineTraits(jit_monitor=True)


def context(
    built: Built,
    *,
    requests: pd.DataFrame | None = None,
    chunks: pd.DataFrame | None = None,
    document: dict[str, object] | None = None,
    extra: dict[str, float] | None = None,
    variant: VariantSetup | None = None,
    warmup: tuple[CellRecord, ...] = (),
    first: bool = False,
    again: CellRecord | None = None,
    own: EngineTraits = WATCHED,
    baseline: EngineTraits | None = None,
) -> CellContext:
    """A cell's context; the keywords change one thing each."""
    record = built.record
    assert record.document is not None
    record = replace(
        record,
        requests=record.requests if requests is None else requests,
        chunks=record.chunks if chunks is None else chunks,
        document=record.document.model_copy(update=document or {}),
    )
    assert built.record.document is not None
    t0, t1 = built.record.document.t_begin - 1, built.record.document.t_end + 1
    metrics = scrapes(built.events, t0, t1).to_pandas()
    middle = (t0 + t1) / 2
    rows = [(middle, name, OTHER, value) for name, value in (extra or {}).items()]
    rows += [(t0, name, OTHER, 0.0) for name in extra or {}]
    metrics = pd.concat([metrics, pd.DataFrame(rows, columns=METRICS.names)])
    start = StartRecord(record.variant, 0, None, None, (), metrics, (record,), warmup, again)
    setup = RunSetup(
        "e", "r", "m", "vanilla",
        (VariantSetup("vanilla"), variant or VariantSetup("ngram", NGRAM)),
        (LoadSetup("c1", record.document.planned_requests, 1),),
    )  # fmt: skip
    return CellContext(record, StartContext(start, Counters(metrics), own), setup, baseline, first)


def codes(cell: CellContext) -> list[str]:
    return [r.code for r in validity.check_cell(cell)]


def reason(cell: CellContext, code: str) -> Reason:
    (found,) = [r for r in validity.check_cell(cell) if r.code == code]
    return found


CLEAN = Plant(requests=20)


def changed(built: Built, row: int, **values: object) -> pd.DataFrame:
    frame = built.record.requests.copy()
    for column, value in values.items():
        frame.loc[row, column] = value
    return frame
