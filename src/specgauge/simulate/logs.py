"""Log lines in vLLM's words: format, throughput windows, JIT warnings, start and stop."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Literal

from specgauge.simulate.engine import Emission, Engine, Step
from specgauge.simulate.surroundings import LogStyle

Process = Literal["APIServer", "EngineCore", "Worker"]
_RECENT_REQUESTS = 1000  # the log's hit rate is over this many requests, as vLLM's


class Log:
    """Writes lines to stdout with vLLM's prefix: all of vLLM's processes are this one."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def line(
        self, message: str, source: str, process: Process = "APIServer", level: str = "INFO"
    ) -> None:
        """One message; several lines of text each get the prefix."""
        stamp = time.strftime("%m-%d %H:%M:%S")
        prefix = f"({process} pid={self._pid}) {level} {stamp} [{source}] "
        for text in message.split("\n"):
            self.raw(prefix + text)

    def warning_line(self, message: str, source: str, process: Process = "APIServer") -> None:
        """One warning."""
        self.line(message, source, process, "WARNING")

    def error_line(self, message: str, source: str, process: Process = "EngineCore") -> None:
        """One error or a traceback."""
        self.line(message, source, process, "ERROR")

    def raw(self, text: str) -> None:
        """A line as it is."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


class StatsWindow:
    """The figures of vLLM's periodic lines, since the last ones."""

    def __init__(self, style: LogStyle, k: int) -> None:
        self._style = style
        self._k = k
        self._recent: list[tuple[int, int]] = []
        self._was_idle = False
        self.reset(time.monotonic())

    def reset(self, now: float) -> None:
        """Begin a new window."""
        self._t0 = now
        self._prompt = self._generated = self._preempted = 0
        self._drafts = self._drafted = 0
        self._accepted = [0] * self._k

    def forget_hits(self) -> None:
        """The prefix cache was reset: so is the rolling hit rate."""
        self._recent.clear()

    def observe(self, step: Step, emissions: Sequence[Emission]) -> None:
        """Count a finished step; prompt tokens are those computed, not those found in the cache."""
        self._preempted += step.preempted
        if step.lookups:
            self._recent = [*self._recent, (step.queries, step.hits)][-_RECENT_REQUESTS:]
        for emission in emissions:
            self._generated += len(emission.token_ids)
            if emission.first:
                self._prompt += len(emission.request.prompt) - emission.request.cached
            if emission.draft is not None:
                self._drafts += 1
                self._drafted += emission.draft.proposed
                for position in range(emission.draft.accepted):
                    self._accepted[position] += 1

    def messages(self, engine: Engine, now: float) -> list[tuple[str, str]]:
        """The window's lines as (message, source), and a new window.  An idle server is silent
        from its second idle window on."""
        span = max(now - self._t0, 1e-9)
        idle = not self._prompt and not self._generated
        silent, self._was_idle = idle and self._was_idle, idle
        lines = [] if silent else [(self._throughput(engine, span), "loggers.py:335")]
        if self._k and not silent and (self._drafts or self._style.undrafted == "nan"):
            lines.append((self._spec_decoding(span), "metrics.py:120"))
        self.reset(now)
        return lines

    def _throughput(self, engine: Engine, span: float) -> str:
        parts = [
            f"Engine 000: Avg prompt throughput: {self._prompt / span:.1f} tokens/s",
            f"Avg generation throughput: {self._generated / span:.1f} tokens/s",
            f"Running: {len(engine.running)} reqs",
            f"Waiting: {len(engine.waiting)} reqs",
        ]
        if self._preempted:
            parts.append(f"Preemptions: {self._preempted}")
        parts.append(f"{self._style.device} KV cache usage: {engine.cache_usage * 100:.1f}%")
        if self._recent:
            queries, hits = (sum(column) for column in zip(*self._recent, strict=True))
            parts.append(f"Prefix cache hit rate: {100 * hits / max(queries, 1):.1f}%")
        return ", ".join(parts)

    def _spec_decoding(self, span: float) -> str:
        accepted = sum(self._accepted)
        none = float("nan")
        length = 1 + accepted / self._drafts if self._drafts else none
        rates = [a / self._drafts if self._drafts else none for a in self._accepted]
        rate = 100 * accepted / self._drafted if self._drafted else none
        positions = ", ".join(f"{r:.3f}" for r in rates)
        if self._style.wording == "0.9":
            return (
                f"SpecDecoding metrics: Draft acceptance rate: {rate:.1f}%, "
                f"Mean acceptance length: {length:.2f}, Accepted: {accepted} tokens, "
                f"Drafted: {self._drafted} tokens, Per-position acceptance rate: {positions}"
            )
        return (
            f"SpecDecoding metrics: Mean acceptance length: {length:.2f}, "
            f"Accepted throughput: {accepted / span:.2f} tokens/s, "
            f"Drafted throughput: {self._drafted / span:.2f} tokens/s, "
            f"Accepted: {accepted} tokens, Drafted: {self._drafted} tokens, "
            f"Per-position acceptance rate: {positions}, "
            f"Avg Draft acceptance rate: {rate:.1f}%"
        )
