"""Cells and whole results folders with a planted truth, without a server or a load generator."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from specgauge.analyze.records import CellRecord
from specgauge.record import atomic
from specgauge.record.documents import CellDocument, ClientSelf, ClockOffset, Launch, Outcome
from specgauge.record.layout import CellPaths, RunPaths
from specgauge.record.schema import CHUNKS, METRICS, REQUESTS, SCRAPE_SERIES
from specgauge.record.tables import frame

EPOCH_OFFSET = 1_796_000_000.0


@dataclass(frozen=True)
class Plant:
    """What a synthetic cell does."""

    requests: int = 8
    concurrency: int | None = 1
    rate: float | None = None
    output_tokens: int = 64
    prompt_tokens: int = 40
    ttft_s: float = 0.1
    step_s: float = 0.03
    k: int = 0
    coverage: float = 0.0
    """Share of steps with a draft."""
    accept: float = 0.7
    """Chance that the next drafted token is accepted."""
    idle_s: float = 0.0
    """Client's pause between a request's end and its slot's next send."""
    read_delay_s: float = 0.0001
    kernel: bool = True
    seed: int = 0
    cached_share: float = 0.25


@dataclass
class Event:
    t: float
    grown: dict[tuple[str, str], float]


@dataclass
class Built:
    """A cell's records and what the server counted while it ran."""

    record: CellRecord
    requests: pa.Table
    chunks: pa.Table
    events: list[Event]
    truth: dict[str, float]


def build_cell(
    plant: Plant,
    *,
    variant: str = "vanilla",
    start: int = 0,
    load: str | None = None,
    repeat: int = 0,
    t0: float = 1000.0,
) -> Built:
    """A cell that does what ``plant`` says, closed or open loop."""
    rng = np.random.default_rng(plant.seed)
    is_open = plant.rate is not None
    slots = plant.requests if is_open else plant.concurrency or 1
    free = [t0] * slots
    arrivals = np.cumsum(rng.exponential(1 / plant.rate, plant.requests)) if is_open else None
    rows: list[dict[str, Any]] = []
    chunk_rows: list[dict[str, Any]] = []
    events: list[Event] = []
    totals = {"drafts": 0, "draft_tokens": 0, "accepted": 0, "stream_accepted": 0}
    for i in range(plant.requests):
        slot = i if is_open else int(np.argmin(free))
        scheduled = t0 + float(arrivals[i]) if arrivals is not None else None
        ready = scheduled if scheduled is not None else free[slot]
        send = ready + (plant.idle_s if is_open or ready > t0 else 0.0)
        t = send + plant.ttft_s
        sizes = [1]
        times = [t]
        events.append(Event(t, _grown(plant, prompt=True, generated=1)))
        while sum(sizes) < plant.output_tokens:
            t += plant.step_s
            drafted = plant.k > 0 and rng.random() < plant.coverage
            accepted = 0
            if drafted:
                while accepted < plant.k and rng.random() < plant.accept:
                    accepted += 1
            size = min(1 + accepted, plant.output_tokens - sum(sizes))
            sizes.append(size)
            times.append(t)
            totals["drafts"] += drafted
            totals["draft_tokens"] += plant.k if drafted else 0
            totals["accepted"] += accepted
            totals["stream_accepted"] += size - 1
            events.append(
                Event(t, _grown(plant, generated=size, step=plant.step_s,
                                drafted=drafted, accepted=accepted))
            )  # fmt: skip
        events.append(Event(t, {("vllm:request_success_total", '{"finished_reason":"length"}'): 1}))
        done = t + plant.read_delay_s
        free[slot] = done
        for seq, (size, at) in enumerate(zip(sizes, times, strict=True)):
            begin = 100_000 * (i + 1) + sum(sizes[:seq])  # no two alike: nothing degenerate
            ids = list(range(begin, begin + size))
            chunk_rows.append(
                {"request": i, "seq": seq, "t": at, "t_user": at + plant.read_delay_s,
                 "kernel": plant.kernel, "tokens": size, "token_ids": ids, "shared_read": 1}
            )  # fmt: skip
        rows.append(
            {
                "index": i, "prompt_id": f"p{i % 16}", "category": ("code", "chat")[i % 2],
                "worker": 0, "slot": slot, "state": "ok", "error": None, "http_status": 200,
                "t_scheduled": scheduled, "t_ready": ready, "t_send": send, "t_sent": send + 1e-5,
                "t_first": times[0], "t_first_user": times[0] + plant.read_delay_s,
                "t_last": t, "t_last_user": done, "t_done": done,
                "prompt_tokens": plant.prompt_tokens, "usage_prompt_tokens": plant.prompt_tokens,
                "usage_completion_tokens": sum(sizes), "cached_tokens": None,
                "output_tokens": sum(sizes), "max_tokens": plant.output_tokens,
                "chunks": len(sizes), "finish_reason": "length", "stop_reason": None,
                "seed": i, "temperature": 0.0, "text": "",
            }
        )  # fmt: skip
    requests = pa.Table.from_pylist(rows, schema=REQUESTS)
    chunks = pa.Table.from_pylist(chunk_rows, schema=CHUNKS)
    first, last = min(r["t_send"] for r in rows), max(r["t_last"] for r in rows)
    document = CellDocument(
        variant=variant,
        start=start,
        load=load or (f"r{plant.rate}" if is_open else f"c{plant.concurrency}"),
        repeat=repeat,
        concurrency=None if is_open else plant.concurrency,
        rate=plant.rate,
        state="complete",
        planned_requests=plant.requests,
        t_begin=t0 - 0.5,
        t_go=t0,
        t_end=max(r["t_done"] for r in rows) + 0.1,
        clock=ClockOffset(begin=EPOCH_OFFSET, end=EPOCH_OFFSET),
        clients=[ClientSelf(worker=0, pid=1, cpu_s=0.1, run_s=0.1, wait_s=0.01, timestamps="kernel",
                            clock=ClockOffset(begin=EPOCH_OFFSET, end=EPOCH_OFFSET))],
        output_tokens=plant.output_tokens,
        ignore_eos=True,
        temperature=0.0,
        prefix_cache="keep",
    )  # fmt: skip
    tokens = sum(r["output_tokens"] for r in rows)
    steps = len(chunk_rows) - len(rows)
    truth = {
        **totals,
        "output_tok_s": tokens / (last - first),
        "tokens_per_step": (tokens - len(rows)) / steps if steps else math.nan,
        "coverage": totals["drafts"] / steps if steps else math.nan,
        "length": 1 + totals["accepted"] / totals["drafts"] if totals["drafts"] else 1.0,
        "steps": steps,
    }
    record = CellRecord(
        variant, start, document.load, repeat, document, frame(requests), frame(chunks)
    )
    return Built(record, requests, chunks, sorted(events, key=lambda e: e.t), truth)


def _grown(
    plant: Plant,
    *,
    generated: int,
    prompt: bool = False,
    step: float | None = None,
    drafted: bool = False,
    accepted: int = 0,
) -> dict[tuple[str, str], float]:
    grown: dict[tuple[str, str], float] = {("vllm:generation_tokens_total", "{}"): generated}
    if prompt:
        grown["vllm:prompt_tokens_total", "{}"] = plant.prompt_tokens
        grown["vllm:prefix_cache_queries_total", "{}"] = plant.prompt_tokens
        grown["vllm:prefix_cache_hits_total", "{}"] = plant.prompt_tokens * plant.cached_share
    if step is not None:
        grown["vllm:inter_token_latency_seconds_count", "{}"] = 1
        grown["vllm:inter_token_latency_seconds_sum", "{}"] = step
    if plant.k:
        grown["vllm:spec_decode_num_drafts_total", "{}"] = int(drafted)
        grown["vllm:spec_decode_num_draft_tokens_total", "{}"] = plant.k * int(drafted)
        grown["vllm:spec_decode_num_accepted_tokens_total", "{}"] = accepted
        for position in range(plant.k):
            key = ("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                   json.dumps({"position": str(position)}, separators=(",", ":")))  # fmt: skip
            grown[key] = int(accepted > position)
    return grown


def scrapes(events: Sequence[Event], t0: float, t1: float, hz: float = 5.0) -> pa.Table:
    """``metrics.parquet`` rows of a 5 Hz scraper that watched ``events``."""
    values: dict[tuple[str, str], float] = {}
    for event in events:
        for key in event.grown:
            values.setdefault(key, 0.0)
    rows: list[dict[str, Any]] = []
    written: dict[tuple[str, str], float] = {}
    pending = list(events)
    for t in np.arange(t0, t1 + 1 / hz, 1 / hz):
        while pending and pending[0].t <= t:
            for key, growth in pending.pop(0).grown.items():
                values[key] += growth
        rows.append({"t": t, "name": SCRAPE_SERIES, "labels": "{}", "value": 0.004})
        for (name, labels), value in values.items():
            if written.get((name, labels)) != value:
                rows.append({"t": t, "name": name, "labels": labels, "value": value})
                written[name, labels] = value
    return pa.Table.from_pylist(rows, schema=METRICS)


@dataclass(frozen=True)
class StartPlant:
    """One synthetic server start."""

    loads: Mapping[str, Sequence[Plant]]
    """Load name → one plant a repeat."""
    round: int = 0
    role: str = "round"
    state: str | None = "complete"
    """None: no outcome.json (a partial start)."""
    log: Sequence[str] = ()
    speculative_config: dict[str, Any] | None = None
    warmup: Sequence[Plant] = field(default=())


VANILLA_LOG = (
    "(APIServer pid=1) INFO 11-29 15:24:47 [api_utils.py:347] vLLM  version 0.32.0",
    "(APIServer pid=1) WARNING 11-29 15:24:54 [vllm.py:725] Model Runner V2 requires Triton; "
    "using the V1 model runner instead.",
    "(EngineCore pid=2) INFO 11-29 15:25:07 [kv_cache_utils.py:2327] CPU KV cache size: "
    "1,048,576 tokens, Maximum concurrency for 2,048 tokens per request: 512.00x",
)
NGRAM_LOG = (
    *VANILLA_LOG,
    "(APIServer pid=1) WARNING 11-29 15:26:05 [vllm.py:1605] Async scheduling not supported with "
    "ngram-based speculative decoding and will be disabled.",
)


def write_run(
    folder: Path,
    starts: Mapping[tuple[str, int], StartPlant],
    *,
    loads: Sequence[Mapping[str, Any]],
    rounds: int = 1,
    repeats: int = 1,
    baseline: str = "vanilla",
    slo: Mapping[str, float] | None = None,
    matched: Mapping[str, str] | None = None,
    baseline_last: bool = False,
) -> Path:
    """Write a results folder with these starts; returns it."""
    paths = RunPaths(folder)
    names = list(dict.fromkeys(variant for variant, _ in starts))
    configs = {v: p.speculative_config for (v, _), p in starts.items()}
    atomic.write_json(
        paths.manifest,
        {
            "schema": "specgauge.results/1",
            "experiment": {
                "name": "synthetic", "model": "m", "variants": names, "baseline": baseline,
                "loads": list(loads), "rounds": rounds, "repeats": repeats,
                "slo": dict(slo) if slo else None, "baseline_last": baseline_last,
            },
            "run_id": folder.name,
            "created_at": "2026-11-29T15:00:00Z",
            "variants": {
                n: {"name": n, "speculative_config": configs[n],
                    "matched_baseline": (matched or {}).get(n)}
                for n in names
            },
            "model": {"name": "SmolLM2-135M-Instruct"},
            "runtime": "process",
            "vllm": {"command": ["vllm", "serve"], "version": "0.32.0"},
            "machine": {"cpu": "2 cores", "memory_gib": 16},
            "git": {"commit": "0" * 40},
            "workload": {"name": "builtin", "prompts": 16},
            "fingerprint": "f",
        },
    )  # fmt: skip
    for (variant, k), plant in starts.items():
        _write_start(paths, variant, k, plant)
    return folder


def _write_start(paths: RunPaths, variant: str, k: int, plant: StartPlant) -> None:
    at = paths.start(variant, k)
    t = 1000.0 * (k + 1)
    begin = t - 30
    events: list[Event] = []
    cells = [("warmup", r, p) for r, p in enumerate(plant.warmup)]
    cells += [(load, r, p) for load, plants in plant.loads.items() for r, p in enumerate(plants)]
    for load, repeat, cell_plant in cells:
        built = build_cell(cell_plant, variant=variant, start=k, load=load, repeat=repeat, t0=t)
        write_cell(at.cell(load, repeat), built)
        events += built.events
        assert built.record.document is not None
        t = built.record.document.t_end + 2.0
    atomic.write_parquet(at.metrics, scrapes(events, begin, t))
    stamp = datetime.fromtimestamp(begin + EPOCH_OFFSET, UTC).isoformat(timespec="milliseconds")
    stamped = [f"{stamp.replace('+00:00', 'Z')} E {line}" for line in plant.log]
    atomic.write_text(at.server_log, "".join(f"{line}\n" for line in stamped))
    launch = Launch(
        id=f"{variant}-{k}", argv=["vllm", "serve"], env={}, pid=1,
        started_at=begin + EPOCH_OFFSET, clock_offset=EPOCH_OFFSET,
        ready_at=begin + 22 + EPOCH_OFFSET, ended_at=t + EPOCH_OFFSET, exit_code=0,
    )  # fmt: skip
    atomic.write_json(at.launch, launch.model_dump(mode="json"))
    if plant.state is not None:
        outcome = Outcome.model_validate(
            {"variant": variant, "start": k, "round": plant.round, "role": plant.role,
             "state": plant.state, "speculative_config": plant.speculative_config}
        )  # fmt: skip
        atomic.write_json(at.outcome, outcome.model_dump(mode="json"))


def write_cell(at: CellPaths, built: Built) -> None:
    """Write one cell's three files."""
    assert built.record.document is not None
    atomic.write_parquet(at.requests, built.requests)
    atomic.write_parquet(at.chunks, built.chunks)
    atomic.write_json(at.cell, built.record.document.model_dump(mode="json"))


NGRAM = {"method": "ngram", "num_speculative_tokens": 6,
         "prompt_lookup_min": 4, "prompt_lookup_max": 6}  # fmt: skip
LOADS = ({"requests": 8, "concurrency": 1}, {"requests": 16, "concurrency": 4})
BASE = Plant()
FAST = replace(BASE, k=6, coverage=0.4, step_s=0.033, accept=0.6)


def write_small_run(folder: Path) -> Path:
    """One round of vanilla and ngram at c1 and c4, the baseline again at the end."""
    c4 = {"requests": 16, "concurrency": 4}
    vanilla = {"c1": [BASE], "c4": [replace(BASE, **c4, step_s=0.04, ttft_s=0.2)]}
    ngram = {"c1": [FAST], "c4": [replace(FAST, **c4, step_s=0.08, ttft_s=0.21)]}
    warm = [replace(BASE, requests=1, output_tokens=8, ttft_s=s) for s in (1.8, 0.1)]
    return write_run(
        folder,
        {
            ("vanilla", 0): StartPlant(vanilla, log=VANILLA_LOG),
            ("ngram", 0): StartPlant(ngram, log=NGRAM_LOG, speculative_config=NGRAM, warmup=warm),
            ("vanilla", 1): StartPlant(vanilla, role="drift", round=1, log=VANILLA_LOG),
        },
        loads=LOADS,
    )


def requests_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of ``requests.parquet`` with nulls where a row says nothing."""
    return frame(pa.Table.from_pylist([dict(r) for r in rows], schema=REQUESTS))


def chunks_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of ``chunks.parquet`` with nulls where a row says nothing."""
    return frame(pa.Table.from_pylist([dict(r) for r in rows], schema=CHUNKS))
