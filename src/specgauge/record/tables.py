"""Reads one parquet table of a results folder; a damaged one is named, never half understood."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from specgauge.errors import UsageError
from specgauge.record.schema import ALWAYS_THERE, STATES


def read_table(path: Path, schema: pa.Schema) -> pd.DataFrame:
    """The table at ``path``, or an empty one where there is none.

    Raises:
        UsageError: damaged; a column of ``schema`` is missing or of another type; null or infinite
            where that cannot be.
    """
    if not path.exists():
        return frame(schema.empty_table())
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise UsageError(f"{path}: the columns {', '.join(missing)} are missing")
    try:
        table = table.select(schema.names).cast(schema)
    except pa.ArrowException as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    for name in ALWAYS_THERE.get(path.stem, ()):
        if table[name].null_count:
            raise UsageError(f"{path}: {table[name].null_count} rows have no {name}")
    for name in (n for n in schema.names if n == "t" or n.startswith("t_")):
        times = table[name].drop_null().to_numpy()
        if np.isinf(times).any() or (name == "t" and np.isnan(times).any()):
            raise UsageError(f"{path}: {name} holds times that are none")
    if "state" in schema.names:
        _only_known_states(path, table)
    if "labels" in schema.names:
        _labels_are_objects(path, table)
    return frame(table)


def _only_known_states(path: Path, table: pa.Table) -> None:
    odd = sorted(set(pc.unique(table["state"]).to_pylist()) - set(STATES))
    if odd:
        raise UsageError(f"{path}: unknown state {odd[0]!r}; there are {', '.join(STATES)}")


def _labels_are_objects(path: Path, table: pa.Table) -> None:
    for text in pc.unique(table["labels"]).to_pylist():
        try:
            found = json.loads(text or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UsageError(f"{path}: labels {text!r} are no JSON object")


def frame(table: pa.Table) -> pd.DataFrame:
    """``table`` as pandas: whole numbers that may be missing stay whole (Int64 and the like)."""
    nullable = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    result: pd.DataFrame = table.to_pandas(types_mapper=nullable.get)
    return result
