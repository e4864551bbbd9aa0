"""CLIENT_STARVED: the load generator, not the server, made part of the times.

What it costs, as a share of the cell:

- Closed loops: idle slots.  A slot's next request waits for the last chunk to be read, the response
  to be closed and the next one to be sent; none of that is the server generating.  Each span from
  a request's last chunk (kernel time where known) to its successor's send, plus what the first
  request of each slot waited after the start barrier beyond the earliest, is summed and divided by
  (slots x duration).  It is an upper bound: the server's own end-of-stream lies inside.  Without
  kernel stamps a late read cannot be told from a late chunk, and only the rest is seen.
  Of each span ``TURN_AROUND_S`` is what a client needs that waits for nobody: no starvation, and
  where requests are so short that it shows all the same, SHORT_REQUESTS says so.
- Open loops: late sends.  Latencies count from the schedule, so what the client sent late is in
  them: summed lateness / summed end-to-end latency from the schedule, ``LATE_SEND_S`` taken off
  each likewise.
- Bursts: a client that was not running gets several chunks at once when it wakes.  The gaps then
  say nothing, whatever they add up to.  A gap counts as a burst if it is under 0.2 ms (no engine
  step of any model is) and the kernel's stamps do not prove it: chunks with stamps of their own
  that close together were sent so by the server (COALESCED), chunks without stamps, or several
  under one, were read late.  More than 20 % of such gaps: invalid, with no cost to be given.
- Clock steps (``check_clock``): an epoch offset that moved during the cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "CLIENT_STARVED"

COST_LIMIT = 0.01
"""Share of a cell that the client may cost: a third of the 3 % that an expert's five rounds can
resolve, so it never makes a verdict."""
TURN_AROUND_S = 1e-3
"""From a request's last chunk to its slot's next send: a healthy client and the server's own end of
stream take 0.2 to 0.3 ms together on an idle machine, a whole one on two cores shared with vLLM."""
LATE_SEND_S = 2e-3
"""From the schedule to the send: a timer that wakes on whole milliseconds, and a connection of its
own for every request.  0.8 ms at the median and 1.3 at p90 on an idle machine."""
BURST_GAP_S = 0.2e-3
"""Nothing steps faster: SmolLM2-135M on an H200 takes 1.45 ms."""
BURST_SHARE = 0.2
"""Clean captures have at most 0.4 % such gaps, starved ones 79 and 91 %."""
CLOCK_STEP_S = 1e-3
"""A larger change of an epoch offset within a cell is a step of the clock, not drift: NTP slews
both clocks alike."""
EVIDENCE_WAIT = "wait_s"


@dataclass(frozen=True)
class Starvation:
    """What the client did to the cell; seconds and shares."""

    idle_share: float | None
    """Closed loops: slots idle between requests / (slots x duration)."""
    late_share: float | None
    """Open loops: sends behind schedule / latency from the schedule."""
    beyond_share: float
    """The one or the other, ``ordinary_s`` taken off each span of it."""
    burst_share: float
    """Gaps under 0.2 ms that the kernel does not vouch for / gaps."""
    delay_mean_s: float | None
    """User-space read minus kernel arrival, over the chunks with kernel stamps."""
    delay_max_s: float | None
    wait_s: float | None
    """Runnable but waiting for a CPU, over the client's processes."""

    @property
    def cost(self) -> float:
        """Share of the cell that would be gone had the client got its CPU."""
        return self.beyond_share

    @property
    def turn_around(self) -> float:
        """Share of the cell between requests, an ordinary turn-around included."""
        return max(self.idle_share or 0.0, self.late_share or 0.0)


def ordinary_s(concurrency: int | None) -> float:
    """What a client that waits for nobody takes before a send, closed loops or open, seconds."""
    return TURN_AROUND_S if concurrency else LATE_SEND_S


def starvation(
    requests: pd.DataFrame,
    chunks: pd.DataFrame,
    *,
    concurrency: int | None,
    waits_s: tuple[float, ...] = (),
) -> Starvation:
    """Measure it from the records of one cell."""
    stamped = chunks[chunks["kernel"].fillna(False).astype(bool)]
    delay = (stamped["t_user"] - stamped["t"]).to_numpy(dtype=np.float64)
    share, beyond = (
        (_idle_share(requests, concurrency, off) if concurrency else _late_share(requests, off))
        for off in (0.0, ordinary_s(concurrency))
    )
    return Starvation(
        idle_share=share if concurrency else None,
        late_share=None if concurrency else share,
        beyond_share=beyond or 0.0,
        burst_share=_burst_share(chunks),
        delay_mean_s=float(delay.mean()) if delay.size else None,
        delay_max_s=float(delay.max()) if delay.size else None,
        wait_s=sum(waits_s) if waits_s else None,
    )


def _idle_share(requests: pd.DataFrame, concurrency: int, off_s: float) -> float | None:
    """Idle time of the slots, ``off_s`` less a span, / (slots x duration)."""
    sent = requests.dropna(subset=["t_send"]).sort_values(["slot", "t_send"], kind="stable")
    first, last = sent["t_send"].min(), sent["t_last"].max()
    if sent.empty or pd.isna(last) or last <= first:
        return None
    before = sent.groupby("slot")["t_last"].shift()
    between = (sent["t_send"] - before - off_s).clip(lower=0).sum()
    opening = sent.drop_duplicates("slot")
    late_start = (opening["t_send"] - first - off_s).clip(lower=0).sum()
    return float(between + late_start) / (concurrency * float(last - first))


def _late_share(requests: pd.DataFrame, off_s: float) -> float | None:
    """Lateness of the sends, ``off_s`` less each, / latency from the schedule."""
    late = (requests["t_send"] - requests["t_scheduled"] - off_s).clip(lower=0).sum()
    latency = (requests["t_last"] - requests["t_scheduled"]).sum()
    return float(late) / float(latency) if latency > 0 else None


def _burst_share(chunks: pd.DataFrame) -> float:
    ordered = chunks.sort_values(["request", "seq"], kind="stable")
    proven = ordered["kernel"].fillna(False).astype(bool) & (ordered["shared_read"] == 1)
    both = proven & proven.groupby(ordered["request"]).shift(fill_value=False)
    gap = ordered.groupby("request")["t"].diff()
    of = int(gap.notna().sum())
    return int(((gap < BURST_GAP_S) & ~both).sum()) / of if of else 0.0


def of_cell(cell: CellContext) -> Starvation:
    """What the client did to ``cell``."""
    document = cell.cell.document
    clients = document.clients if document else []
    return starvation(
        cell.requests,
        cell.chunks,
        concurrency=cell.load.concurrency,
        waits_s=tuple(c.wait_s for c in clients if c.wait_s is not None),
    )


def check(cell: CellContext) -> Reason | None:
    """Invalid if the client cost more than 1 % of the cell, or its reads came in bursts."""
    found = of_cell(cell)
    starved = found.cost > COST_LIMIT
    seen: list[str] = []
    if found.burst_share > BURST_SHARE:
        seen.append(
            f"{found.burst_share:.0%} of the gaps between chunks are under 0.2 ms: chunks were "
            "read late, several at once"
        )
    if found.idle_share is not None and starved:
        seen.append(f"slots stood idle between requests for {found.idle_share:.1%} of the cell")
    if found.late_share is not None and starved:
        seen.append(f"requests were sent late: {found.late_share:.1%} of the latency is that")
    if not seen:
        return None
    if found.wait_s is not None:
        seen.append(f"the client waited {found.wait_s:.2f} s for a CPU")
    if found.delay_max_s is not None:
        seen.append(f"a chunk waited up to {found.delay_max_s * 1000:.1f} ms to be read")
    return Reason(
        code=CODE,
        severity="invalid",
        detail="; ".join(seen) + ".",
        remedy="Leave a CPU to the load generator: another machine, fewer server threads, the same "
        "session as the server (never setsid), or more Locust workers.",
        evidence={
            "cost": found.cost,
            "idle_share": found.idle_share,
            "late_share": found.late_share,
            "burst_share": found.burst_share,
            "delay_mean_ms": _ms(found.delay_mean_s),
            "delay_max_ms": _ms(found.delay_max_s),
            EVIDENCE_WAIT: found.wait_s,
        },
    )


def check_clock(cell: CellContext) -> Reason | None:
    """Suspect when a clock stepped by more than 1 ms inside the cell, invalid from 1 % of it.

    Kernel stamps are taken on the epoch clock: a step shifts those after it.
    """
    document = cell.cell.document
    if document is None:
        return None
    offsets = [document.clock, *(c.clock for c in document.clients)]
    moved = [abs(o.end - o.begin) for o in offsets if o.end is not None]
    step = max(moved, default=0.0)
    if step <= CLOCK_STEP_S:
        return None
    seconds = cell.span.seconds if cell.span else None
    share = step / seconds if seconds else None
    return Reason(
        code=CODE,
        severity="invalid" if share is not None and share > COST_LIMIT else "suspect",
        detail=f"The clock stepped by {step * 1000:.1f} ms during the cell.",
        remedy="Let the clock settle (chronyc tracking), then run again.",
        cause="clock step",
        evidence={"step_ms": step * 1000, "share": share},
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
