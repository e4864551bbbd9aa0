"""FREEZE: the engine stood still for longer than a step and its prefill explain."""

from __future__ import annotations

import numpy as np

from specgauge.analyze import witnesses
from specgauge.analyze.confirmation import Confirmation
from specgauge.analyze.context import CellContext
from specgauge.analyze.counters import Window
from specgauge.analyze.derived import FREEZE, size
from specgauge.analyze.document import Reason, Severity
from specgauge.analyze.freezes import Freeze, batch_class
from specgauge.analyze.log import lines
from specgauge.analyze.witnesses import Witness
from specgauge.record.schema import CPU_WAIT

CODE = FREEZE

SHARE = 0.01
"""Of the duration from which it is suspect: what five rounds can just resolve is 1.8 %."""
STARVED_SHARE = 0.5
"""Of a silence that the server must have waited for a CPU for that to be its cause."""

_REMEDIES = {
    "CONFIRMED ONE-OFF": "Read the corrected throughput beside the raw one; a longer warm-up "
    "would have taken it out of the measurement.",
    "RECURS": "It belongs to this setting: do not take it off; find out what the server does there "
    "(its log, a profiler).",
    "NEW STALL": "Measure again: the repeat had a stall of its own. A warm-up of all batch classes "
    "(1, multiples of 16, others) takes compiles out.",
    "UNCONFIRMED": "Measure again with 'prefix_cache: reset', so that a repeat meets the same "
    "cache.",
}
_STARVED = (
    "Something else had the CPU: no warm-up helps. Give the server its cores, or measure again "
    "when the machine is quiet (SERVER_STARVED)."
)
_UNREPEATED = (
    "Repeat the cell on the same server (`specgauge run` does so by itself) before believing a "
    "correction; a warm-up at the measured batch sizes and temperature keeps compiles out."
)


def check(cell: CellContext) -> list[Reason]:
    """One reason a freeze; suspect if together they are 1 % of the cell or more, else info.

    Unknown for long waits before first tokens where no other prompt shows the prefill rate.
    """
    if cell.span is None:
        return []
    return [*_found(cell), *_unknown(cell)]


def _unknown(cell: CellContext) -> list[Reason]:
    if not cell.unjudged:
        return []
    longest = max(cell.unjudged, key=lambda s: s.seconds)
    waits = f"{len(cell.unjudged)} waits" if len(cell.unjudged) > 1 else "A wait"
    return [
        Reason(
            code=CODE,
            severity="unknown",
            detail=f"{waits} for first tokens, up to {longest.seconds:.2f} s: how much of it is "
            "prefill cannot be told, since no other prompt of this run shows how fast they are "
            "read. TTFT and throughput hold whatever it was.",
            remedy="Give the experiment a warm-up or a second load.",
            evidence={"waits": len(cell.unjudged), "longest_s": longest.seconds},
        )
    ]


def _found(cell: CellContext) -> list[Reason]:
    if not cell.freezes or cell.span is None:
        return []
    sizes = [size(f, cell) for f in cell.freezes]
    share = sum(s.seconds for s in sizes) / cell.span.seconds
    severity: Severity = "suspect" if share >= SHARE else "info"
    return [
        _reason(cell, freeze, s.seconds, s.source, severity)
        for freeze, s in zip(cell.freezes, sizes, strict=True)
    ]


def _reason(
    cell: CellContext, freeze: Freeze, seconds: float, source: str, severity: Severity
) -> Reason:
    silence, said = freeze.silence, cell.confirmation
    cause, kernels = _cause(cell, freeze)
    where = (
        f"before any first token of {len(silence.pending)} requests: it is their TTFT"
        if not silence.decoding
        else f"between chunks, {silence.running} requests running"
        + (", as the batch drained" if silence.phase == "drain" else "")
    )
    seen = _witnesses(cell, freeze)
    detail = f"No chunk of any request for {silence.seconds:.2f} s, of which {seconds:.2f} s are "
    detail += f"frozen ({source}): {where}."
    if kernels:
        detail += f" Compiled inside it: {', '.join(kernels)}."
    elif cause == "SERVER_STARVED":
        detail += " The server waited for a CPU most of that time."
    elif cause == "FIRST_CALL":
        detail += " It is the start's first request: code built on first use; no monitor sees it."
    if seen:
        detail += " Witnesses: " + "; ".join(
            f"{w.name} {'agrees' if w.agrees else 'DISAGREES'} ({w.seen})" for w in seen
        ) + "."  # fmt: skip
    if said:
        detail += f" {said.word}: {said.why}."
    return Reason(
        code=CODE,
        severity=severity,
        detail=detail,
        remedy=_remedy(cause, said),
        cause=cause,
        t0=cell.since_begin(silence.t0),
        t1=cell.since_begin(silence.t1),
        evidence={
            "kind": silence.kind,
            "phase": silence.phase,
            "batch": silence.running,
            "batch_class": batch_class(silence.running),
            "silence_s": silence.seconds,
            "frozen_s": seconds,
            "from": source,
            "prefill_s": freeze.prefill_s,
            "kernels": ", ".join(kernels) or None,
            "confirmation": said.word if said else None,
            **{f"witness {w.name}": "agrees" if w.agrees else "disagrees" for w in seen},
        },
    )


def _cause(cell: CellContext, freeze: Freeze) -> tuple[str | None, list[str]]:
    """(code of the cause, kernels compiled inside)."""
    kernels = [j.name for j in cell.jit_lines_in(freeze)]
    if kernels:
        return "JIT", list(dict.fromkeys(kernels))
    begin = cell.span.t0 if cell.span else None
    opening = freeze.silence.t0 == begin and not freeze.silence.decoding
    if cell.first_measured and opening and not cell.start.record.warmup:
        return "FIRST_CALL", []
    return ("SERVER_STARVED" if _starved(cell, freeze) else None), []


def _starved(cell: CellContext, freeze: Freeze) -> bool:
    """Whether a process of the server waited for a CPU for most of it (samples 1 s apart)."""
    silence = freeze.silence
    around = Window(silence.t0 - 1.0, silence.t1 + 1.0, closed=True)
    waits = cell.start.counters.delta_by(CPU_WAIT, "pid", around)
    return max(waits.values(), default=0.0) > STARVED_SHARE * silence.seconds


def _remedy(cause: str | None, said: Confirmation | None) -> str:
    if cause == "SERVER_STARVED":
        return _STARVED
    return _REMEDIES[said.word] if said else _UNREPEATED


def _witnesses(cell: CellContext, freeze: Freeze) -> list[Witness]:
    counters, window = cell.start.counters, cell.window
    found: list[Witness | None] = []
    if window is not None:
        found += [
            witnesses.counters_flat(counters, window, freeze),
            witnesses.gap_histogram(counters, window, freeze),
            witnesses.prefill_time(counters, window, freeze),
        ]
    found.append(
        witnesses.log_rate(
            lines.all_engine(cell.start.record.log),
            cell.chunks["t"].to_numpy(dtype=np.float64),
            cell.chunks["tokens"].to_numpy(dtype=np.float64),
            freeze,
        )
    )
    document = cell.cell.document
    if document is not None and cell.span is not None and not cell.start.telemetry.empty:
        begin = document.t_begin
        found.append(witnesses.gpu_power(cell.start.telemetry, begin, cell.span, freeze))
    launch = cell.start.record.launch
    offset = launch.clock_offset if launch else 0.0
    for state in launch.cache_after if launch else []:
        found.append(witnesses.cache_files([t - offset for t in state.written], freeze))
    return [w for w in found if w is not None]
