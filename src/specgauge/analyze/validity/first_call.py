"""FIRST_CALL: a start's first request pays for code that is built on first use.

ngram's first request costs 1.5 to 2.4 s on an H200 (numba compiles on the first real call) and no
monitor sees it.
"""

from __future__ import annotations

from math import isfinite
from statistics import median

import pandas as pd

from specgauge.analyze import latency
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.records import CellRecord

CODE = "FIRST_CALL"

MIN_COST_S = 0.05
"""Below this it is scheduling noise of a small machine."""
MIN_FACTOR = 1.5
"""The repeat hits the prefix cache, which alone makes a short prompt's first token up to about a
third faster; more than that is first use."""
UNPAIRED_COST_S = 0.25
"""Against other prompts, not the same one again: longer than any short prompt's prefill differs."""

ALIKE = 0.8
"""Of the first prompt's length, from which another request's wait can be compared with its own."""


def check(cell: CellContext) -> Reason | None:
    """Suspect inside a measured cell, info when a warm-up request took it.

    With a warm-up the first two requests are the same prompt, one after the other: the first
    measured cell of the start carries the note.  Without one, the first request of a cell that
    sends them singly is compared with itself, sent once more after the start's last cell, or, where
    that is not recorded, with the median of its neighbours; a cell that sends several at once
    cannot be judged here.  The request sent again finds its prompt in the prefix cache unless that
    was emptied, so with a long prompt it is faster anyway: then the neighbours must agree.
    """
    if not cell.first_measured:
        return None
    warmup = cell.start.record.warmup
    if len(warmup) >= 2:
        return _repeated(cell)
    if warmup or cell.load.concurrency != 1:
        return None
    again = cell.start.record.first_call
    if again is not None and len(again.requests) == 1 and (again.requests["state"] == "ok").all():
        return _sent_again(cell, again)
    return _unpaired(cell)


def _repeated(cell: CellContext) -> Reason | None:
    warmup = cell.start.record.warmup
    first, again = (latency.per_request(w.requests, w.chunks) for w in warmup[:2])
    if len(first) != 1 or len(again) != 1:
        return None
    cost = float(first["e2e"].iloc[0] - again["e2e"].iloc[0])
    if not all(isfinite(f["ttft"].iloc[0]) for f in (first, again)):
        return None
    if not cost >= MIN_COST_S or first["e2e"].iloc[0] < MIN_FACTOR * again["e2e"].iloc[0]:
        return None
    ttft, ttft_again = float(first["ttft"].iloc[0]), float(again["ttft"].iloc[0])
    return Reason(
        code=CODE,
        severity="info",
        detail=f"The start's first request took {cost:.2f} s longer than the same request again "
        f"(first token after {ttft:.2f} s, then {ttft_again:.2f} s); it was a warm-up request."
        f"{_compiled(cell, warmup[0])}",
        remedy=None,
        evidence={"cost_s": cost, "ttft_s": ttft, "ttft_again_s": ttft_again},
    )


def _compiled(cell: CellContext, record: CellRecord) -> str:
    """What the JIT monitor saw of ``record``; nothing where nothing watched or it had no line.

    A line is written when its compile has ended: one after the first token explains nothing of
    the wait for it.
    """
    document = record.document
    if document is None:
        return ""
    first = float(record.requests["t_first"].min())
    lines = [x for x in cell.start.jit_lines if document.t_begin <= x.t <= document.t_end]
    told = (
        ("before its first token", [x.name for x in lines if x.t <= first]),
        ("later in it", [x.name for x in lines if not x.t <= first]),
    )
    return "".join(
        f" Compiled {when}, by the log: {', '.join(dict.fromkeys(names))}."
        for when, names in told
        if names
    )


def _sent_again(cell: CellContext, again: CellRecord) -> Reason | None:
    sent = cell.requests.dropna(subset=["t_send"]).sort_values("t_send")
    if sent.empty or sent["state"].iloc[0] != "ok":
        return None
    row = sent.iloc[0]
    first = float(row["t_first"] - row["t_send"])
    repeat = again.requests.iloc[0]
    later = float(repeat["t_first"] - repeat["t_send"])
    if _small(first, later):
        return None
    if not _was_reset(again):  # it may have found its prompt in the prefix cache
        neighbours = _neighbours(cell)
        if neighbours is None or _small(first, neighbours):
            return None
    cost = first - later
    return Reason(
        code=CODE,
        severity="suspect",
        detail=f"The start's first request, a measured one, had its first token after {first:.2f} "
        f"s; the same request after the last cell, {later:.2f} s.",
        remedy="Give the experiment a warm-up.",
        t0=0.0,
        t1=first,
        evidence={"cost_s": cost, "ttft_s": first, "ttft_again_s": later},
    )


def _small(first: float, other: float) -> bool:
    """Whether ``first`` is no slower than ``other`` by more than prefill may differ."""
    return first - other < UNPAIRED_COST_S or first < MIN_FACTOR * other


def _was_reset(again: CellRecord) -> bool:
    """Whether the repeat had to read its whole prompt, as the first did."""
    if again.document is not None and again.document.prefix_cache_was_reset:
        return True
    cached = again.requests["cached_tokens"].iloc[0]
    return bool(pd.notna(cached) and cached == 0)


def _neighbours(cell: CellContext) -> float | None:
    """Median time to the first token of the cell's later requests, seconds.

    Of those whose prompts are about as long as the first one's, or longer: a long prompt takes
    longer to read than short ones, first call or not.
    """
    ordered = cell.requests[cell.requests["state"] == "ok"].sort_values("t_send")
    if len(ordered) < 2:
        return None
    prompt = ordered["prompt_tokens"].astype(float)
    alike = ordered[prompt >= ALIKE * float(prompt.iloc[0])].drop(ordered.index[0], errors="ignore")
    found = cell.latencies["ttft"][cell.latencies.index.isin(alike["index"])].dropna()
    return float(median(found)) if len(found) else None


def _unpaired(cell: CellContext) -> Reason | None:
    ordered = cell.requests[cell.requests["state"] == "ok"].sort_values("t_send")
    others = _neighbours(cell)
    if others is None:
        return None
    first = float(ordered["t_first"].iloc[0] - ordered["t_send"].iloc[0])
    cost = first - others
    if _small(first, others):
        return None
    return Reason(
        code=CODE,
        severity="suspect",
        detail=f"The start's first request, a measured one, had its first token after {first:.2f} "
        f"s; the others after {others:.2f} s (median).",
        remedy="Give the experiment a warm-up.",
        t0=0.0,
        t1=first,
        evidence={"cost_s": cost, "ttft_s": first, "median_ttft_s": others},
    )
