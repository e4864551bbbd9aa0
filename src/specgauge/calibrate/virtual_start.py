"""The simulator's engine on a virtual clock, recorded as a run would have been.

The same columns, documents and counters as a real run's; only nobody waited for the clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from specgauge.analyze.records import CellRecord, LogLine, StartRecord
from specgauge.record.documents import CellDocument, ClientSelf, ClockOffset, Outcome
from specgauge.record.schema import CHUNKS, METRICS, REQUESTS, SCRAPE_HZ, SCRAPE_SERIES
from specgauge.record.tables import frame
from specgauge.simulate.engine import Engine
from specgauge.simulate.freezes import jit_messages
from specgauge.simulate.request import Request, new_request
from specgauge.simulate.truth import Truth
from specgauge.simulate.virtual import VirtualStep, run_closed

READ_S = 50e-6
"""From the kernel to user space."""
EPOCH_OFFSET = 1_796_000_000.0
BEGIN = 1000.0
"""First second of the virtual clock."""
EDGES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, float("inf"))
"""Buckets of the step histogram, seconds."""


@dataclass
class Event:
    """What the server's counters grew by at a moment: (name, labels) → growth."""

    t: float
    grown: dict[tuple[str, str], float]


def scraped(events: Sequence[Event], t0: float, t1: float) -> pd.DataFrame:
    """``metrics.parquet`` of a scraper that watched ``events`` from ``t0`` to ``t1``."""
    names = sorted({key for event in events for key in event.grown})
    totals = dict.fromkeys(names, 0.0)
    written: dict[tuple[str, str], float] = {}
    rows: list[tuple[float, str, str, float]] = []
    at = 0
    for t in np.arange(t0, t1 + 1 / SCRAPE_HZ, 1 / SCRAPE_HZ):
        while at < len(events) and events[at].t <= t:
            for key, growth in events[at].grown.items():
                totals[key] += growth
            at += 1
        rows.append((float(t), SCRAPE_SERIES, "{}", 0.004))
        for (name, labels), value in totals.items():
            if written.get((name, labels)) != value:
                written[name, labels] = value
                rows.append((float(t), name, labels, value))
    return pd.DataFrame(rows, columns=METRICS.names)


@dataclass
class VirtualStart:
    """One server of a run; cells follow each other on its clock."""

    truth: Truth
    section: str
    variant: str
    start: int = 0
    round: int = 0
    now: float = BEGIN
    events: list[Event] = field(default_factory=list)
    log: list[LogLine] = field(default_factory=list)
    cells: list[CellRecord] = field(default_factory=list)
    confirmations: list[CellRecord] = field(default_factory=list)
    steps: list[VirtualStep] = field(default_factory=list)
    """Of the last cell: what really happened."""
    arrived: int = 0

    def __post_init__(self) -> None:
        planted = self.truth.for_process(self.section, self.start)
        k = int(self.section.partition(":")[2] or 0)
        self.engine = Engine(planted, self.section, k, 256, self.start)
        self.log.append(LogLine(self.now, "O", "Kernel JIT monitor activated; …"))

    def reset(self) -> None:
        """Empty the prefix cache."""
        self.engine.cache.reset()

    def read(self, prompts: Sequence[Sequence[int]]) -> None:
        """Only put ``prompts`` into the prefix cache."""
        self.cell("prefill", prompts, 1, 1)
        self.cells.pop()

    def cell(
        self, load: str, prompts: Sequence[Sequence[int]], concurrency: int, tokens: int,
        *, last_tokens: int | None = None, confirms: bool = False, reset: bool = False,
    ) -> CellRecord:  # fmt: skip
        """Send ``prompts``, each for ``tokens`` of output; the last ends after ``last_tokens``."""
        lengths = [tokens] * len(prompts)
        if last_tokens is not None:
            lengths[-1] = last_tokens
        begin = self.now + 1.0
        requests: list[Request] = []
        slots: list[int] = []
        free = list(range(concurrency))
        followed: set[int] = set()

        def make(index: int, now: float) -> Request:
            self.arrived += 1
            made = new_request(
                self.engine.truth, self.section, prompts[index], lengths[index],
                arrival=self.arrived, now=now, ignore_eos=True,
            )  # fmt: skip
            done = [i for i, r in enumerate(requests) if r.finished and i not in followed]
            slots.append(free.pop(0) if free else slots[done[0]])
            if done and index >= concurrency:
                followed.add(done[0])
            requests.append(made)
            return made

        self.steps = steps = run_closed(self.engine, make, len(prompts), concurrency, t_begin=begin)
        self.now = steps[-1].t_end + 1.0
        record = self._record(load, steps, requests, slots, concurrency, tokens, begin, reset)
        (self.confirmations if confirms else self.cells).append(record)
        return record

    def _record(
        self, load: str, steps: list[VirtualStep], requests: list[Request], slots: list[int],
        concurrency: int, tokens: int, begin: float, reset: bool,
    ) -> CellRecord:  # fmt: skip
        index = {id(r): i for i, r in enumerate(requests)}
        counts = [0] * len(requests)
        chunks: list[dict[str, Any]] = []
        for passed in steps:
            self._note(passed)
            for emission in passed.emissions:
                i = index[id(emission.request)]
                chunks.append({
                    "request": i, "seq": counts[i], "t": passed.t_end,
                    "t_user": passed.t_end + READ_S, "kernel": True, "shared_read": 1,
                    "tokens": len(emission.token_ids), "token_ids": list(emission.token_ids),
                })  # fmt: skip
                counts[i] += 1
        rows = [self._row(i, r, slots[i], counts[i], tokens) for i, r in enumerate(requests)]
        clock = ClockOffset(begin=EPOCH_OFFSET, end=EPOCH_OFFSET)
        document = CellDocument(
            variant=self.variant, start=self.start, load=load, repeat=0, concurrency=concurrency,
            state="complete", planned_requests=len(rows), t_begin=begin - 0.5, t_go=begin,
            t_end=self.now - 0.6, clock=clock, output_tokens=tokens, ignore_eos=True,
            temperature=0.0, prefix_cache="keep", prefix_cache_was_reset=reset,
            clients=[ClientSelf(worker=0, pid=1, cpu_s=0.1, clock=clock, timestamps="kernel")],
        )  # fmt: skip
        table = pa.Table.from_pylist(rows, schema=REQUESTS)
        parts = pa.Table.from_pylist(chunks, schema=CHUNKS)
        return CellRecord(self.variant, self.start, load, 0, document, frame(table), frame(parts))

    def _row(self, i: int, r: Request, slot: int, chunks: int, tokens: int) -> dict[str, Any]:
        assert r.t_first is not None
        assert r.t_last is not None
        return {
            "index": i, "prompt_id": f"p{i}", "category": "all", "worker": 0, "slot": slot,
            "state": "ok", "http_status": 200, "t_ready": r.t_arrival, "t_send": r.t_arrival,
            "t_sent": r.t_arrival, "t_first": r.t_first, "t_first_user": r.t_first + READ_S,
            "t_last": r.t_last, "t_last_user": r.t_last + READ_S, "t_done": r.t_last + READ_S,
            "prompt_tokens": len(r.prompt), "usage_prompt_tokens": len(r.prompt),
            "usage_completion_tokens": r.emitted, "output_tokens": r.emitted, "max_tokens": tokens,
            "chunks": chunks, "finish_reason": "stop" if r.emitted < tokens else r.finished,
            "seed": i, "temperature": 0.0,
        }  # fmt: skip

    def _note(self, passed: VirtualStep) -> None:
        """What the server counts and says of one step."""
        step = passed.step
        grown: dict[tuple[str, str], float] = {}

        def count(name: str, value: float, labels: str = "{}") -> None:
            grown[f"vllm:{name}", labels] = grown.get((f"vllm:{name}", labels), 0.0) + value

        count("generation_tokens_total", sum(len(e.token_ids) for e in passed.emissions))
        count("prefix_cache_queries_total", step.queries)
        count("prefix_cache_hits_total", step.hits)
        count("prompt_tokens_total", step.queries)
        if self.engine.drafter.k:
            drafts = [e.draft for e in passed.emissions if e.draft]
            count("spec_decode_num_drafts_total", len(drafts))
            count("spec_decode_num_draft_tokens_total", sum(d.proposed for d in drafts))
            count("spec_decode_num_accepted_tokens_total", sum(d.accepted for d in drafts))
            for j in range(self.engine.drafter.k):
                reached = sum(d.accepted > j for d in drafts)
                position = json.dumps({"position": str(j)})
                count("spec_decode_num_accepted_tokens_per_pos_total", reached, position)
        for e in passed.emissions:
            if e.gap_s is not None:
                count("inter_token_latency_seconds_count", 1)
                count("inter_token_latency_seconds_sum", e.gap_s)
                for edge in EDGES:
                    le = json.dumps({"le": "+Inf" if edge == float("inf") else str(edge)})
                    count("inter_token_latency_seconds_bucket", float(e.gap_s <= edge), le)
            elif e.request.t_scheduled is not None:
                count("request_prefill_time_seconds_count", 1)
                count("request_prefill_time_seconds_sum", passed.t_end - e.request.t_scheduled)
            if e.finished:
                count("request_success_total", 1)
        self.events.append(Event(passed.t_end, grown))
        at = step.t_begin
        for freeze in step.freezes:
            self.log += [
                LogLine(at + freeze.length_s * freeze.log_at, "O", f"WARNING {message}")
                for message in jit_messages(freeze)
            ]
            at += freeze.length_s

    def record(self) -> StartRecord:
        """The start as the reader would give it."""
        outcome = Outcome(
            variant=self.variant, start=self.start, round=self.round, state="complete",
            vllm_version=self.truth.version,
        )  # fmt: skip
        return StartRecord(
            self.variant, self.start, None, outcome, tuple(self.log),
            scraped(self.events, BEGIN - 1, self.now), tuple(self.cells),
            confirmations=tuple(self.confirmations),
        )  # fmt: skip
