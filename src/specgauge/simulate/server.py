"""One simulated server process: load, serve, stop or die as planted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import uvicorn

from specgauge.simulate import children, startup_log
from specgauge.simulate.arguments import Arguments
from specgauge.simulate.driver import Driver
from specgauge.simulate.logs import Log
from specgauge.simulate.planted import Die
from specgauge.simulate.routes import Routes
from specgauge.simulate.truth import Truth
from specgauge.simulate.truth_log import TruthLog

_GRACE_S = 1  # for connections still open at the end


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers: the simulator decides what a signal does."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Server:
    """A server from its command line to its exit code.

    Args:
        truth: the whole planted document.
        arguments: the command line.
    """

    def __init__(self, truth: Truth, arguments: Arguments) -> None:
        self._start = _count_start(arguments.section)
        truth = truth.for_process(arguments.section, self._start)
        if truth.die is not None and truth.die.unless_eager and arguments.enforce_eager:
            truth = truth.model_copy(update={"die": None})
        if not arguments.prefix_caching:
            truth = truth.model_copy(update={"prefix_caching": False})
        self._truth = truth
        self._arguments = arguments
        self._log = Log()
        self._truth_log = TruthLog(arguments.truth_out)
        self._children: list[subprocess.Popen[bytes]] = []
        self._exit_code = 0
        self._http: _Uvicorn | None = None
        self._stopping: asyncio.Task[None] | None = None

    def run(self) -> int:
        """Serve until told to end.  Returns the exit code."""
        rejected = [f for f in self._truth.loading.reject_flags if self._was_given(f)]
        if rejected:
            sys.stderr.write(
                "usage: vllm [-h] [-v] {chat,complete,serve,launch,bench,collect-env,run-batch} "
                f"...\nvllm: error: unrecognized arguments: {' '.join(rejected)}\n"
            )
            return 2
        # Bound before loading and listening only after it, as vLLM does: a port in use shows at
        # once, and clients are refused until the model is there.
        # Named as TCP: asyncio turns Nagle's delay off only for sockets that say so, and with it
        # a kept-alive connection would hold chunks back for 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._arguments.host, self._arguments.port))
        except OSError as error:
            text = f"OSError: [Errno {error.errno}] {error.strerror}"
            self._log.error_line(text, "launcher.py:120", "APIServer")
            return 1
        with listener:
            return asyncio.run(self._main(listener))

    def _was_given(self, flag: str) -> bool:
        return flag.lstrip("-").replace("_", "-") in self._arguments.flags

    async def _main(self, listener: socket.socket) -> int:
        # Serialising /metrics in a thread must not hold up a step for long (default: 5 ms).
        sys.setswitchinterval(0.0005)
        loop = asyncio.get_running_loop()
        terminated = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._terminate, terminated)
        driver = Driver(
            self._truth, self._arguments, self._log, self._truth_log, self._die, self._start
        )
        port: int = listener.getsockname()[1]
        self._record_start(port, driver)
        if self._truth.stopping.leave_child:
            self._adopt(children.stubborn())
        self._children = [children.ordinary() for _ in range(self._truth.stopping.children)]
        for child in self._children:
            self._adopt(child)
        if not await self._load(terminated, port):
            return self._exit_code
        await self._serve(driver, listener)
        for child in self._children:
            child.terminate()
            child.wait()
        return self._exit_code

    def _adopt(self, child: subprocess.Popen[bytes]) -> None:
        self._truth_log.write("child", pid=child.pid)

    def _record_start(self, port: int, driver: Driver) -> None:
        self._truth_log.write(
            "start",
            pid=os.getpid(),
            port=port,
            method=self._arguments.method,
            section=self._arguments.section,
            k=self._arguments.k,
            start=self._start,
            start_factor=driver.engine.steptime.start_factor,
            epoch_offset=time.time() - time.monotonic(),
        )

    async def _load(self, terminated: asyncio.Event, port: int) -> bool:
        """Let the loading time pass.  False: it ended there."""
        began = time.monotonic()
        startup_log.before_loading(self._log, self._truth, self._arguments)
        loading = self._truth.loading
        wait: float | None = None if loading.never_ready == "refused" else loading.load_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(terminated.wait(), wait)
        if terminated.is_set():
            return False
        die = self._truth.die
        if die is not None and die.while_loading is not None:
            self._log.error_line(die.while_loading, "core.py:1190")
            self._truth_log.write("death", how="while_loading", exit_code=die.exit_code)
            self._exit_code = die.exit_code
            return False
        took = time.monotonic() - began
        startup_log.after_loading(self._log, self._truth, self._arguments, took, port)
        return True

    async def _serve(self, driver: Driver, listener: socket.socket) -> None:
        self._driver = driver
        routes = Routes(driver, self._truth, self._arguments, self._log, self._truth_log)
        config = uvicorn.Config(
            routes.app(),
            lifespan="on",
            access_log=self._truth.log.access and self._arguments.access_log,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._http = _Uvicorn(config)
        if self._truth.loading.never_ready != "503":
            driver.start()
            self._truth_log.write("ready")
        await self._http.serve(sockets=[listener])

    def _terminate(self, terminated: asyncio.Event) -> None:
        """SIGTERM or SIGINT."""
        self._truth_log.write("term", ignored=self._truth.stopping.ignore_term)
        if self._truth.stopping.ignore_term:
            return
        terminated.set()
        self._exit_code = self._truth.stopping.exit_code
        if self._http is not None and self._stopping is None:
            self._stopping = asyncio.create_task(self._shut_down(self._truth.stopping.delay_s))

    async def _shut_down(self, delay_s: float) -> None:
        startup_log.stopping(self._log)
        await asyncio.sleep(delay_s)
        self._driver.fail()
        if self._http is not None:
            self._http.should_exit = True

    def _die(self, die: Die) -> None:
        """A planted death: at once, or as vLLM's when its engine fails."""
        if die.log is not None:
            self._log.error_line(die.log, "core.py:1190")
        code = -die.signal if die.how == "signal" else die.exit_code
        self._truth_log.write("death", how=die.how, exit_code=code)
        if die.how == "signal":
            os.kill(os.getpid(), die.signal)
        elif die.how == "exit":
            os._exit(die.exit_code)
        elif self._stopping is None:
            self._exit_code = die.exit_code
            self._driver.fail()
            self._stopping = asyncio.create_task(self._linger(die.linger_s))

    async def _linger(self, linger_s: float) -> None:
        await asyncio.sleep(linger_s)
        if self._http is not None:
            self._http.should_exit = True


def _count_start(section: str) -> int:
    """Which start of this section it is, from 0: the length of a file in ``SPECGAUGE_SIM_STARTS``
    that grows by a byte with each; 0 without that folder."""
    folder = os.environ.get("SPECGAUGE_SIM_STARTS")
    if not folder:
        return 0
    Path(folder).mkdir(parents=True, exist_ok=True)
    with (Path(folder) / section).open("ab") as file:
        before = file.tell()
        file.write(b".")
    return before
