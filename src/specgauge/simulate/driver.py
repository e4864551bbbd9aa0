"""Runs the engine on the real clock: sleeps through steps and freezes, hands out what they give.

Steps follow an absolute schedule, so that their times do not drift; after a delay of more than
``_CATCH_UP_S`` (this process did not get the CPU) the schedule starts anew.
"""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from specgauge.simulate.arguments import Arguments
from specgauge.simulate.clock import ExactSleeper
from specgauge.simulate.engine import Emission, Engine, Step
from specgauge.simulate.foreign import send_foreign
from specgauge.simulate.logs import Log
from specgauge.simulate.outbox import Outbox
from specgauge.simulate.planted import Die, Freeze, RequestFault
from specgauge.simulate.recorder import Recorder
from specgauge.simulate.request import Request, new_request
from specgauge.simulate.truth import Truth
from specgauge.simulate.truth_log import TruthLog

_CATCH_UP_S = 0.05
_OWN_FAULT = 70  # EX_SOFTWARE of sysexits.h
_NOTHING_TO_DO_S = 0.005  # all slots are held by stalled requests


class Driver:
    """The engine loop of one server.

    ``die`` is called when a planted death is due; it decides how.  ``start``: which start of its
    section the process is, from 0.
    """

    def __init__(
        self,
        truth: Truth,
        arguments: Arguments,
        log: Log,
        truth_log: TruthLog,
        die: Callable[[Die], None],
        start: int,
    ) -> None:
        self.truth = truth
        self.engine = Engine(
            truth,
            arguments.section,
            arguments.k,
            arguments.max_num_seqs or truth.max_num_seqs,
            start,
        )
        self.recorder = Recorder(self.engine, arguments, log, truth_log)
        self.ready = False
        self.dead = False
        self._truth_log = truth_log
        self._die = die
        self._outboxes: dict[Request, Outbox] = {}
        self._arrivals = 0
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """The server is ready: begin to count time and to step."""
        self.engine.t_ready = time.monotonic()
        self.recorder.window.reset(self.engine.t_ready)
        self.ready = True
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self.recorder.talk())]
        if self.truth.foreign is not None:
            sending = send_foreign(self.truth.foreign, self.engine, self._queue, self._truth_log)
            self._tasks.append(asyncio.create_task(sending))
        if self.truth.die is not None and self.truth.die.at_s is not None:
            self._tasks.append(asyncio.create_task(self._die_at(self.truth.die)))
        for task in self._tasks:
            task.add_done_callback(_fail_loudly)

    def next_fault(self) -> RequestFault | None:
        """Number the next HTTP request; what is planted for it."""
        self._arrivals += 1
        for fault in self.truth.faults:
            if fault.request == self._arrivals or (
                fault.every is not None and self._arrivals % fault.every == 0
            ):
                self._truth_log.write("fault", request=self._arrivals, what=fault.kind)
                return fault
        return None

    def submit(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        *,
        ignore_eos: bool,
        temperature: float,
        seed: int,
        fault: RequestFault | None,
    ) -> Outbox:
        """Queue the request that ``next_fault`` has numbered."""
        if fault is not None and fault.kind == "short":
            max_tokens = max(min(max_tokens, fault.after_tokens), 1)
        now = time.monotonic()
        request = new_request(
            self.truth,
            self.engine.section,
            prompt,
            max_tokens,
            arrival=self._arrivals,
            now=now,
            ignore_eos=ignore_eos,
            temperature=temperature,
            seed=seed,
        )
        request.stalled = fault is not None and fault.kind == "stall" and not fault.after_tokens
        outbox = Outbox(request, self.truth.merge_probability, fault)
        self._outboxes[request] = outbox
        self._truth_log.write(
            "request",
            t=now,
            request=request.arrival,
            prompt_tokens=len(prompt),
            max_tokens=max_tokens,
        )
        self._queue(request)
        return outbox

    def _queue(self, request: Request) -> None:
        self.engine.submit(request)
        self._wake.set()

    def abort(self, outbox: Outbox) -> None:
        """Its client is gone."""
        if outbox.request.finished is None:
            self.engine.abort(outbox.request)
            self.recorder.metrics.aborted()
            self._truth_log.write("abort", request=outbox.request.arrival)
        self._outboxes.pop(outbox.request, None)
        outbox.close()

    def fail(self) -> None:
        """The engine is dead: every request gets an error."""
        self.dead = True
        for outbox in list(self._outboxes.values()):
            self.engine.abort(outbox.request)
            outbox.close()

    def reset_prefix_cache(self) -> bool:
        """Forget all blocks; not while requests hold some."""
        if self.engine.running:
            return False
        self.engine.cache.reset()
        self.recorder.window.forget_hits()
        self._truth_log.write("reset")
        return True

    async def _run(self) -> None:
        sleeper = ExactSleeper()
        due: float | None = None
        while not self.dead:
            if not self.engine.active:
                due = None
                self._wake.clear()
                await self._wake.wait()
                continue
            now = time.monotonic()
            begin = due if due is not None and now - due < _CATCH_UP_S else now
            step = self.engine.plan(begin)
            if not step.work:
                await asyncio.sleep(_NOTHING_TO_DO_S)
                continue
            if step.preempted:
                self._truth_log.write("preempt", requests=step.preempted)
            await self._extras(step, sleeper)
            due = begin + step.duration_s
            await sleeper.until(due)
            self._finish(step)

    async def _extras(self, step: Step, sleeper: ExactSleeper) -> None:
        """Freezes and the first call's cost, which precede the step itself."""
        at = step.t_begin
        for freeze in step.freezes:
            t0 = max(at, time.monotonic())
            await sleeper.until(at + freeze.length_s * freeze.log_at)
            self.recorder.jit_lines(freeze)
            at += freeze.length_s
            await sleeper.until(at)
            _touch(freeze)
            self.recorder.freeze(freeze, step.batch, t0)
        if step.first_call_s:
            t0 = time.monotonic()
            await sleeper.until(at + step.first_call_s)
            self._truth_log.write("first_call", t0=t0, t1=time.monotonic())

    def _finish(self, step: Step) -> None:
        now = time.monotonic()
        emissions = self.engine.finish(step, now)
        for emission in emissions:
            self._hand_out(emission)
        self.recorder.step(step, emissions, now)
        die = self.truth.die
        if die is not None and (
            (die.after_tokens is not None and self.engine.generated >= die.after_tokens)
            or (die.after_requests is not None and self.engine.completed >= die.after_requests)
        ):
            self._die(die)

    def _hand_out(self, emission: Emission) -> None:
        request = emission.request
        outbox = self._outboxes.get(request)
        if outbox is None:
            return
        outbox.put(emission.token_ids, emission.finished)
        if emission.finished:
            del self._outboxes[request]
        fault = outbox.fault
        if fault is not None and fault.kind == "stall" and request.emitted >= fault.after_tokens:
            request.stalled = True

    async def _die_at(self, die: Die) -> None:
        await asyncio.sleep(die.at_s or 0)
        self._die(die)


def _fail_loudly(task: asyncio.Task[None]) -> None:
    """A fault of the simulator itself must not look like a planted one: end at once."""
    if not task.cancelled() and (error := task.exception()) is not None:
        traceback.print_exception(error)
        os._exit(_OWN_FAULT)


def _touch(freeze: Freeze) -> None:
    """Leave a new file in the compile cache, as a build does."""
    folder = os.environ.get("TRITON_CACHE_DIR")
    if freeze.touch_cache and folder:
        path = Path(folder) / f"simulated-{time.monotonic_ns():x}" / "kernel.cubin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"simulated")
