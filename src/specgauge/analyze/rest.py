"""A card at rest: when a start's server was up and nothing was sent to it, and what the card drew.

Also at rest a card with a server on it draws: on an H200 about 120 W, six sevenths of what it drew
on average under a 135M model.  Energy per token without it is the work's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specgauge.analyze.counters import Counters, Window
from specgauge.analyze.records import StartRecord
from specgauge.analyze.telemetry import Floats, Telemetry

QUIET_S = 1.0
"""After a cell's end, before the card counts as at rest: its last step, and its clock's and
voltage's way down (seen on an H200: a sample, 0.2 s)."""
MIN_SAMPLES = 10
"""For a median whose rank is uncertain by a third of either half (compare ``stats.MIN_BEYOND``)."""
IN_FLIGHT = ("vllm:num_requests_running", "vllm:num_requests_waiting")


@dataclass(frozen=True)
class Rest:
    """What the card draws at rest."""

    watts: float
    """Median."""
    swing: float
    """Distance between the quartiles, watts."""


def measure(start: StartRecord, counters: Counters, telemetry: Telemetry) -> Rest | None:
    """What the start's card drew at rest; None with fewer than ``MIN_SAMPLES``.

    Between neighbouring samples by the card's energy counter; without one by its power, of which a
    sample is the mean of the second before it (NVML, since Ampere), so that second must be quiet,
    too.  A span in which the server says that something was in flight, or somebody else was on the
    card, does not count.
    """
    if telemetry.empty:
        return None
    found: list[Floats] = []
    for t0, t1 in quiet(start, telemetry.begin):
        if _alone(counters, telemetry, t0, t1):
            starts, ends, watts, lag = telemetry.drawn(t0, t1)
            found.append(watts[np.where(lag > 0, ends - lag, starts) >= t0])
    watts = np.concatenate(found) if found else np.empty(0)
    watts = watts[np.isfinite(watts) & (watts >= 0)]  # a counter may begin anew
    if watts.size < MIN_SAMPLES:
        return None
    low, median, high = np.quantile(watts, (0.25, 0.5, 0.75))
    return Rest(float(median), float(high - low))


def quiet(start: StartRecord, begin: float) -> list[tuple[float, float]]:
    """Spans in which nobody asked anything of the server: (from, to) on the cells' clock.

    From ``QUIET_S`` after ``begin`` (the first sample) or after a cell's end to the next first
    send, warm-up included.  Nothing after the last measured cell: what is asked then (prompts put
    back for a repeat, margins) is not on record.  A cell without a document has no end, and
    nothing after it.
    """
    known = [(c.document, c.requests) for c in (*start.warmup, *start.cells) if c.document]
    found, end = [], begin
    for document, requests in sorted(known, key=lambda pair: pair[0].t_begin):
        sent = requests["t_send"].dropna()
        first = float(sent.min()) if len(sent) else document.t_begin
        if first - end > QUIET_S:
            found.append((end + QUIET_S, first))
        end = max(end, document.t_end)
    return found


def _alone(counters: Counters, telemetry: Telemetry, t0: float, t1: float) -> bool:
    """Neither the server nor the driver tells of anybody in the span."""
    window = Window(t0, t1, True)
    running = any(counters.sampled(name, window)[1].any() for name in IN_FLIGHT)
    return not running and not (telemetry.looks(t0, t1).other > 0).any()
