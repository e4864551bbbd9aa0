"""Writes the sampler's rows as ``telemetry.parquet``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from specgauge.gpu.sampler import Row
from specgauge.record.atomic import write_parquet
from specgauge.record.schema import TELEMETRY


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write ``rows`` whole.  Raises EnvironmentFault."""
    columns = list(zip(*rows, strict=True)) or [()] * len(TELEMETRY)
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, TELEMETRY, strict=True)]
    write_parquet(path, pa.Table.from_arrays(arrays, schema=TELEMETRY))
