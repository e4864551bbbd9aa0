"""The Locust processes of a cell: command lines, output, and their certain end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import specgauge
from specgauge.load import job
from specgauge.load.plan import CellPlan

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
TERM_GRACE_S = 20.0
"""After TERM a process parses and writes what it has; then it is killed."""


def command(plan: CellPlan) -> list[str]:
    """``locust`` for a lone process; a master's and its workers' begin with the same."""
    return [
        *(sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--headless"),
        *("--only-summary", "--exit-code-on-error", "0", "--host", plan.url),
    ]


def load_shape(plan: CellPlan) -> list[str]:
    """Users and spawn rate: all at once."""
    return ["-u", str(plan.users), "-r", str(max(1, plan.users))]


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def commands(plan: CellPlan) -> list[tuple[str, list[str], int | None]]:
    """(name, command, worker number) of each process to start, the one that leads first."""
    base = command(plan)
    if not plan.workers:
        return [("locust", [*base, *load_shape(plan)], None)]
    port = str(free_port())
    master = [
        *(*base, *load_shape(plan), "--master", "--master-bind-host", "127.0.0.1"),
        *("--master-bind-port", port, "--expect-workers", str(plan.processes)),
    ]
    worker = [
        *(sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--worker"),
        *("--master-host", "127.0.0.1", "--master-port", port),
    ]
    return [("master", master, None), *((f"worker {k}", worker, k) for k in range(plan.processes))]


class LocustProcess:
    """One Locust process and the threads that read what it prints.

    It stays in the caller's session (a new one would be starved by a spinning server on a small
    machine) but leads a process group of its own, so that a Ctrl-C in the terminal does not reach
    it before the harness has decided.
    """

    def __init__(
        self,
        name: str,
        argv: list[str],
        worker: int | None,
        plan_file: Path,
        on_line: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,  # its end tells the process that we have gone
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            cwd=plan_file.parent,  # no locust.conf of the user's folder takes part
            env=_environment(worker, plan_file),
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read, args=(on_line,), daemon=True)
        self._reader.start()

    def _read(self, on_line: Callable[[str, str], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            on_line(self.name, line.rstrip("\n"))

    def poll(self) -> int | None:
        """Exit code, or None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to write what it has and end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def finish(self, deadline: float) -> int:
        """Wait until monotonic ``deadline``, then kill; returns the exit code."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(2.0)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        return int(self._process.returncode)


def _environment(worker: int | None, plan_file: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}
    env[job.JOB] = str(plan_file)
    env.pop(job.WORKER, None)
    if worker is not None:
        env[job.WORKER] = str(worker)
    package = str(Path(specgauge.__file__).resolve().parent.parent)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [package, env.get("PYTHONPATH")]))
    env["PYTHONUNBUFFERED"] = "1"
    env["LOCUST_WAIT_FOR_WORKERS_REPORT_AFTER_RAMP_UP"] = "0.1"  # for its log only; default 1 s
    return env


class Output:
    """What the processes print: progress is taken out, the rest kept as the log."""

    def __init__(self, on_progress: Callable[[str, str], None]) -> None:
        self._on_progress = on_progress
        self._lines: deque[str] = deque(maxlen=20_000)
        self._lock = threading.Lock()

    def take(self, name: str, line: str) -> None:
        """One line of process ``name``."""
        if line.startswith(job.MARK):
            self._on_progress(name, line.removeprefix(job.MARK))
            return
        with self._lock:
            self._lines.append(line if name == "locust" else f"{name}: {line}")

    def text(self) -> str:
        """The log so far."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines)

    def last(self, n: int) -> list[str]:
        """The last ``n`` lines that say something."""
        with self._lock:
            return [line for line in self._lines if line.strip()][-n:]
