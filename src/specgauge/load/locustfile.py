"""The locustfile: binds a ``Driver`` to Locust's users, runner and events.

Started by ``specgauge.load.cell.run_load``, never by hand: the plan comes through the environment.
A lone process opens its barrier itself; under a master, workers report each connected user, the
master names one time for all (they share the host's monotonic clock), and when every worker has
reported its queue drained, the master ends the test.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any

import gevent
from gevent.socket import wait_read
from locust import User, events, task
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

from specgauge.load.driver import Driver
from specgauge.load.exchange import Exchange
from specgauge.load.job import MARK, WORKER, Parts, from_environment

TICK_S = 0.5
GO_DELAY_S = 0.25
"""From the master's message to the barrier: time for it to reach every worker."""
CONNECTED, GO, DRAINED = "specgauge_connected", "specgauge_go", "specgauge_drained"

PLAN, FOLDER = from_environment()


class Bench:
    """The parts of this process that Locust's events have to reach."""

    environment: Any = None
    driver: Driver | None = None
    connected = 0
    drained = 0
    reported = 0
    written = False


class CompletionUser(User):
    """One slot of the load."""

    @task
    def drain(self) -> None:
        """Send requests until none is left, then leave."""
        assert Bench.driver is not None
        Bench.driver.drain()
        raise StopUser


def _begin(environment: Any, runner: Any, **_: Any) -> None:
    Bench.environment = environment
    gevent.spawn(_end_with_parent)
    if isinstance(runner, MasterRunner):
        runner.register_message(CONNECTED, _count_connected)
        runner.register_message(DRAINED, _count_drained)
        return
    if isinstance(runner, WorkerRunner):
        worker = int(os.environ[WORKER])
        runner.register_message(GO, _go)
        announce = _tell_connected
    else:
        worker, announce = 0, _connected_alone
    Bench.driver = Driver(PLAN, Parts(FOLDER, worker), announce)
    gevent.spawn(_tick)
    gevent.spawn(_end_when_drained)


def _connected_alone() -> None:
    Bench.connected += 1
    if Bench.connected == PLAN.users:
        assert Bench.driver is not None
        gevent.spawn(Bench.driver.start_at)


def _tell_connected() -> None:
    Bench.environment.runner.send_message(CONNECTED, None)


def _count_connected(environment: Any, msg: Any, **_: Any) -> None:
    Bench.connected += 1
    if Bench.connected == PLAN.users:
        go = time.monotonic_ns() + round(GO_DELAY_S * 1e9)
        environment.runner.send_message(GO, go)


def _go(environment: Any, msg: Any, **_: Any) -> None:
    assert Bench.driver is not None
    gevent.spawn(Bench.driver.start_at, msg.data)


def _count_drained(environment: Any, msg: Any, **_: Any) -> None:
    Bench.drained += 1
    if Bench.drained == PLAN.processes:
        gevent.spawn(environment.runner.quit)


def _end_when_drained() -> None:
    assert Bench.driver is not None
    Bench.driver.drained.wait()
    _report()
    _write()
    runner = Bench.environment.runner
    if isinstance(runner, WorkerRunner):
        runner.send_message(DRAINED, None)
    else:
        runner.quit()


def _tick() -> None:
    """Every half second: a line of progress, and Locust's own statistics brought up to date."""
    while True:
        gevent.sleep(TICK_S)
        _report()


def _report() -> None:
    driver = Bench.driver
    assert driver is not None
    print(MARK + json.dumps(asdict(driver.progress())), flush=True)
    for exchange in driver.ended[Bench.reported :]:
        Bench.reported += 1
        _tell_locust(exchange)
        gevent.sleep(0)  # reads come first


def _tell_locust(exchange: Exchange) -> None:
    begun = exchange.send or exchange.ready or 0
    failure = exchange.failure or (None if exchange.status == 200 else f"HTTP {exchange.status}")
    Bench.environment.events.request.fire(
        request_type="POST",
        name="/v1/completions",
        response_time=((exchange.done or begun) - begun) / 1e6,
        response_length=exchange.length,
        exception=None if failure is None else RuntimeError(failure),
        context={},
    )


def _write() -> None:
    if Bench.driver is not None and not Bench.written:
        Bench.written = True
        Bench.driver.write()


def _end(environment: Any, **_: Any) -> None:
    """Also reached through TERM: what runs then is recorded as cut."""
    _write()


def _end_with_parent() -> None:
    """Nothing is ever written to stdin: when it ends, the harness has gone, and so do we."""
    wait_read(sys.stdin.fileno())
    Bench.environment.runner.quit()
    gevent.sleep(10)
    os._exit(1)


events.init.add_listener(_begin)  # type: ignore[no-untyped-call]
events.quitting.add_listener(_end)  # type: ignore[no-untyped-call]
