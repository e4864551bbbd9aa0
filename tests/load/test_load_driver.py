"""Failures of every kind: one clear line each, nothing tried twice, the loop goes on."""

import gc
import json
import socket

import gevent
import pyarrow.parquet as pq
import pytest

from specgauge.load.driver import Driver
from specgauge.load.job import Parts


@pytest.fixture
def drive(tmp_path):
    """Run a plan's users to the end, without Locust; gives the request rows and the client."""

    def run(plan):
        parts = Parts(tmp_path, 0)
        connected = []

        def announce():
            connected.append(1)
            if len(connected) == plan.users:
                gevent.spawn(driver.start_at)

        driver = Driver(plan, parts, announce)
        users = [gevent.spawn(driver.drain) for _ in range(plan.users)]
        gevent.joinall(users, timeout=20)
        driver.write()
        return pq.read_table(parts.requests).to_pylist(), json.loads(parts.client.read_text())

    yield run
    gc.enable()
    gc.unfreeze()


FAULTS = {
    "400": "HTTP 400: prompt is too long",
    "garbage": "malformed HTTP response",
    "closed": "the server closed the connection before any response",
    "cut": "the server closed the connection in the middle of the response",
    "error": "engine died",
    "misframed": "malformed HTTP response",
    "undone": "the stream ended without [DONE]",
    "broken": "malformed event",
    "reset": "the connection broke in the middle of the response: Connection reset by peer",
    "silent": "no complete response within 0.6 s (request_timeout_s)",
}


@pytest.mark.parametrize("concurrency", [1, 3])
def test_each_fault_fails_its_request_alone(source, make_plan, drive, concurrency):
    """Every second request is good; each is sent once, whatever became of the others."""
    script = {str(2 * k): fault for k, fault in enumerate(FAULTS)}
    n = 2 * len(FAULTS)
    plan = make_plan(
        source.url, n, concurrency=concurrency, timeout_s=0.6, script=script, tick=0.001
    )
    rows, client = drive(plan)
    assert [row["index"] for row in sorted(rows, key=lambda row: row["index"])] == list(range(n))
    for row in rows:
        fault = script.get(str(row["index"]))
        if fault is None:
            assert (row["state"], row["error"], row["output_tokens"]) == ("ok", None, 5)
        else:
            assert row["state"] == "failed"
            assert FAULTS[fault] in row["error"]
            assert "\n" not in row["error"]
    seeds = [entry["body"]["seed"] for entry in source.end()["log"]]
    assert sorted(seeds) == list(range(n))
    if concurrency == 1:  # else one that has to connect again may be overtaken
        assert seeds == list(range(n))
    assert client["fault"] is None


def test_what_is_sent(source, make_plan, drive):
    drive(make_plan(source.url + "/base/", 1, concurrency=1, top_k=7, stream=False, model="other"))
    assert source.end()["log"][0]["body"] == {
        "model": "m",
        "prompt": list(range(10)),
        "max_tokens": 5,
        "temperature": 0.0,
        "seed": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "top_k": 7,
    }


def test_the_slots_time_line(source, make_plan, drive):
    """ready = barrier or last finish <= send <= sent <= first <= last <= done."""
    rows, client = drive(make_plan(source.url, 6, concurrency=2, tick=0.003))
    by_slot = {0: [], 1: []}
    for row in sorted(rows, key=lambda row: row["t_send"]):
        by_slot[row["slot"]].append(row)
        order = [row[f"t_{name}"] for name in ("ready", "send", "sent", "first", "last", "done")]
        assert order == sorted(order)
        assert row["t_last"] - row["t_first"] > 0.0115  # four ticks of 3 ms
    for mine in by_slot.values():
        assert [row["t_ready"] for row in mine] == [
            client["t_go"],
            *(row["t_done"] for row in mine[:-1]),
        ]
    assert client["t_end"] == max(row["t_done"] for row in rows)


def test_a_connection_serves_until_a_response_breaks_it(source, make_plan, drive):
    plan = make_plan(source.url, 5, concurrency=1, script={"1": "400", "2": "cut"}, tick=0.001)
    rows, _client = drive(plan)
    assert [row["state"] for row in rows] == ["ok", "failed", "failed", "ok", "ok"]
    assert [entry["connection"] for entry in source.end()["log"]] == [1, 1, 1, 2, 2]


def test_a_gone_server_fails_the_rest_at_once(make_plan, drive):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    rows, client = drive(make_plan(url, 500, concurrency=4))
    assert len(rows) == 500
    assert {row["state"] for row in rows} == {"failed"}
    assert sum("not sent" not in row["error"] for row in rows) <= 4
    assert all("Connection refused" in row["error"] for row in rows)
    assert all(row["t_send"] is None for row in rows)
    assert client["t_end"] - client["t_go"] < 2


def test_open_loop_keeps_its_schedule(source, make_plan, drive):
    times = [0.0, 0.05, 0.06, 0.06, 0.2]
    plan = make_plan(source.url, 5, concurrency=None, scheduled=times, tokens=30, tick=0.01)
    rows, client = drive(plan)
    for row, offset in zip(sorted(rows, key=lambda row: row["index"]), times, strict=True):
        assert row["t_scheduled"] == pytest.approx(client["t_go"] + offset, abs=1e-6)
        assert 0 <= row["t_send"] - row["t_scheduled"] < 0.25
        assert row["slot"] == row["index"]
    assert source.end()["most"] == 5  # nobody waited for somebody else's answer
