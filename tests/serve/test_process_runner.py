"""The process runner against small stand-in servers: stamps, ends, and whole trees."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from specgauge.serve.redact import secret_values, strike_out, strike_out_argv
from specgauge.serve.tree import leftovers

pytestmark = pytest.mark.system

SERVER = """
    import http.server, os, signal, subprocess, sys, time
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers()
        def log_message(self, *a): pass
    server = http.server.HTTPServer(("127.0.0.1", 0), Health)
    with open(sys.argv[1], "w") as f: f.write(str(server.server_port))
"""
# Detached twice over: own session, and its parent is gone.
DETACHED_CHILD = """
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open(sys.argv[1] + ".child", "w").write(str(os.getpid()))
            time.sleep(300)
        os._exit(0)
    os.wait()
    while not os.path.exists(sys.argv[1] + ".child"): time.sleep(0.01)
"""
SERVE = "    server.serve_forever()\n"
IGNORE_TERM = "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def until(what: Callable[[], object], seconds: float = 60.0) -> object:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := what():
            return value
        time.sleep(0.02)
    raise AssertionError("did not happen in time")


class Ran:
    """A runner started on a script; files in ``folder``."""

    def __init__(self, folder: Path, body: str, **spec: object) -> None:
        self.folder = folder
        self.port_file = folder / "port"
        script = folder / "server.py"
        script.write_text(textwrap.dedent(body))
        self.id = f"test-{os.getpid()}-{time.monotonic_ns()}"
        self.port = spec.pop("port", 1)
        description = {
            "id": self.id,
            "argv": [sys.executable, "-u", str(script), str(self.port_file)],
            "env": {},
            "log": str(folder / "server.log"),
            "launch": str(folder / "launch.json"),
            "health_url": f"http://127.0.0.1:{self.port}/health",
            "grace_s": 1.0,
            "parent_pipe": True,
            **spec,
        }
        (folder / "spec.json").write_text(json.dumps(description))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "specgauge.serve.process", str(folder / "spec.json")],
            stdin=subprocess.PIPE,
            process_group=0,
        )

    @property
    def launch(self) -> dict[str, object]:
        path = self.folder / "launch.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def lines(self) -> list[str]:
        return (self.folder / "server.log").read_text().splitlines()

    def child(self) -> int:
        """The detached child's number, once it has written it."""
        path = Path(f"{self.port_file}.child")
        until(lambda: path.exists() and path.read_text())
        return int(path.read_text())

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        for pid in leftovers(self.id):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Ran]]:
    made: list[Ran] = []

    def make(body: str, **spec: object) -> Ran:
        made.append(Ran(tmp_path, body, **spec))
        return made[-1]

    yield make
    for ran in made:
        ran.end()


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_every_line_is_stamped_with_its_stream(run: Callable[..., Ran]) -> None:
    before = datetime.now(UTC)
    ran = run("import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('no end', end='')")
    assert ran.process.wait(60) == 0
    lines = ran.lines()
    assert sorted(line[25:] for line in lines) == ["E two", "O no end", "O one"]
    for line in lines:
        stamp = datetime.strptime(line[:24], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        assert -0.01 < (stamp - before).total_seconds() < 10


def test_a_stamp_is_the_arrival_not_the_end(run: Callable[..., Ran]) -> None:
    ran = run("import time\nprint('a')\ntime.sleep(0.5)\nprint('b')")
    ran.process.wait(60)
    first, second = (float(line[17:23]) for line in ran.lines())
    assert 0.4 < (second - first) % 60 < 30


def test_exit_code_and_ending_are_recorded(run: Callable[..., Ran]) -> None:
    ran = run("import sys\nprint('bad news')\nsys.exit(7)")
    assert ran.process.wait(60) == 7
    assert ran.launch["exit_code"] == 7
    assert ran.launch["ended_at"] > ran.launch["started_at"]
    assert ran.launch["ready_at"] is None


def test_a_program_that_is_missing_is_said_so(run: Callable[..., Ran]) -> None:
    ran = run("", argv=["/no/such/program"])
    assert ran.process.wait(60) == 127
    assert "cannot start /no/such/program" in ran.lines()[0]


def test_ready_is_stamped_when_health_answers(run: Callable[..., Ran], free_port: int) -> None:
    body = SERVER.replace('"127.0.0.1", 0', f'"127.0.0.1", {free_port}') + SERVE
    ran = run(body, port=free_port)
    until(lambda: ran.launch.get("ready_at"))
    ran.process.send_signal(signal.SIGTERM)
    ran.process.wait(60)
    assert ran.launch["exit_code"] == -signal.SIGTERM
    assert ran.launch["killed"] is False


@pytest.mark.parametrize("how", ["term", "pipe", "marker"])
def test_every_way_to_stop_ends_the_whole_tree(
    run: Callable[..., Ran], tmp_path: Path, how: str
) -> None:
    marker = tmp_path / "stop"
    ran = run(SERVER + DETACHED_CHILD + SERVE, stop_marker=str(marker))
    child = ran.child()
    until(ran.port_file.exists)
    assert psutil.pid_exists(child)
    if how == "term":
        ran.process.send_signal(signal.SIGTERM)
    elif how == "pipe":
        assert ran.process.stdin is not None
        ran.process.stdin.close()
    else:
        marker.touch()
    ran.process.wait(60)
    assert not psutil.pid_exists(child)
    assert ran.launch["leftover"] == 1


def test_a_server_deaf_to_term_is_killed(run: Callable[..., Ran]) -> None:
    ran = run(SERVER + IGNORE_TERM + SERVE)
    until(ran.port_file.exists)
    time.sleep(0.2)
    ran.process.send_signal(signal.SIGTERM)
    ran.process.wait(60)
    assert ran.launch["killed"] is True
    assert ran.launch["exit_code"] == -signal.SIGKILL


def test_a_killed_runner_takes_the_server_with_it(run: Callable[..., Ran]) -> None:
    ran = run(SERVER + DETACHED_CHILD + SERVE)
    until(ran.port_file.exists)
    child = ran.child()
    server = int(str(ran.launch["pid"]))
    ran.process.kill()
    ran.process.wait()
    until(lambda: has_ended(server))
    # What got away is found by its mark, whoever its parent is now.
    assert leftovers(ran.id) == [child]


def test_secrets_are_struck_out_everywhere(run: Callable[..., Ran]) -> None:
    ran = run(
        "print('x')",
        env={
            "HF_TOKEN": "hf_planted",
            "HTTPS_PROXY": "http://user:planted@proxy:1",
            "VLLM_X": "plain",
        },
    )
    ran.process.wait(60)
    text = (ran.folder / "launch.json").read_text()
    assert "planted" not in text
    assert ran.launch["env"]["VLLM_X"] == "plain"


def test_redaction_keeps_what_is_no_secret() -> None:
    argv = ["vllm", "--api-key", "planted", "--token=planted", "--max-num-batched-tokens", "8"]
    clean = strike_out_argv(argv)
    assert "planted" not in " ".join(clean)
    assert clean[-2:] == ["--max-num-batched-tokens", "8"]
    assert strike_out({"MY_API_KEY": "planted", "A": "b"}) == {"A": "b", "MY_API_KEY": "***"}


def test_records_that_cannot_be_written_end_it_with_a_status_of_their_own(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "launch.json").mkdir()  # nothing can be renamed onto a folder
    ran = run(SERVER + SERVE)
    assert ran.process.wait(60) == 74
    assert leftovers(ran.id) == []


def test_log_lines_lose_their_secrets(run: Callable[..., Ran]) -> None:
    body = "import os\nprint('args:', {'hf_token': os.environ['HF_TOKEN'], 'n': 7})"
    ran = run(body, env={"HF_TOKEN": "hf_planted_one"})
    ran.process.wait(60)
    assert [line[27:] for line in ran.lines()] == ["args: {'hf_token': '***', 'n': 7}"]


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        (["--api-key", "planted-one", "planted-two", "--port", "1"], {}),
        (["--hf-token=planted-one"], {}),
        ([], {"HF_ENDPOINT": "https://user:p@planted-one@host/x"}),
        ([], {"MY_AUTH": "planted-one"}),
    ],
)
def test_every_form_of_a_secret_is_known(argv: list[str], env: dict[str, str]) -> None:
    assert "planted" not in " ".join(strike_out_argv(argv))
    assert "planted" not in str(strike_out(env))
    assert any(b"planted-one" in value for value in secret_values(env, argv))
