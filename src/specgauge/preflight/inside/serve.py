"""Serves, asks once over loopback, tells what came back, and ends the server.

Standard input: ``{"argv", "env", "url", "body", "ready_s", "answer_s", "grace_s", "lines"}``: the
server's words, variables added for it, where it answers, the completion to ask for, limits in
seconds, and how many of its last lines to tell.  Its lines go to standard error as they come.

Meant for a container of its own: with this program everything that the server started ends.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""No proxy from the environment stands between us and loopback."""


def is_ready(url: str) -> bool:
    """Whether it answers ``/health``."""
    try:
        with _DIRECT.open(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def get(url: str, limit_s: float, body: Any = None) -> tuple[int, str]:
    """Status and text of an answer, whatever the status."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with _DIRECT.open(request, timeout=limit_s) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def told(question: dict[str, Any]) -> dict[str, Any]:
    """The whole way, from the server's start to its end."""
    log: collections.deque[str] = collections.deque(maxlen=question["lines"])
    found: dict[str, Any] = {
        "ready_s": None,
        "exit_code": None,
        "failed": None,
        "status": None,
        "answer": "",
        "metrics": "",
    }
    began = time.monotonic()
    try:
        server = subprocess.Popen(
            question["argv"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **question["env"]},
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        found["failed"] = f"cannot start {question['argv'][0]}: {error.strerror}"
        return {**found, "log": []}

    def pump() -> None:
        assert server.stdout is not None
        for line in server.stdout:
            log.append(line.rstrip())
            print(line.rstrip(), file=sys.stderr, flush=True)

    pumping = threading.Thread(target=pump, daemon=True)
    pumping.start()
    while server.poll() is None and time.monotonic() - began < question["ready_s"]:
        if is_ready(question["url"]):
            found["ready_s"] = time.monotonic() - began
            break
        time.sleep(0.25)
    if found["ready_s"] is not None:
        url, limit_s = question["url"], question["answer_s"]
        try:
            found["status"], found["answer"] = get(
                f"{url}/v1/completions", limit_s, question["body"]
            )
            found["metrics"] = get(f"{url}/metrics", limit_s)[1]
        except (OSError, ValueError) as error:
            found["failed"] = f"{type(error).__name__}: {error}"
    found["exit_code"] = server.poll()  # of its own accord
    end(server, question["grace_s"])
    pumping.join(2.0)
    return {**found, "log": list(log)}


def end(server: subprocess.Popen[str], grace_s: float) -> None:
    """TERM, and KILL for its whole group where that is not enough."""
    if server.poll() is None:
        server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(grace_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)


def main() -> None:
    """Print what happened."""
    print("SPECGAUGE " + json.dumps(told(json.load(sys.stdin))), flush=True)


main()
