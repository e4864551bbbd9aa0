"""CPU waits that the server's own container sampled, into ``metrics.parquet``."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from specgauge.record.atomic import write_parquet
from specgauge.record.schema import METRICS
from specgauge.scrape.cpu_waits import Row, row_of


def merge_cpu_waits(samples: Path, metrics: Path) -> None:
    """Put the samples that the server's container wrote into the scraper's file; then remove them.

    Both clocks are this host's monotonic one.

    Args:
        samples: a ``cpu_accounts.AccountsFile``; need not be there.
        metrics: a ``metrics.parquet``; where there is none, the samples are for nobody.

    Raises:
        EnvironmentFault: the file cannot be written.
    """
    rows: list[Row] = []
    with contextlib.suppress(OSError):
        for line in samples.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):  # cut off by the end
                rows.append(row_of(json.loads(line)))
    if rows and metrics.is_file():
        columns = zip(*rows, strict=True)
        more = [pa.array(c, type=f.type) for c, f in zip(columns, METRICS, strict=True)]
        table = pa.Table.from_arrays(more, schema=METRICS)
        write_parquet(metrics, pa.concat_tables([pq.read_table(metrics, schema=METRICS), table]))
    samples.unlink(missing_ok=True)
