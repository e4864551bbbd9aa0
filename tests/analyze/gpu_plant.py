"""Telemetry with a planted truth, on the sampler's grid."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from specgauge.record import atomic
from specgauge.record.layout import RunPaths
from specgauge.record.schema import TELEMETRY
from specgauge.record.tables import frame

OverTime = float | None | Callable[[float], float | None]
H200 = {"name": "NVIDIA H200", "uuid": "GPU-a", "max_sm_clock_mhz": 1980, "power_limit_w": 700.0}


@dataclass(frozen=True)
class Card:
    """What a planted card does; a function is of the time in seconds."""

    power_w: OverTime = 500.0
    counter: bool = True
    sm_clock_mhz: OverTime = 1980
    throttle: OverTime = 0
    utilisation: OverTime = 0.9
    ours: OverTime = 1
    other: OverTime = 0
    unknown: OverTime = 0
    told: bool = True
    """The driver says who is on it."""


def at(value: OverTime, t: float) -> float | None:
    return value(t) if callable(value) else value


def table(card: Card, t0: float, t1: float, hz: float = 5.0) -> pa.Table:
    """Samples from ``t0`` to ``t1``; energy by the planted power every 10 ms."""
    joules, since, rows = 7e6, t0, []
    for n, t in enumerate(np.arange(t0, t1, 1 / hz)):
        middles = since + (np.arange(20) + 0.5) * (t - since) / 20
        watts = [at(card.power_w, s) or 0.0 for s in middles]
        joules, since = joules + (t - since) * sum(watts) / 20, t
        row: dict[str, Any] = dict.fromkeys(TELEMETRY.names)
        row |= {
            "t": float(t),
            "power_w": at(card.power_w, t),
            "energy_j": joules if card.counter else None,
            "sm_clock_mhz": at(card.sm_clock_mhz, t),
            "temperature_c": 60,
            "throttle_reasons": at(card.throttle, t),
            "utilisation": at(card.utilisation, t),
            "memory_used": 2**33,
        }
        if n % 5 == 0 and card.told:
            row |= {name: at(getattr(card, name), t) for name in ("ours", "other", "unknown")}
            strange = (row["other"] or 0) + (row["unknown"] or 0)
            row["others"] = "pid 4711 of ann (python train.py), 12.0 GiB" if strange else None
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=TELEMETRY)


def samples(card: Card, t0: float, t1: float) -> pd.DataFrame:
    """As the reader gives them."""
    return frame(table(card, t0, t1))


def plant(run: Path, cards: dict[tuple[str, int], Card], gpu: dict[str, Any] | None = None) -> None:
    """Give the starts of a run on disk a GPU."""
    paths = RunPaths(run)
    manifest = json.loads(paths.manifest.read_text())
    atomic.write_json(paths.manifest, {**manifest, "gpu": gpu or H200})
    for (variant, k), card in cards.items():
        start = paths.start(variant, k)
        cells = [json.loads(c.cell.read_text()) for _, _, c in start.cells()]
        t0 = min(c["t_begin"] for c in cells) - 2.0
        t1 = max(c["t_end"] for c in cells) + 2.0
        atomic.write_parquet(start.telemetry, table(card, t0, t1))
