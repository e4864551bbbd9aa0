"""The scraper's process: a fixed grid, a server that comes and goes, and a file in every case."""

import http.server
import itertools
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from specgauge.errors import EnvironmentFault
from specgauge.record.schema import METRICS, SCRAPE_HZ, SCRAPE_SERIES
from specgauge.scrape.collect import Collector, next_tick
from specgauge.scrape.process import Scraper

pytestmark = pytest.mark.system


class MetricsServer:
    """Counts its scrapes in ``scrapes_total``; may be slow at chosen ones."""

    def __init__(self) -> None:
        self.count = 0
        self.slow: dict[int, float] = {}
        self.status = 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.count += 1
                time.sleep(outer.slow.get(outer.count, 0.0))
                body = f"# TYPE scrapes counter\nscrapes_total {outer.count}\n".encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def metrics() -> Iterator[MetricsServer]:
    server = MetricsServer()
    yield server
    server.close()


def collect(url: str, seconds: float) -> list[float]:
    collector, stop = Collector(url), threading.Event()
    threading.Timer(seconds, stop.set).start()
    collector.run(stop)
    return [scrape.t for scrape in collector.scrapes]


def test_the_next_tick_is_after_this_one_and_still_to_come():
    assert next_tick(0, 0.0) == 1
    assert next_tick(0, 0.99) == 1
    assert next_tick(2, 3.75) == 4
    assert next_tick(3, 2.999) == 4  # woken a hair early


def test_a_slow_scrape_does_not_shift_the_grid(metrics):
    """Had the grid shifted, every scrape after the slow one would be off by 0.75 periods."""
    metrics.slow = {3: 0.35}
    times = collect(metrics.url, 2.0)
    places = [(t - times[0]) * SCRAPE_HZ for t in times]
    on_grid = [abs(place - round(place)) < 0.2 for place in places[3:-1]]
    assert sum(on_grid) > len(on_grid) / 2
    assert places[3] - places[1] > 2.5


def test_no_server_and_another_status_give_no_scrape(metrics):
    metrics.status = 503
    assert collect(metrics.url, 0.3) == []
    assert metrics.count >= 2
    assert collect("http://127.0.0.1:9", 0.1) == []


def test_its_record_holds_the_counter_at_five_a_second_and_at_the_end(metrics, tmp_path):
    out = tmp_path / "new" / "metrics.parquet"
    scraper = Scraper(metrics.url, out)
    scraper.start()
    while metrics.count < 5:
        time.sleep(0.02)
    began = time.monotonic()
    scraper.stop()
    assert time.monotonic() - began < 10
    scraper.stop()
    table = pq.read_table(out)
    assert table.schema.equals(METRICS)
    rows = [row for row in table.to_pylist() if row["name"] == "scrapes_total"]
    assert [row["value"] for row in rows] == list(range(1, metrics.count + 1))
    gaps = [b["t"] - a["t"] for a, b in itertools.pairwise(rows[:-1])]
    assert 0.15 < statistics.median(gaps) < 0.25
    durations = [row for row in table.to_pylist() if row["name"] == SCRAPE_SERIES]
    assert [row["t"] for row in durations] == [row["t"] for row in rows]


def test_a_server_that_goes_away_is_normal(metrics, tmp_path):
    scraper = Scraper(metrics.url, tmp_path / "m.parquet")
    scraper.start()
    while metrics.count < 2:
        time.sleep(0.02)
    metrics.close()
    time.sleep(0.3)
    scraper.stop()
    assert pq.read_table(tmp_path / "m.parquet").num_rows >= 3


def test_it_writes_when_its_parent_dies(metrics, tmp_path):
    out = tmp_path / "m.parquet"
    code = (
        "import sys, time; from pathlib import Path; from specgauge.scrape.process import Scraper\n"
        f"Scraper({metrics.url!r}, Path({str(out)!r})).start(); print(flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    parent.stdout.readline()
    while metrics.count < 2:
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while not out.is_file():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_file_that_cannot_be_written_is_told(metrics, tmp_path):
    (tmp_path / "file").write_text("")
    scraper = Scraper(metrics.url, tmp_path / "file" / "m.parquet")
    scraper.start()
    with pytest.raises(EnvironmentFault, match=r"m\.parquet"):
        scraper.stop()
