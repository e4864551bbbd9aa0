"""Plants that a client, a log reader or a process runner must meet, through real HTTP."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise

import psutil
import pytest
from sim_client import Stream, body, get, lasted, metrics, post, stream, together

from specgauge.simulate.cli import main
from specgauge.simulate.running import running
from specgauge.simulate.starve import starved

pytestmark = pytest.mark.system

FAST = {"step_ms": {"1": 3}}


def longest_gap(got: Stream) -> float:
    return max(b - a for a, b in pairwise(got.times))


@pytest.fixture(scope="module")
def freezing(tmp_path_factory):
    """One server for several plants: each freeze waits for its own kind of request."""
    after = {"length_s": 0.4, "phase": "after_first_token", "request_max_tokens": 40}
    again = {"length_s": 0.2, "phase": "after_first_token", "request_max_tokens": 41}
    before = {"length_s": 0.5, "phase": "before_first_token", "request_max_tokens": 10}
    for freeze in (after, again):
        freeze["log"] = "_topk_topp_kernel"
    before["touch_cache"] = True
    cache = tmp_path_factory.mktemp("triton")
    truth = {**FAST, "freezes": [after, again, before]}
    with running(truth, environment={"TRITON_CACHE_DIR": str(cache)}) as server:
        server.cache = cache
        yield server


def test_freeze_after_the_first_token_with_its_line_inside(freezing):
    got = together(freezing.url, [body([50 + i] * 8, 40) for i in range(3)])
    (frozen,) = freezing.truth_lines("freeze")
    assert lasted(frozen["t1"] - frozen["t0"], 0.4)
    hit = [g for g in got if g.times[0] < frozen["t1"] - 0.1]  # others arrived during it
    assert hit
    assert all(lasted(longest_gap(g), 0.403, late=0.1) for g in hit)
    (line,) = freezing.truth_lines("jit_line")
    assert frozen["t0"] <= line["t"] <= frozen["t1"]
    assert "Triton kernel JIT compilation during inference: _topk_topp_kernel." in freezing.log
    assert "Kernel JIT monitor activated" in freezing.log
    # A second compile of the same kernel is silent, as in vLLM.
    assert lasted(longest_gap(stream(freezing.url, body([60] * 8, 41))), 0.203, late=0.1)
    assert len(freezing.truth_lines("jit_line")) == 1


def test_freeze_before_the_first_token_is_ttft(freezing):
    before = len(freezing.truth_lines("freeze"))
    assert list(freezing.cache.iterdir()) == []
    got = stream(freezing.url, body([7] * 8, 10))
    assert len(list(freezing.cache.iterdir())) == 1  # what a compile leaves on disk
    assert lasted(got.times[0] - got.t_send, 0.503)
    assert longest_gap(got) < 0.3
    stream(freezing.url, body([8] * 8, 10))
    assert len(freezing.truth_lines("freeze")) == before + 1


def test_a_client_that_leaves_is_an_abort(freezing):
    connection = http.client.HTTPConnection("127.0.0.1", freezing.port, timeout=5)
    connection.request("POST", "/v1/completions", json.dumps(body([7] * 8, 5000)))
    connection.getresponse().readline()
    connection.close()
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and not freezing.truth_lines("abort"):
        time.sleep(0.02)
    assert len(freezing.truth_lines("abort")) == 1
    stream(freezing.url, body([7] * 8, 2))
    assert metrics(freezing.url)["vllm:num_requests_running"] == 0


def test_merged_chunks_hold_every_token():
    with running({**FAST, "merge_probability": 0.3}) as server:
        got = stream(server.url, body([7] * 8, 200))
        chunks = server.truth_lines("chunk")
        assert len(got.token_ids) == 200
        assert got.chunks == [c["tokens"] for c in chunks] == [c["steps"] for c in chunks]
        assert sum(1 for n in got.chunks if n > 1) > 10
        assert metrics(server.url)["vllm:inter_token_latency_seconds_count"] == 199


def test_foreign_traffic_is_counted_and_not_ours_and_term_can_be_ignored():
    truth = {
        **FAST,
        "foreign": {"rate": 20, "tokens": 5, "prompt_tokens": 11},
        "stopping": {"ignore_term": True},
    }
    with running(truth) as server:
        time.sleep(0.3)
        got = stream(server.url, body([7] * 8, 30))
        time.sleep(0.1)
        seen = metrics(server.url)
        foreign = len(server.truth_lines("foreign"))
        assert foreign >= 5
        assert seen["vllm:generation_tokens_total"] >= len(got.token_ids) + 5 * (foreign - 2)
        assert seen["vllm:request_success_total"] >= foreign - 1
        server.process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(timeout=0.2)
        assert get(server.url, "/health")[0] == 200
        server.process.kill()


def test_requests_that_go_wrong():
    truth = {
        **FAST,
        "faults": [
            {"request": 1, "kind": "status", "status": 503},
            {"request": 2, "kind": "cut", "after_tokens": 5},
            {"request": 3, "kind": "error_event", "after_tokens": 5},
            {"request": 4, "kind": "short", "after_tokens": 5},
            {"request": 5, "kind": "usage"},
            {"request": 6, "kind": "stall", "after_tokens": 5},
        ],
    }
    with running(truth) as server:
        value = body([7] * 8, 20)
        assert post(server.url, "/v1/completions", value)[0] == 503
        cut = stream(server.url, value)
        assert (len(cut.token_ids), cut.finish_reason, cut.done) == (5, None, False)
        failed = stream(server.url, value)
        assert len(failed.token_ids) == 5
        assert failed.events[-1]["error"]["code"] == 500
        short = stream(server.url, value)
        assert (len(short.token_ids), short.finish_reason) == (5, "length")
        assert stream(server.url, value).usage["completion_tokens"] == 21
        with pytest.raises(TimeoutError):
            stream(server.url, value, timeout_s=0.3)
        assert len(stream(server.url, value).token_ids) == 20  # the others go on


@pytest.mark.parametrize(
    ("die", "code"),
    [
        ({"after_tokens": 10, "exit_code": 3, "log": "RuntimeError: planted"}, 3),
        ({"after_tokens": 10, "how": "signal", "signal": 9}, -9),
    ],
)
def test_dying_mid_stream(die, code):
    with running({**FAST, "die": die}) as server:
        got = stream(server.url, body([7] * 8, 100))
        assert (got.usage, got.done) == (None, False)
        assert server.process.wait(timeout=5) == code
        # What it did is on record to the last chunk, whatever killed it.
        assert sum(c["tokens"] for c in server.truth_lines("chunk")) in (9, 10)
        assert server.truth_lines("death")[0]["exit_code"] == code
        assert ("RuntimeError: planted" in server.log) == ("log" in die)


def test_dead_engine_answers_500_and_shuts_down():
    with running({**FAST, "die": {"after_tokens": 10, "how": "engine_dead"}}) as server:
        got = stream(server.url, body([7] * 8, 100))
        assert got.events[-1]["error"]["message"].startswith("EngineCore encountered an issue")
        assert get(server.url, "/health")[0] == 503
        assert server.process.wait(timeout=5) == 1


def test_loading_refuses_and_term_ends_it():
    with running({"loading": {"load_s": 60}}, wait_ready=False) as server:
        with (
            pytest.raises(ConnectionRefusedError),
            socket.create_connection(("127.0.0.1", server.port), timeout=1),
        ):
            pass
        server.process.terminate()
        assert server.process.wait(timeout=5) == 0


def test_an_engine_that_never_comes_up():
    with running({"loading": {"never_ready": "503"}}, wait_ready=False) as server:
        deadline = time.monotonic() + 10
        while "Application startup complete" not in server.log and time.monotonic() < deadline:
            time.sleep(0.02)
        assert get(server.url, "/health")[0] == 503
        assert post(server.url, "/v1/completions", body([7], 2))[0] == 500


def test_term_ends_open_streams_and_says_so():
    with running(
        {"step_ms": {"1": 20}, "stopping": {"children": 1, "leave_child": True}}
    ) as server:
        pids = [line["pid"] for line in server.truth_lines("child")]
        stubborn, ordinary = pids
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)

        connection.request("POST", "/v1/completions", json.dumps(body([7] * 8, 400)))
        connection.getresponse().readline()
        server.process.terminate()
        assert server.process.wait(timeout=5) == 0
        assert "[shutdown] API server: shutdown triggered" in server.log
        assert not psutil.pid_exists(ordinary)
        assert psutil.pid_exists(stubborn)
        os.kill(stubborn, signal.SIGTERM)
        time.sleep(0.1)
        assert psutil.pid_exists(stubborn)
        os.kill(stubborn, signal.SIGKILL)


def test_port_in_use_is_said_at_once(free_port, capsys):
    with socket.create_server(("127.0.0.1", free_port)):
        assert main(["m", "--port", str(free_port)]) == 1
    assert "OSError: [Errno 98] Address already in use" in capsys.readouterr().out


def test_flag_that_this_version_does_not_know(capsys):
    truth = '{"loading": {"reject_flags": ["--jit-monitor-verbose"]}}'
    assert main(["m", "--jit-monitor-verbose", "--truth", truth]) == 2
    assert "error: unrecognized arguments: --jit-monitor-verbose" in capsys.readouterr().err


def test_bad_truth_is_one_line_and_exit_2(capsys):
    assert main(["m", "--truth", '{"sede": 1}']) == 2
    assert capsys.readouterr().err == "truth: sede: unknown key; did you mean 'seed'?\n"


def test_help_schema_and_a_truth_log_that_cannot_be_written(capsys, tmp_path):
    assert main(["--help"]) == 0
    assert "--truth-out" in capsys.readouterr().out
    assert main(["--schema"]) == 0
    assert "freezes" in json.loads(capsys.readouterr().out)["properties"]
    assert main(["m", "--truth-out", str(tmp_path / "absent" / "x")]) == 2
    assert "absent/x: cannot be written: No such file" in capsys.readouterr().err


def test_dying_while_loading_at_the_first_start_only(tmp_path):
    text = "Traceback (most recent call last):\nValueError: No available memory"
    truth = {**FAST, "die": {"while_loading": text, "starts": [0], "exit_code": 1}}
    environment = {"SPECGAUGE_SIM_STARTS": str(tmp_path)}
    with (
        pytest.raises(RuntimeError, match=r"ended with 1:\n(.|\n)*ERROR .*No available memory"),
        running(truth, environment=environment),
    ):
        pass
    with running(truth, environment=environment) as server:
        assert server.truth_lines("start")[0]["start"] == 1


def test_imports_are_quick():
    code = "import time; t = time.process_time(); import specgauge.simulate.server; " + (
        "print(time.process_time() - t)"
    )
    spent = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(spent.stdout) < 1.0


def test_a_starved_client_reads_late_what_arrived_in_time():
    reader = (
        "import sys, time, urllib.request, json\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from sim_client import body, stream\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "got = stream(sys.argv[2], body([7] * 8, 150))\n"
        "print(json.dumps(got.times))\n"
    )
    with running(FAST) as server:
        command = [sys.executable, "-c", reader, os.path.dirname(__file__), server.url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes) as client:
            client.stdout.readline()
            with starved([client.pid], 0.15, 0.25) as spans:
                output, _ = client.communicate("go\n", timeout=10)
        late = [
            t - c["t"] for t, c in zip(json.loads(output), server.truth_lines("chunk"), strict=True)
        ]
        assert max(late) > 0.1  # arrived early in a stop, read after it
        assert all(lasted(end - begin, 0.15) for begin, end in spans[:-1])
