"""The server's wait for a CPU, read from the kernel's accounts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from specgauge.record.schema import CPU_RUN, CPU_WAIT
from specgauge.scrape.cpu_waits import CpuWaits
from specgauge.scrape.process import Scraper
from specgauge.serve.cpu_accounts import TICKS, stolen

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel keeps no such accounts"
)
BUSY = "import os, time\nos.sched_setaffinity(0, {0})\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"  # noqa: E501
PARENT = f"import subprocess, sys, time\np = subprocess.Popen([sys.executable, '-c', {BUSY!r}])\ntime.sleep(20)"  # noqa: E501


def of(rows: list[tuple[float, str, str, float]], name: str, pid: int) -> list[tuple[float, float]]:
    """(time, value) of one process's series."""
    return [
        (t, v) for t, n, labels, v in rows if n == name and json.loads(labels)["pid"] == str(pid)
    ]


@pytest.fixture
def crowded():
    """A process whose child shares one CPU with two others; (parent, child)."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    parent = subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=False)
    deadline = time.monotonic() + 5
    children: list[int] = []
    while not children and time.monotonic() < deadline:
        listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        children = [int(pid) for pid in listed]
        time.sleep(0.05)
    time.sleep(0.2)
    yield parent, children[0]
    for pid in children:
        os.kill(pid, 9)
    for process in (parent, *others):
        process.kill()
        process.wait()


def test_a_child_that_shares_its_cpu_waits(crowded) -> None:
    parent, child = crowded
    waits = CpuWaits(parent.pid)
    stop = threading.Event()
    worker = threading.Thread(target=waits.run, args=(stop,))
    worker.start()
    deadline = time.monotonic() + 15
    while len(of(waits.rows, CPU_WAIT, child)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.set()
    worker.join()
    ran, waited = of(waits.rows, CPU_RUN, child), of(waits.rows, CPU_WAIT, child)
    seconds = waited[-1][0] - waited[0][0]
    grown_wait, grown_run = waited[-1][1] - waited[0][1], ran[-1][1] - ran[0][1]
    assert grown_wait > 0.3 * seconds
    assert grown_run + grown_wait == pytest.approx(seconds, rel=0.2)
    assert of(waits.rows, CPU_WAIT, parent.pid)


def test_the_scraper_writes_them_beside_the_metrics(tmp_path: Path) -> None:
    out = tmp_path / "metrics.parquet"
    scraper = Scraper("http://127.0.0.1:9", out, os.getpid())
    scraper.start()
    time.sleep(1.0)
    scraper.stop()
    rows = pq.read_table(out).to_pylist()
    own = [r for r in rows if r["name"] == CPU_RUN and f'"{os.getpid()}"' in r["labels"]]
    assert own
    assert json.loads(own[0]["labels"])["process"]


def test_what_a_hypervisor_took_is_the_eighth_number_of_the_machine_s_line(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(f"cpu  9 9 9 9 9 9 9 {7 * TICKS} 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    assert stolen(stat) == 7.0
    stat.write_text("cpu  9 9 9 9\n")
    assert stolen(stat) is None
    assert stolen(tmp_path / "none") is None
