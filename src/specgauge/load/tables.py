"""Records as Arrow tables: one process's parts, and the merge of several."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from specgauge.load.completion import rows
from specgauge.load.exchange import Exchange
from specgauge.load.job import Parts
from specgauge.record.schema import CHUNKS, REQUESTS

_BATCH = 200


def write_parts(
    parts: Parts, exchanges: Iterable[Exchange], offset_ns: int, temperature: float | None
) -> None:
    """Parse the exchanges and write their rows; raw bytes are let go as they are read."""
    requests: list[dict[str, Any]] = []
    tables: list[pa.Table] = []
    pending: list[dict[str, Any]] = []
    for exchange in exchanges:
        request, chunks = rows(exchange, offset_ns, temperature)
        exchange.body, exchange.reads = [], []
        requests.append(request)
        pending += chunks
        if len(pending) > _BATCH * 100:
            tables.append(pa.Table.from_pylist(pending, schema=CHUNKS))
            pending = []
    tables.append(pa.Table.from_pylist(pending, schema=CHUNKS))
    pq.write_table(pa.concat_tables(tables), parts.chunks)
    pq.write_table(pa.Table.from_pylist(requests, schema=REQUESTS), parts.requests)


def merge(parts: list[Parts], *, closed: bool) -> tuple[pa.Table, pa.Table]:
    """(requests, chunks) of all processes, by index.

    In closed loads each process has numbered its users from 0: here they become one series.
    """
    requests = []
    before = 0
    for part in parts:
        table = _read(part.requests, REQUESTS)
        if closed and table.num_rows:
            slots = table.column("slot")
            users = pc.max(slots).as_py() + 1
            shifted = pc.add(slots, pa.scalar(before, pa.int32()))
            table = table.set_column(
                REQUESTS.get_field_index("slot"), REQUESTS.field("slot"), shifted
            )
            before += users
        requests.append(table)
    chunks = [_read(part.chunks, CHUNKS) for part in parts]
    return (
        pa.concat_tables(requests).sort_by("index"),
        pa.concat_tables(chunks).sort_by([("request", "ascending"), ("seq", "ascending")]),
    )


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    return pq.read_table(path, schema=schema) if path.is_file() else schema.empty_table()
