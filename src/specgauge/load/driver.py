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
from gevent.event import Event

from specgauge.load.clock import cpu_times, epoch_offset_ns
from specgauge.load.exchange import Exchange
from specgauge.load.job import Parts
from specgauge.load.message import address, encode
from specgauge.load.plan import CellPlan, LoadProgress, PlannedRequest
from specgauge.load.slot import Slot
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
        self._slots: list[Slot] = []
        self._go = Event()
        self._t_go: int | None = None
        self._failed = 0
        self._events = 0
        self._running: dict[int, Exchange] = {}
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
        slot = Slot(len(self._slots), self._host, self._port, self.plan.request_timeout_s)
        self._slots.append(slot)
        try:
            if self.plan.concurrency is None:
                self._one_scheduled(slot)
            else:
                self._one_after_another(slot)
        except Exception as error:  # a fault of ours must end the cell, not hang it
            traceback.print_exc()
            self._fault = self._fault or f"fault in the load generator: {error!r}"
            self.drained.set()
        finally:
            slot.close()

    def _one_after_another(self, slot: Slot) -> None:
        slot.connect()
        self._announce()
        self._go.wait()
        ready = self._t_go
        while self._queue:
            request, message = self._queue.popleft()
            exchange = Exchange(request, self.parts.worker, slot.number, ready=ready)
            ready = self._run(slot, exchange, message)

    def _one_scheduled(self, slot: Slot) -> None:
        if not self._queue:  # shares differ by one request, users do not
            self._announce()
            return
        request, message = self._queue.popleft()
        offset = round((request.scheduled_s or 0.0) * 1e9)
        if offset < CONNECT_AHEAD_S * 1e9:
            slot.connect()
        self._announce()
        self._go.wait()
        scheduled = (self._t_go or 0) + offset
        _sleep_until(scheduled - round(CONNECT_AHEAD_S * 1e9))
        slot.connect()
        _sleep_until(scheduled)
        exchange = Exchange(
            request, self.parts.worker, request.index, scheduled=scheduled, ready=scheduled
        )
        self._run(slot, exchange, message)

    def _run(self, slot: Slot, exchange: Exchange, message: bytes) -> int:
        """Perform one exchange; returns when it ended."""
        self.exchanges.append(exchange)
        self._running[exchange.request.index] = exchange
        if self._gone:
            exchange.failure = f"not sent: {self._gone}"
        else:
            exchange.failure = slot.perform(exchange, message)
            self._gone = self._gone or slot.refused  # send no more; nothing is tried twice
        if exchange.done is None:
            exchange.done = time.monotonic_ns()
        del self._running[exchange.request.index]
        self.ended.append(exchange)
        self._failed += has_failed(exchange)
        self._events += exchange.events
        if len(self.ended) == self._share:
            self.drained.set()
        return exchange.done

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
            timestamps="kernel" if all(slot.kernel for slot in self._slots) else "user",
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


def has_failed(exchange: Exchange) -> bool:
    """Whether it is known to have failed before its stream has been read."""
    return exchange.failure is not None or exchange.status != 200


def _sleep_until(t: int) -> None:
    """Sleep until monotonic nanosecond ``t`` (the event loop's timers may be 1 ms late)."""
    while (left := t - time.monotonic_ns()) > 0:
        gevent.sleep(left / 1e9)
