"""A simulated server for a test: a process of its own, ended with the ``with`` block."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgauge.simulate.truth import Truth
from specgauge.simulate.truth_log import read_truth_log

_POLL_S = 0.01


@dataclass
class Running:
    """A server that answers.

    ``process`` may end before the block does; ``log`` is its stdout and stderr.
    """

    url: str
    port: int
    process: subprocess.Popen[bytes]
    truth_path: Path
    log_path: Path

    def truth_lines(self, kind: str | None = None) -> list[dict[str, Any]]:
        """What it did so far, of one kind or all."""
        lines = read_truth_log(self.truth_path)
        return lines if kind is None else [line for line in lines if line["kind"] == kind]

    @property
    def log(self) -> str:
        """Its log so far."""
        return self.log_path.read_text(encoding="utf-8")


@contextlib.contextmanager
def running(
    truth: Truth | Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    *,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
    wait_ready: bool = True,
    timeout_s: float = 15.0,
) -> Iterator[Running]:
    """Start a simulator and stop it afterwards (TERM, then KILL after 3 s).

    Args:
        truth: the planted truth.
        arguments: more of the command line, as for ``vllm serve``.
        port: 0: a free one.
        environment: added to this process's own.
        wait_ready: False: only until it has its port; ``/health`` may still be refused.
        timeout_s: for that.

    Raises:
        RuntimeError: it ended before it was ready; the text has its log.
        TimeoutError: it was not ready in time.
    """
    document = truth if isinstance(truth, Truth) else Truth.model_validate(truth or {})
    with tempfile.TemporaryDirectory(prefix="specgauge-sim-") as folder:
        truth_path, log_path = Path(folder) / "truth.jsonl", Path(folder) / "server.log"
        command = [sys.executable, "-m", "specgauge.simulate", "--port", str(port), *arguments]
        variables = {
            **os.environ,
            "VLLM_SERVER_DEV_MODE": "1",
            **(environment or {}),
            "SPECGAUGE_SIM_TRUTH": document.model_dump_json(),
            "SPECGAUGE_SIM_TRUTH_OUT": str(truth_path),
        }
        with log_path.open("wb") as log:
            process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + timeout_s
            actual = _await_port(process, truth_path, log_path, deadline)
            server = Running(f"http://127.0.0.1:{actual}", actual, process, truth_path, log_path)
            if wait_ready:
                _await_health(server, deadline)
            yield server
        finally:
            _stop(process)


def _await_port(process: subprocess.Popen[bytes], truth: Path, log: Path, deadline: float) -> int:
    while time.monotonic() < deadline:
        for line in read_truth_log(truth) if truth.exists() else []:
            if line["kind"] == "start":
                return int(line["port"])
        _still_there(process, log)
        time.sleep(_POLL_S)
    raise TimeoutError("the simulator did not start in time")


def _await_health(server: Running, deadline: float) -> None:
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{server.url}/health", timeout=1).close()
            return
        except OSError:
            pass
        _still_there(server.process, server.log_path)
        time.sleep(_POLL_S)
    raise TimeoutError("the simulator was not ready in time")


def _still_there(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        raise RuntimeError(
            f"the simulator ended with {process.returncode}:\n{log.read_text(encoding='utf-8')}"
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
