"""Everything that is written down of a step: metrics, log lines, the truth log."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence

from specgauge.simulate.arguments import Arguments
from specgauge.simulate.engine import Emission, Engine, Step
from specgauge.simulate.freezes import jit_messages
from specgauge.simulate.logs import Log, StatsWindow
from specgauge.simulate.metrics import Metrics
from specgauge.simulate.planted import Freeze
from specgauge.simulate.truth_log import TruthLog

_LOG_INTERVAL_S = "10"


class Recorder:
    """The observers of one engine."""

    def __init__(self, engine: Engine, arguments: Arguments, log: Log, truth_log: TruthLog) -> None:
        self.metrics = Metrics(arguments.served_model_name, engine)
        self.window = StatsWindow(engine.truth.log, arguments.k)
        self._engine = engine
        self._verbose = arguments.jit_verbose
        self._log = log
        self._truth_log = truth_log
        self._said: set[str] = set()

    def jit_lines(self, freeze: Freeze) -> None:
        """The JIT monitor's lines: once per kernel, unless the monitor is verbose."""
        for message in jit_messages(freeze):
            if message in self._said and not self._verbose:
                continue
            self._said.add(message)
            self._log.warning_line(message, "jit_monitor.py:135", "EngineCore")
            self._truth_log.write("jit_line", message=message)

    def freeze(self, freeze: Freeze, batch: int, t0: float) -> None:
        """A freeze that ends now."""
        self._truth_log.write(
            "freeze",
            t0=t0,
            t1=time.monotonic(),
            length_s=freeze.length_s,
            log=freeze.log,
            batch=batch,
        )

    def step(self, step: Step, emissions: Sequence[Emission], now: float) -> None:
        """A step that ended at ``now``."""
        self.metrics.observe(step, emissions, self._engine, now)
        self.window.observe(step, emissions)
        drafts = [e.draft for e in emissions if e.draft is not None]
        self._truth_log.write(
            "step",
            t0=step.t_begin,
            t1=now,
            planned_s=step.duration_s,
            batch=step.batch,
            running=len(self._engine.running),
            waiting=len(self._engine.waiting),
            prefill_tokens=step.prefill,
            cached_tokens=step.hits,
            tokens=sum(len(e.token_ids) for e in emissions),
            drafts=len(drafts),
            draft_tokens=sum(d.proposed for d in drafts),
            accepted=sum(d.accepted for d in drafts),
            preempted=step.preempted,
        )

    async def talk(self) -> None:
        """Write the throughput lines for ever, at a fixed interval."""
        planted = self._engine.truth.log.interval_s
        interval = planted or float(os.environ.get("VLLM_LOG_STATS_INTERVAL", _LOG_INTERVAL_S))
        while True:
            await asyncio.sleep(interval)
            for message, source in self.window.messages(self._engine, time.monotonic()):
                self._log.line(message, source)
