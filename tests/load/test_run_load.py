"""The whole way, Locust included: exactly once, in order, true times, and a certain end."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from specgauge.load import processes
from specgauge.load.cell import LoadInterrupted, LoadProgress, run_load
from specgauge.record.layout import CellPaths
from specgauge.record.schema import CHUNKS, REQUESTS

pytestmark = pytest.mark.system


def never():
    return None


def read(paths):
    requests, chunks = pq.read_table(paths.requests), pq.read_table(paths.chunks)
    assert requests.schema.equals(REQUESTS)
    assert chunks.schema.equals(CHUNKS)
    return requests.to_pylist(), chunks.to_pylist()


def locusts_of(pid: int) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            if "locust" in child.cmdline():
                found.append(child)
    return found


def test_a_closed_load_is_sent_once_in_order_and_timed_truly(source, make_plan, tmp_path):
    plan, paths = make_plan(source.url, 10, concurrency=4, tokens=40), CellPaths(tmp_path)
    seen: list[LoadProgress] = []
    result = run_load(plan, paths, on_progress=seen.append, should_stop=never)
    assert (result.error, result.exit_code, result.stopped) == (None, 0, False)
    assert seen[-1] == LoadProgress(sent=10, done=10, failed=0, tokens=seen[-1].tokens)
    assert seen[-1].tokens >= 400
    assert result.t_begin < result.t_go < result.t_end
    (client,) = result.clients
    assert client.cpu_s > 0
    assert abs(client.clock.begin - client.clock.end) < 1e-3

    requests, chunks = read(paths)
    log = source.end()
    assert [entry["body"]["seed"] for entry in log["log"]] == list(range(10))
    assert log["most"] == 4
    assert len({entry["connection"] for entry in log["log"]}) == 4
    assert [row["index"] for row in requests] == list(range(10))
    assert {row["state"] for row in requests} == {"ok"}
    assert {row["slot"] for row in requests} == {0, 1, 2, 3}
    assert [row["prompt_tokens"] for row in requests] == [10 + k for k in range(10)]
    true = [stamp for entry in log["log"] for stamp in entry["stamps"]]
    lags = sorted(chunk["t"] - stamp for chunk, stamp in zip(chunks, true, strict=True))
    assert lags[0] > -1e-5
    assert lags[len(lags) // 2] < (0.0005 if client.timestamps == "kernel" else 0.005)
    assert "Starting Locust" in paths.locust_log.read_text()
    assert "@specgauge" not in paths.locust_log.read_text()


def test_workers_share_the_load(source, make_plan, tmp_path):
    plan, paths = make_plan(source.url, 7, concurrency=3, workers=2), CellPaths(tmp_path)
    result = run_load(plan, paths, on_progress=lambda _: None, should_stop=never)
    assert (result.error, result.exit_code) == (None, 0)
    assert [client.worker for client in result.clients] == [0, 1]
    requests, _chunks = read(paths)
    assert [row["index"] for row in requests] == list(range(7))
    assert {row["state"] for row in requests} == {"ok"}
    assert [row["worker"] for row in requests] == [0, 1, 0, 1, 0, 1, 0]
    assert {row["slot"] for row in requests} == {0, 1, 2}
    assert min(row["t_ready"] for row in requests) == result.t_go
    assert source.end()["most"] <= 3


def test_told_to_stop_it_keeps_what_it_has(source, make_plan, tmp_path):
    """TERM in the middle: the finished are ok, the running cut, the others have no row."""
    plan = make_plan(source.url, 50, concurrency=2, tokens=30)
    paths, seen = CellPaths(tmp_path), []

    def should_stop():
        return "the server died" if seen and seen[-1].done >= 2 else None

    result = run_load(plan, paths, on_progress=seen.append, should_stop=should_stop)
    assert (result.error, result.stopped) == ("the server died", True)
    assert result.clients
    requests, chunks = read(paths)
    states = [row["state"] for row in requests]
    assert states.count("ok") >= 2
    assert 1 <= states.count("cut") <= 2
    assert len(states) < 50
    assert len(chunks) >= 60
    assert not locusts_of(os.getpid())


def test_ctrl_c_keeps_it_too_and_goes_on(source, make_plan, tmp_path):
    plan, paths, seen = make_plan(source.url, 50, tokens=30), CellPaths(tmp_path), []

    def should_stop():
        if seen and seen[-1].sent:
            raise KeyboardInterrupt
        return

    with pytest.raises(LoadInterrupted) as caught:
        run_load(plan, paths, on_progress=seen.append, should_stop=should_stop)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert caught.value.result.stopped
    assert "cut" in {row["state"] for row in read(paths)[0]}
    assert not locusts_of(os.getpid())


def test_locust_that_cannot_start_says_why(source, make_plan, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "LOCUSTFILE", tmp_path / "missing.py")
    paths = CellPaths(tmp_path / "cell")
    result = run_load(
        make_plan(source.url, 3), paths, on_progress=lambda _: None, should_stop=never
    )
    assert result.exit_code != 0
    assert "missing.py" in result.error
    assert not result.stopped
    assert read(paths) == ([], [])
    assert "missing.py" in paths.locust_log.read_text()


ORPHAN = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from specgauge.load.cell import CellPlan, PlannedRequest, run_load
from specgauge.record.layout import CellPaths
plan = CellPlan({url!r}, "m", 1, None, 0, (PlannedRequest(0, "p", "c", (1,), 3000, 0),), True, 0.0,
                {{}}, 60.0)
run_load(plan, CellPaths(Path({out!r})), on_progress=lambda p: print(p.sent, flush=True),
         should_stop=lambda: None)
"""


def test_it_ends_when_its_harness_is_killed(source, tmp_path):
    script = ORPHAN.format(tests=str(Path(__file__).parent), url=source.url, out=str(tmp_path))
    harness = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert harness.stdout is not None
    harness.stdout.readline()
    (locust,) = locusts_of(harness.pid)
    assert os.getsid(locust.pid) == os.getsid(0)
    assert os.getpgid(locust.pid) == locust.pid
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    harness.stdout.close()
    began = time.monotonic()
    while locust.is_running() and locust.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() - began < 10
        time.sleep(0.05)


def test_a_plan_without_requests_is_refused(make_plan, tmp_path):
    with pytest.raises(ValueError, match="without requests"):
        run_load(
            make_plan("http://h:1", 0),
            CellPaths(tmp_path),
            on_progress=lambda _: None,
            should_stop=never,
        )
