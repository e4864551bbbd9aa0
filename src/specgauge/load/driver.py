"""One Locust process's share of a cell: its queue, its barrier, its exchanges, its records."""

from __future__ import annotations

import gc
import json
import os
import time
import traceback
from collections import deque
from collections.abc import Callable

import gevent
import httptools
from gevent.event import Event

from specgauge.load.clock import cpu_times, epoch_offset_ns
from specgauge.load.connection import Connection
from specgauge.load.exchange import Exchange
from specgauge.load.job import Parts
from specgauge.load.message import address, encode
from specgauge.load.plan import CellPlan, LoadProgress, PlannedRequest
from specgauge.record.documents import ClientSelf, ClockOffset

CONNECT_AHEAD_S = 1.0
"""Open loads: a request's connection is made this long before its time."""


class Driver:
    """Sends the share of ``plan`` that falls to ``worker``: every ``processes``-th request.

    A user calls ``drain`` once.  It connects, waits for the barrier and then sends what is next
    in the queue as soon as its last response is complete.  Nothing is parsed meanwhile.
    """

    def __init__(self, plan: CellPlan, parts: Parts, announce: Callable[[], None]) -> None:
        self.plan = plan
        self.parts = parts
        self.exchanges: list[Exchange] = []
        """Every request begun, in the order of beginning."""
        self.ended: list[Exchange] = []
        """Those that have ended, in the order of ending."""
        self.drained = Event()
        """Set when every request of this share has ended, or none can end any more."""
        self._fault: str | None = None
        self._announce = announce
        """Called each time a user is connected."""
        self._host, self._port, _prefix = address(plan.url)
        share = plan.requests[parts.worker :: plan.processes]
        self._queue: deque[tuple[PlannedRequest, bytes]] = deque(
            (request, encode(plan, request)) for request in share
        )
        self._share = len(share)
        self._slots = 0
        self._go = Event()
        self._t_go: int | None = None
        self._failed = 0
        self._events = 0
        self._running: dict[int, Exchange] = {}
        self._kernel = True
        self._gone: str | None = None
        self._offset = epoch_offset_ns()
        self._cpu = cpu_times()

    def start_at(self, t_go: int | None = None) -> None:
        """Open the barrier at monotonic time ``t_go`` (nanoseconds), or at once."""
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection in the middle of a cell would delay reads
        self._offset, self._cpu = epoch_offset_ns(), cpu_times()
        _sleep_until(t_go or 0)
        self._t_go = t_go or time.monotonic_ns()
        self._go.set()

    def drain(self) -> None:
        """Be one user: send requests until the queue is empty."""
        slot, self._slots = self._slots, self._slots + 1
        user = _User(self, slot)
        try:
            if self.plan.concurrency is None:
                self._one_scheduled(user)
            else:
                self._one_after_another(user)
        except Exception as error:  # a fault of ours must end the cell, not hang it
            traceback.print_exc()
            self._fault = self._fault or f"fault in the load generator: {error!r}"
            self.drained.set()
        finally:
            user.close()

    def _one_after_another(self, user: _User) -> None:
        user.connect()
        self._announce()
        self._go.wait()
        ready = self._t_go
        while self._queue:
            request, message = self._queue.popleft()
            exchange = Exchange(request, self.parts.worker, user.slot, ready=ready)
            ready = self._run(user, exchange, message)

    def _one_scheduled(self, user: _User) -> None:
        if not self._queue:  # shares differ by one request, users do not
            self._announce()
            return
        request, message = self._queue.popleft()
        offset = round((request.scheduled_s or 0.0) * 1e9)
        if offset < CONNECT_AHEAD_S * 1e9:
            user.connect()
        self._announce()
        self._go.wait()
        scheduled = (self._t_go or 0) + offset
        _sleep_until(scheduled - round(CONNECT_AHEAD_S * 1e9))
        user.connect()
        _sleep_until(scheduled)
        exchange = Exchange(
            request, self.parts.worker, request.index, scheduled=scheduled, ready=scheduled
        )
        self._run(user, exchange, message)

    def _run(self, user: _User, exchange: Exchange, message: bytes) -> int:
        """Perform one exchange; returns when it ended."""
        self.exchanges.append(exchange)
        self._running[exchange.request.index] = exchange
        if self._gone:
            exchange.failure = f"not sent: {self._gone}"
        else:
            exchange.failure = user.perform(exchange, message)
        if exchange.done is None:
            exchange.done = time.monotonic_ns()
        del self._running[exchange.request.index]
        self.ended.append(exchange)
        self._failed += has_failed(exchange)
        self._events += exchange.events
        if len(self.ended) == self._share:
            self.drained.set()
        return exchange.done

    def server_gone(self, reason: str) -> None:
        """Send no more: the server does not take connections (nothing is tried twice)."""
        self._gone = self._gone or reason

    def connected(self, connection: Connection) -> None:
        """Note whether this connection has kernel stamps."""
        self._kernel = self._kernel and connection.kernel

    def progress(self) -> LoadProgress:
        """How far this share is."""
        return LoadProgress(
            sent=len(self.exchanges),
            done=len(self.ended),
            failed=self._failed,
            tokens=self._events + sum(exchange.events for exchange in self._running.values()),
        )

    def write(self) -> None:
        """Parse what was recorded and write this process's parts; what still runs is ``cut``."""
        end, used = epoch_offset_ns(), cpu_times().since(self._cpu)
        # Imported now: Arrow's start must neither delay the cell nor count as its load.
        from specgauge.load.tables import write_parts

        all_ended = len(self.ended) == self._share
        t_end = self.ended[-1].done if all_ended and self.ended else time.monotonic_ns()
        write_parts(self.parts, self.exchanges, self._offset, self.plan.temperature)
        client = ClientSelf(
            worker=self.parts.worker,
            pid=os.getpid(),
            cpu_s=used.cpu_s,
            run_s=used.run_s,
            wait_s=used.wait_s,
            clock=ClockOffset(begin=self._offset / 1e9, end=end / 1e9),
            timestamps="kernel" if self._kernel else "user",
        )
        document = {
            "client": client.model_dump(),
            "t_go": None if self._t_go is None else self._t_go / 1e9,
            "t_end": (t_end or 0) / 1e9,
            "fault": self._fault,
        }
        temporary = self.parts.client.with_suffix(".tmp")
        temporary.write_text(json.dumps(document))
        temporary.rename(self.parts.client)


class _User:
    """A slot and its connection, made anew before a request wherever the server closed it."""

    def __init__(self, driver: Driver, slot: int) -> None:
        self.slot = slot
        self._driver = driver
        self._connection: Connection | None = None

    def connect(self) -> str | None:
        """Have a live connection; returns why there is none, in words."""
        if self._connection is not None and self._connection.is_alive():
            return None
        self.close()
        host, port = self._driver._host, self._driver._port
        try:
            self._connection = Connection(host, port)
        except OSError as error:
            return f"cannot connect to {host}:{port}: {error.strerror or error}"
        self._driver.connected(self._connection)
        return None

    def perform(self, exchange: Exchange, message: bytes) -> str | None:
        """Send and read one exchange; returns what went wrong, in words."""
        if reason := self.connect():
            self._driver.server_gone(reason)
            return reason
        assert self._connection is not None
        timeout_s = self._driver.plan.request_timeout_s
        reusable = False
        try:
            with gevent.Timeout(timeout_s):
                reusable = self._connection.perform(message, exchange)
        except gevent.Timeout:
            return f"no complete response within {timeout_s:g} s (request_timeout_s)"
        except EOFError:
            return f"the server closed the connection {_where(exchange)}"
        except OSError as error:
            return f"the connection broke {_where(exchange)}: {error.strerror or error}"
        except httptools.HttpParserError as error:
            return f"malformed HTTP response: {error}"
        finally:
            if not reusable:
                self.close()
        return None

    def close(self) -> None:
        """Drop the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _where(exchange: Exchange) -> str:
    if exchange.sent is None:
        return "while the request was being sent"
    return "in the middle of the response" if exchange.reads else "before any response"


def has_failed(exchange: Exchange) -> bool:
    """Whether it is known to have failed before its stream has been read."""
    return exchange.failure is not None or exchange.status != 200


def _sleep_until(t: int) -> None:
    """Sleep until monotonic nanosecond ``t`` (the event loop's timers may be 1 ms late)."""
    while (left := t - time.monotonic_ns()) > 0:
        gevent.sleep(left / 1e9)
