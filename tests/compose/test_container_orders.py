"""The load generator's side and the container's PID 1, as two processes on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specgauge.errors import EnvironmentFault
from specgauge.record.atomic import write_parquet
from specgauge.record.layout import StartPaths
from specgauge.record.schema import CPU_RUN, CPU_WAIT, METRICS
from specgauge.serve import compose
from specgauge.serve.compose import ComposeServer
from specgauge.serve.control import Control, hold
from specgauge.serve.packages import versions
from specgauge.serve.protocol import ServerDied, ServerSpec
from specgauge.stack.runtime import ContainerRuntime

pytestmark = pytest.mark.system

SERVER = (
    "import http.server, sys\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers()\n"
    "    def log_message(self, *words): pass\n"
    "print('serving', flush=True)\n"
    "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
)


SCRAPED = {"t": 1.0, "name": "vllm:generation_tokens_total", "labels": "{}", "value": 7.0}


class Pair:
    """A control folder, its PID 1 and servers ordered from it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.control = Control(folder / "control" / "ngram")
        self.env = {
            **os.environ,
            "SPECGAUGE_CONTROL": str(folder / "control"),
            "SPECGAUGE_LOCKS": str(folder / "locks"),
            "GPU_UUID": "",
        }
        self.runner: subprocess.Popen[str] | None = None
        self.client: int | None = None

    def begin(self, **env: str) -> None:
        self.client = hold(self.control.client_lock)
        self.runner = subprocess.Popen(
            [sys.executable, "-m", "specgauge.serve.container", "ngram"],
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            text=True,
        )

    def server(self, name: str = "a", argv: list[str] | None = None, ready_s: float = 20):
        argv = argv or [sys.executable, "-c", SERVER, str(self.port)]
        spec = ServerSpec(
            id=name,
            argv=argv,
            env={},
            host="127.0.0.1",
            port=self.port,
            paths=StartPaths(self.folder / name),
            cwd=str(self.folder),
            ready_timeout_s=ready_s,
            stop_grace_s=2,
        )
        return ComposeServer(spec, self.control, ("127.0.0.1", self.port), [])

    def end(self) -> tuple[int, str]:
        assert self.runner is not None
        output, _ = self.runner.communicate(timeout=20)
        return self.runner.returncode, output


@pytest.fixture
def pair(tmp_path: Path, free_port: int) -> Iterator[Pair]:
    made = Pair(tmp_path, free_port)
    yield made
    if made.runner is not None and made.runner.poll() is None:
        made.runner.kill()
        made.runner.wait()


def until(condition: Callable[[], object], limit_s: float = 10) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def launch(pair: Pair, name: str = "a") -> dict[str, object]:
    return dict(json.loads((pair.folder / name / "launch.json").read_text()))


def test_one_container_serves_two_starts_one_after_the_other(pair: Pair) -> None:
    pair.begin()
    for name in ("a", "b"):
        server = pair.server(name)
        server.start()
        server.wait_ready(lambda line: None)
        assert server.death() is None
        ended = server.stop()
        assert ended.ready_at is not None
        assert ended.exit_code == -signal.SIGTERM
        assert "serving" in (pair.folder / name / "server.log").read_text()
    pair.control.quit()
    code, output = pair.end()
    assert code == 0
    assert output.count("serving") == 2


BURNER = (
    "import sys, threading, time\n"
    "code, port, seconds = sys.argv[1:]\n"
    "sys.argv = [sys.argv[0], port]\n"
    "threading.Thread(target=exec, args=(code, {}), daemon=True).start()\n"
    "while time.thread_time() < float(seconds): pass\n"
    "print('burnt', flush=True)\n"
    "time.sleep(600)\n"
)
"""Uses a planted time of its main thread, while another thread serves."""


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel keeps no such accounts"
)
def test_cpu_time_of_the_server_is_in_the_metrics(pair: Pair) -> None:
    pair.begin()
    server = pair.server(argv=[sys.executable, "-c", BURNER, SERVER, str(pair.port), "3"])
    server.start()
    server.wait_ready(lambda line: None)
    paths = StartPaths(pair.folder / "a")
    write_parquet(paths.metrics, pa.Table.from_pylist([SCRAPED], schema=METRICS))
    until(lambda: "burnt" in paths.server_log.read_text(), 120)
    time.sleep(2.5)  # two more looks
    server.stop()
    server.stop()
    pair.control.quit()
    pair.end()
    rows = pq.read_table(paths.metrics).to_pylist()
    assert rows[0] == SCRAPED
    series = [r for r in rows if r["name"] == CPU_RUN]
    assert {json.loads(r["labels"])["pid"] for r in series} == {str(launch(pair)["pid"])}
    assert [r["t"] for r in series] == sorted(r["t"] for r in series)
    # The first look comes within a second and counts as the beginning.
    assert 1.5 < series[-1]["value"] < 3.5
    assert {r["name"] for r in rows} >= {CPU_RUN, CPU_WAIT}
    assert not list(paths.folder.glob("cpu_waits*"))


def test_the_container_tells_of_its_gpus_and_packages(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = {**CARD, "name": "Planted GPU"}
    pair.begin(**planted(card))
    runtime = ContainerRuntime(pair.control)
    assert runtime.machine() == {"gpus": ["Planted GPU"]}
    assert runtime.facts()["packages"] == versions()
    pair.control.quit()
    pair.end()
    monkeypatch.setattr(compose, "_RUNNER_WAIT_S", 0.2)
    assert runtime.machine() == {"gpus": ["Planted GPU"]}  # it said so while it lived
    with pytest.raises(EnvironmentFault, match="is not there"):
        ContainerRuntime(pair.control).machine()


def test_server_that_dies_while_loading(pair: Pair) -> None:
    pair.begin()
    server = pair.server(argv=[sys.executable, "-c", "raise SystemExit('no kernel image')"])
    server.start()
    with pytest.raises(ServerDied, match="exit code 1") as caught:
        server.wait_ready(lambda line: None)
    assert "no kernel image" in str(caught.value)
    server.stop()
    pair.control.quit()
    assert pair.end()[0] == 1


def test_never_ready_server_is_stopped(pair: Pair) -> None:
    pair.begin()
    server = pair.server(argv=[sys.executable, "-c", "import time; time.sleep(60)"], ready_s=0.5)
    server.start()
    with pytest.raises(ServerDied, match="not ready within"):
        server.wait_ready(lambda line: None)
    assert server.stop().ended_at is not None
    pair.control.quit()
    assert pair.end()[0] == 0  # it was stopped, it did not die


def test_gone_load_generator_ends_the_server(pair: Pair) -> None:
    pair.begin()
    server = pair.server()
    server.start()
    server.wait_ready(lambda line: None)
    assert pair.client is not None
    os.close(pair.client)  # as if it had been killed: no marker, no word
    code, _ = pair.end()
    assert code == 0
    assert launch(pair)["ended_at"] is not None


def test_term_ends_server_and_container(pair: Pair) -> None:
    pair.begin()
    server = pair.server()
    server.start()
    server.wait_ready(lambda line: None)
    assert pair.runner is not None
    pair.runner.send_signal(signal.SIGTERM)
    assert pair.end()[0] == 0
    assert "ended by signal SIGTERM" in str(server.death())


def test_killed_container_is_noticed(pair: Pair) -> None:
    pair.begin()
    server = pair.server()
    server.start()
    server.wait_ready(lambda line: None)
    assert pair.runner is not None
    pair.runner.kill()
    pair.runner.wait()
    until(lambda: server.death() is not None)
    assert "its container ended" in str(server.death())
    server.stop()


def test_orders_of_an_earlier_run_are_not_obeyed(pair: Pair) -> None:
    pair.control.clear()
    old = pair.server("old")
    pair.control.announce({"container": "old"})
    assert pair.control.runner() is None  # its lock is not held: it is dead
    pair.control.order({"id": "old", "argv": ["false"], "env": {}, "log": "x", "launch": "x"})
    pair.control.quit()
    pair.begin()
    new = pair.server("new")
    new.start()
    new.wait_ready(lambda line: None)
    assert not (pair.folder / "old").exists()
    assert old.death() is None
    new.stop()
    pair.control.quit()
    assert pair.end()[0] == 0


def test_no_container_is_the_environment_s_fault(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "_RUNNER_WAIT_S", 0.2)
    with pytest.raises(EnvironmentFault, match="is not there"):
        pair.server().start()


def planted(*cards: dict[str, object]) -> dict[str, str]:
    return {
        "SPECGAUGE_FAKE_NVML": json.dumps({"gpus": cards}),
        "GPU_UUID": "GPU-a",
        "GPU_PCI_BUS_ID": "41:00.0",
        "SPECGAUGE_GPU_WAIT_S": "0.5",
    }


CARD = {"uuid": "GPU-a", "pci_bus_id": "00000000:41:00.0"}


@pytest.mark.parametrize(
    ("env", "why"),
    [
        (planted({**CARD, "processes": [{"pid": 4711, "memory": 2**36}]}), "pid 4711"),
        (planted({**CARD, "uuid": "GPU-b"}), "wanted exactly the GPU GPU-a"),
        (planted({**CARD, "pci_bus_id": "00000000:c1:00.0"}), "wanted exactly"),
        (planted(CARD, {"uuid": "GPU-c", "pci_bus_id": "00000000:02:00.0"}), "GPU-c"),
        (planted({**CARD, "fault": "GPU is lost"}), "GPU is lost"),
        (planted(CARD) | {"SPECGAUGE_FAKE_NVML": '{"unavailable": "no driver"}'}, "no driver"),
    ],
)
def test_unfit_gpu_is_refused(pair: Pair, env: dict[str, str], why: str) -> None:
    pair.begin(**env)
    server = pair.server()
    server.start()
    with pytest.raises(EnvironmentFault, match="was not started") as caught:
        server.wait_ready(lambda line: None)
    assert why in str(caught.value)
    assert server.stop().exit_code == 5
    pair.control.quit()
    code, output = pair.end()
    assert code == 1
    assert why in output


def test_mig_instance_is_free_although_its_card_is_not(pair: Pair) -> None:
    busy = [{"pid": 4711, "memory": 2**36}]
    card = {**CARD, "mig": True, "mig_uuids": ["MIG-1", "MIG-2"], "processes": busy}
    instances = [
        {**CARD, "uuid": "MIG-1", "instance": True, "base": 0},
        {**CARD, "uuid": "MIG-2", "instance": True, "processes": busy},
    ]
    pair.begin(**{**planted(card, *instances), "GPU_UUID": "MIG-1"})
    server = pair.server()
    server.start()
    server.wait_ready(lambda line: None)
    server.stop()
    pair.control.quit()
    assert pair.end()[0] == 0
    assert (pair.folder / "locks" / "MIG-1.lock").exists()


def test_gpu_held_by_another_is_waited_for(pair: Pair) -> None:
    from specgauge.gpu.lock import DeviceLock

    lock = DeviceLock("GPU-a", pair.folder / "locks")
    assert lock.acquire(0, lambda by: True, "ann")
    pair.begin(**{**planted(CARD), "SPECGAUGE_GPU_WAIT_S": "30"})
    server = pair.server()
    server.start()
    until(lambda: pair.control.waiting("a") is not None)
    assert pair.control.waiting("a") == "the GPU GPU-a is held by ann"
    assert not (pair.folder / "a" / "launch.json").exists()
    lock.release()
    server.wait_ready(lambda line: None)
    assert not DeviceLock("GPU-a", pair.folder / "locks").acquire(0, lambda by: True)
    server.stop()
    pair.control.quit()
    assert pair.end()[0] == 0
    assert DeviceLock("GPU-a", pair.folder / "locks").acquire(0, lambda by: True)
