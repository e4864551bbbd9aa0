"""Measures how late our records are: against a source that stamps each chunk as it writes it.

Every open stream gets a chunk at each 10 ms tick, all at once.  Lag = recorded arrival - the
source's stamp, for the kernel's times (``t``) and for user space's (``t_user``).

    python benchmarks/lag.py --out benchmarks/results/lag.json
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from specgauge.load.cell import CellPlan, PlannedRequest, run_load
from specgauge.record.atomic import write_json
from specgauge.record.layout import CellPaths
from specgauge.run.machine import machine_facts

SOURCE = Path(__file__).resolve().parent.parent / "tests" / "load" / "stamped_source.py"
TICK_S = 0.01


def measure(streams: int, chunks: int) -> dict[str, Any]:
    """One load of ``streams`` requests at once."""
    source = subprocess.Popen(
        [sys.executable, str(SOURCE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert source.stdout is not None
    plan = CellPlan(
        url=f"http://127.0.0.1:{source.stdout.readline().strip()}",
        model="m",
        concurrency=streams,
        rate=None,
        workers=0,
        requests=tuple(
            PlannedRequest(i, str(i), "", tuple(range(100)), chunks, i) for i in range(streams)
        ),
        ignore_eos=True,
        temperature=0.0,
        extra_body={"tick": TICK_S, "aligned": True},
        request_timeout_s=120.0,
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = CellPaths(Path(folder))
        result = run_load(plan, paths, on_progress=lambda _: None, should_stop=lambda: None)
        records = pq.read_table(paths.chunks).to_pylist()
    log = json.loads(source.communicate()[0])["log"]
    stamps = {entry["body"]["seed"]: entry["stamps"] for entry in log}
    true = np.array([stamps[row["request"]][row["seq"]] for row in records])
    (client,) = result.clients
    return {
        "streams": streams,
        "chunks": len(records),
        "kernel_stamps": client.timestamps == "kernel",
        "kernel_lag_ms": quantiles(np.array([row["t"] for row in records]) - true),
        "user_lag_ms": quantiles(np.array([row["t_user"] for row in records]) - true),
        "shared_stamps": float(np.mean([row["shared_read"] > 1 for row in records])),
        "client_cpu_us_per_chunk": client.cpu_s / len(records) * 1e6,
    }


def quantiles(lag: np.ndarray) -> dict[str, float]:
    """p50, p99 and maximum in ms."""
    p50, p99, most = np.percentile(lag, [50, 99, 100]) * 1e3
    return {"p50": round(p50, 4), "p99": round(p99, 4), "max": round(most, 4)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--chunks", type=int, default=512)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    print("| streams | kernel lag p50 / p99 | user lag p50 / p99 | shared stamps | CPU a chunk |")
    print("|---|---|---|---|---|")
    rows = []
    for streams in options.streams:
        row = measure(streams, options.chunks)
        rows.append(row)
        kernel, user = row["kernel_lag_ms"], row["user_lag_ms"]
        print(
            f"| {streams} | {kernel['p50']:.3f} / {kernel['p99']:.3f} ms "
            f"| {user['p50']:.2f} / {user['p99']:.2f} ms | {row['shared_stamps']:.2%} "
            f"| {row['client_cpu_us_per_chunk']:.0f} us |",
            flush=True,
        )
    if options.out:
        date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        document = {"date": date, "machine": machine_facts(), "tick_s": TICK_S, "rows": rows}
        write_json(options.out, document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
