"""The process runner: runs one server, stamps its output, ends its whole tree.  Stdlib only.

``python -m specgauge.serve.process SPEC.json|-``.  It is a process of its own so
that stamps do not wait for the harness, and so that somebody is left to end the server when the
harness is killed: it stops on TERM, on INT, when its start's marker file appears, and when its
standard input (a pipe that the harness holds) is closed.

The server's processes are found by kinship, never by name: the runner makes itself the reaper of
its orphans (``PR_SET_CHILD_SUBREAPER``), so every descendant, however detached, stays its own; a
mark in the environment finds them even after the runner itself was killed (``tree.leftovers``).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from specgauge.serve.caches import cache_state
from specgauge.serve.linelog import LineLog
from specgauge.serve.memory import oom_kills
from specgauge.serve.redact import secret_values, strike_out, strike_out_argv
from specgauge.serve.tree import START_MARK, descendants

UNWRITABLE = 74
"""Exit status (EX_IOERR): server.log or launch.json cannot be written; the server is gone."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_WAIT_S = 30.0
_DRAIN_S = 2.0
_TELLING_PREFIXES = (
    "VLLM_", "CUDA_", "NVIDIA_", "HF_", "TORCH", "TRITON_", "NCCL_", "OMP_", "KMP_", "MKL_",
    "NUMBA_", "FLASHINFER_", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHON", "OPENBLAS_",
)  # fmt: skip


def _clock_offset() -> float:
    """Epoch minus monotonic, seconds: the tightest of a few readings."""
    best = (float("inf"), 0.0)
    for _ in range(5):
        before = time.monotonic()
        epoch = time.time()
        after = time.monotonic()
        best = min(best, (after - before, epoch - (before + after) / 2))
    return best[1]


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class Runner:
    """One server from start to stop; ``spec`` is the mapping described in ``main``.

    ``should_stop`` is asked about ten times a second: one more reason to stop.
    """

    def __init__(
        self, spec: dict[str, Any], should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        self._spec = spec
        self._should_stop = should_stop
        self._stop = threading.Event()
        self.signalled = False
        """A signal asked to stop (not the marker, not the pipe)."""
        self._oom_kills = oom_kills()
        self._fault: OSError | None = None
        """launch.json could not be written."""
        self._ready_at: float | None = None
        self._child: int | None = None
        self._status: int | None = None
        self._launch: dict[str, Any] = {
            "document": "specgauge.launch/1",
            "id": spec["id"],
            "argv": strike_out_argv(spec["argv"]),
            "env": strike_out(self._telling_env()),
            "cache_before": [cache_state(folder) for folder in spec.get("caches", [])],
            "cache_after": [],
            "pid": None,
            "ready_at": None,
            "ended_at": None,
            "exit_code": None,
            "killed": False,
            "leftover": 0,
            "oom_killed": False,
        }

    def _telling_env(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if k.startswith(_TELLING_PREFIXES)}
        return {**inherited, **self._spec["env"]}

    def run(self) -> int:
        """Start the server and stay until it and its tree are gone.  Returns its exit code."""
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        log = LineLog(
            Path(self._spec["log"]),
            bool(self._spec.get("tee")),
            secret_values({**os.environ, **self._spec["env"]}, self._spec["argv"]),
        )
        self._launch["started_at"] = time.time()
        self._launch["clock_offset"] = _clock_offset()
        try:
            process = self._spawn()
        except OSError as error:
            log.feed("E", f"specgauge: cannot start {self._spec['argv'][0]}: {error}\n".encode())
            log.finish()
            self._launch.update(ended_at=time.time(), exit_code=127)
            self._save()
            return 127
        self._child = process.pid
        self._launch["pid"] = process.pid
        self._save()
        health = threading.Thread(target=self._watch_health, daemon=True)
        health.start()
        if self._spec.get("parent_pipe"):
            threading.Thread(target=self._watch_parent, daemon=True).start()
        self._attend(process, log)
        process.returncode = self._exit_code()
        health.join()
        log.finish()
        self._launch["log_error"] = log.error
        self._launch["ended_at"] = time.time()
        self._launch["exit_code"] = self._exit_code()
        self._launch["oom_killed"] = oom_kills() > self._oom_kills
        began = self._launch["started_at"]
        self._launch["cache_after"] = [cache_state(f, began) for f in self._spec.get("caches", [])]
        self._save()
        return UNWRITABLE if self._fault else self._exit_code()

    @property
    def is_ready(self) -> bool:
        """It has answered ``/health``."""
        return self._ready_at is not None

    @property
    def asked_to_stop(self) -> bool:
        """Somebody wanted the end: it did not come by itself."""
        return self._stop.is_set()

    def _on_signal(self, number: int, frame: object) -> None:
        self.signalled = True
        self._stop.set()

    def _spawn(self) -> subprocess.Popen[bytes]:
        env = {**os.environ, **self._spec["env"], START_MARK: self._spec["id"]}
        # Without it, vLLM's process titles overwrite the environment that carries the mark.
        env["SPT_NOENV"] = "1"
        return subprocess.Popen(
            self._spec["argv"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._spec.get("cwd"),
            env=env,
            # Safe: no thread runs, neither yet nor any more of an earlier start.
            preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
        )

    def _attend(self, process: subprocess.Popen[bytes], log: LineLog) -> None:
        """Pump output; on a wish to stop, TERM then KILL; return when the whole tree has ended."""
        grace = float(self._spec.get("grace_s", 30.0))
        term_at: float | None = None
        ended_at: float | None = None
        marker = self._spec.get("stop_marker")
        saved_ready = False
        with selectors.DefaultSelector() as selector:
            for name, pipe in (("O", process.stdout), ("E", process.stderr)):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, name)
            while True:
                self._pump(selector, log)
                self._reap()
                if self._ready_at is not None and not saved_ready:
                    self._launch["ready_at"] = self._ready_at
                    self._save()
                    saved_ready = True
                now = time.monotonic()
                if (marker and os.path.exists(marker)) or self._should_stop():
                    self._stop.set()
                if self._status is None:
                    if self._stop.is_set() and term_at is None:
                        term_at = now
                        self._signal([process.pid], signal.SIGTERM)
                    elif term_at is not None and now - term_at > grace:
                        self._launch["killed"] = True
                        self._kill_tree()
                    continue
                ended_at = ended_at or now
                tree = descendants(os.getpid())
                if tree and not self._launch["leftover"]:
                    # An engine that outlives its API server holds the memory of the next start;
                    # after an orderly end it may need a moment.
                    if now - ended_at < min(grace, 5.0):
                        continue
                    self._launch["leftover"] = len(tree)
                if tree:
                    self._kill_tree()
                    if now - ended_at < _KILL_WAIT_S:
                        continue
                if tree or not selector.get_map() or now - ended_at > _DRAIN_S:
                    self._reap()  # those that ended since: descendants() leaves zombies out
                    return

    @staticmethod
    def _pump(selector: selectors.BaseSelector, log: LineLog) -> None:
        if not selector.get_map():
            time.sleep(0.05)
            return
        for key, _ in selector.select(timeout=0.1):
            pipe: BinaryIO = key.fileobj  # type: ignore[assignment]
            try:
                data = os.read(pipe.fileno(), 1 << 16)
            except BlockingIOError:
                continue
            if data:
                log.feed(key.data, data)
            else:
                selector.unregister(pipe)

    def _reap(self) -> None:
        """Collect ended children, adopted orphans included; keep the server's own status."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._child:
                    self._status = status

    def _exit_code(self) -> int:
        return 0 if self._status is None else os.waitstatus_to_exitcode(self._status)

    def _kill_tree(self) -> None:
        self._signal(descendants(os.getpid()), signal.SIGKILL)

    @staticmethod
    def _signal(pids: list[int], number: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _watch_health(self) -> None:
        # A proxy from the environment must not stand between us and loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while self._status is None:
            with (
                contextlib.suppress(OSError, ValueError),
                opener.open(self._spec["health_url"], timeout=2) as answer,
            ):
                if answer.status == 200:
                    self._ready_at = time.time()
                    return
            time.sleep(0.25)

    def _watch_parent(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 1024):
                pass
        self._stop.set()

    def _save(self) -> None:
        path = Path(self._spec["launch"])
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(self._launch, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            # A full disk must not end the one process that can stop the server; but without
            # launch.json nobody learns that it is ready: it is stopped in order.
            self._fault = error
            self._stop.set()
            with contextlib.suppress(OSError):
                temporary.unlink()


def main(spec_path: str) -> int:
    """Run the server that the JSON file ``spec_path`` describes (``-``: a line on standard input).

    Keys: ``id``, ``argv``, ``env`` (added), ``log``, ``launch`` (files written), ``health_url``;
    optional ``cwd``, ``grace_s`` (30), ``caches`` (folders whose state is recorded),
    ``stop_marker`` (a file whose appearance stops it), ``parent_pipe`` (stop when standard
    input closes), ``tee`` (also print every line).
    Returns the server's exit code, at most 255.
    """
    if spec_path == "-":
        spec = json.loads(sys.stdin.buffer.readline())
    else:
        with open(spec_path, encoding="utf-8") as file:
            spec = json.load(file)
    try:
        code = Runner(spec).run()
    except OSError as error:  # the log cannot be opened: no server was started
        sys.stderr.write(f"specgauge: {error}\n")
        return UNWRITABLE
    return code if 0 <= code <= 255 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
