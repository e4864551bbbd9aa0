"""Runs of a few cells, and what of their summary is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
from synthetic_run import (
    BASE,
    NGRAM,
    VANILLA_LOG,
    StartPlant,
)

from specgauge.analyze.document import Cell, Comparison
from specgauge.analyze.summary import Summary
from specgauge.record.layout import RunPaths

C1 = ({"requests": 8, "concurrency": 1},)


def vanilla(*steps: float, **more: object) -> StartPlant:
    """A vanilla start with one c1 repeat per step time."""
    plants = [replace(BASE, step_s=step) for step in steps]
    return replace(StartPlant({"c1": plants}, log=VANILLA_LOG), **more)


def other(*steps: float, **more: object) -> StartPlant:
    """A start of another variant that drafts nothing: only its steps differ."""
    return replace(vanilla(*steps), speculative_config=NGRAM, **more)


def of(summary: Summary, metric: str = "output_tok_s", load: str = "c1") -> Comparison:
    (found,) = [c for c in summary.comparisons if c.metric == metric and c.load == load]
    return found


def cell(summary: Summary, variant: str, start: int = 0, load: str = "c1") -> Cell:
    (found,) = [c for c in summary.cells if (c.variant, c.start, c.load) == (variant, start, load)]
    return found


def throughput(step: float) -> float:
    """Of one synthetic c1 cell."""
    return 8 * 64 / (8 * (0.1 + 63 * step) + 7 * 0.0001)


def break_cell(folder: Path, variant: str, start: int) -> None:
    """Give the c1 cell a failed request."""
    at = RunPaths(folder).start(variant, start).cell("c1", 0)
    requests = pd.read_parquet(at.requests, dtype_backend="pyarrow")
    requests.loc[0, "state"] = "failed"
    requests.to_parquet(at.requests)
