"""Who else saw a freeze: the server's counters and histograms, its log, compile cache, and the GPU.

The client's chunks say when a silence began and ended.  Each witness sees the same span with a
resolution of its own and agrees if it differs by no more than that.  None where it was not asked
(no counters) or cannot tell (coarser than the freeze).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specgauge.analyze.counters import Counters, Window
from specgauge.analyze.freezes import Freeze
from specgauge.analyze.log.lines import EngineLine
from specgauge.analyze.telemetry import Floats, Telemetry
from specgauge.analyze.throughput import Span

GENERATED = "vllm:generation_tokens_total"
PREFILL = "vllm:request_prefill_time_seconds"
GAP_BUCKETS = "vllm:inter_token_latency_seconds_bucket"
PREFILL_SHARE = 0.1
"""The server's mean prefill time and the client's silence differ by queueing and the way there."""
LOG_SHARE = 0.05
"""A log line's rate is printed with one decimal."""
LOG_EDGE_S = 0.5
"""The server counts up to about here before it prints: tokens this close to an edge of the line's
span may belong to either side."""
LOG_SPAN_S = 12.0
"""A longer distance between two lines is not the span that the rate was taken over: idle servers
fall silent."""

CACHE_LATE_S = 0.1

GPU_QUIET_S = 1.0
"""Before a cell's first send, in which the card is idle: the load generator is still starting."""
GPU_CONTRAST = 1.25
"""Power at work / power at rest from which a pause shows: the counter's steps and the card's own
swing are below a tenth."""


@dataclass(frozen=True)
class Witness:
    """What one of them saw."""

    name: str
    seen: str
    """In words, with the resolution."""
    agrees: bool


def counters_flat(counters: Counters, window: Window, freeze: Freeze) -> Witness | None:
    """``generation_tokens`` stood still between two scrapes: length to two scrape distances."""
    times, values = counters.sampled(GENERATED, window)
    if times.size < 3:
        return None
    resolution = 2 * float(np.median(np.diff(times)))
    silence = freeze.silence
    if silence.seconds <= resolution:
        return None
    flat = _longest_flat(times, values, silence.t0, silence.t1 + resolution)
    return Witness(
        "server's generated tokens",
        f"no growth for {flat:.2f} s (to {resolution:.2f} s)",
        abs(flat - silence.seconds) <= resolution,
    )


def _longest_flat(
    times: npt.NDArray[np.float64], values: npt.NDArray[np.float64], t0: float, t1: float
) -> float:
    """Longest span between scrapes inside [t0, t1] over which the counter kept its value."""
    longest, begin = 0.0, 0
    for i in range(1, times.size):
        if values[i] != values[begin]:
            begin = i
        elif times[i] <= t1:
            longest = max(longest, float(times[i]) - max(float(times[begin]), t0))
    return longest


def gap_histogram(counters: Counters, window: Window, freeze: Freeze) -> Witness | None:
    """After a first token: as many gaps in the buckets at its length as requests were decoding."""
    if not freeze.silence.decoding:
        return None
    edges = sorted(
        (float("inf") if le == "+Inf" else float(le), grown)
        for le, grown in counters.delta_by(GAP_BUCKETS, "le", window).items()
    )
    below = [(edge, n) for edge, n in edges if edge < freeze.silence.seconds * 0.98]
    if not below or not edges:
        return None
    longer = round(edges[-1][1] - below[-1][1])
    return Witness(
        "server's step histogram",
        f"{longer} steps longer than {below[-1][0]:g} s, {freeze.silence.decoding} requests were "
        "decoding",
        longer >= freeze.silence.decoding,
    )


def prefill_time(counters: Counters, window: Window, freeze: Freeze) -> Witness | None:
    """Before any first token: the server's mean prefill time, if all requests of the cell waited.

    Otherwise the mean says nothing of the frozen ones.
    """
    count = counters.delta(f"{PREFILL}_count", window)
    total = counters.delta(f"{PREFILL}_sum", window)
    pending = len(freeze.silence.pending)
    if freeze.silence.decoding or not count or total is None or round(count) != pending:
        return None
    mean, silence = total / count, freeze.silence.seconds
    return Witness(
        "server's prefill time",
        f"{mean:.2f} s on average (to {PREFILL_SHARE:.0%})",
        abs(mean - silence) <= PREFILL_SHARE * silence,
    )


def log_rate(
    lines: list[EngineLine], chunk_times: npt.NDArray[np.float64],
    tokens: npt.NDArray[np.float64], freeze: Freeze,
) -> Witness | None:  # fmt: skip
    """The log's line over the freeze gives as few tokens as the client got in its span."""
    middle = (freeze.silence.t0 + freeze.silence.t1) / 2
    for before, line in itertools.pairwise(lines):
        span = line.t - before.t
        if not before.t <= middle <= line.t or line.generation_tok_s is None or span > LOG_SPAN_S:
            continue
        got = float(tokens[(chunk_times > before.t) & (chunk_times <= line.t)].sum())
        told = line.generation_tok_s * span
        edges = [np.abs(chunk_times - t) <= LOG_EDGE_S for t in (before.t, line.t)]
        slack = LOG_SHARE * got + 0.1 * span + sum(float(tokens[e].sum()) for e in edges)
        return Witness(
            "server's log",
            f"{line.generation_tok_s:g} tokens/s over {span:.0f} s",
            abs(told - got) <= slack,
        )
    return None


def cache_files(written: Sequence[float], freeze: Freeze) -> Witness | None:
    """Files of a compile cache were written inside it: that was a compile.

    ``written``: times on the cells' clock.  A file is written when its kernel is built, so the last
    one may come a moment after the silence.
    """
    silence = freeze.silence
    inside = [t for t in written if silence.t0 <= t <= silence.t1 + CACHE_LATE_S]
    if not inside:
        return None
    count = "1 file" if len(inside) == 1 else f"{len(inside)} files"
    seen = f"{count} written, the last {inside[-1] - silence.t0:.2f} s into it"
    return Witness("compile cache", seen, agrees=True)


def gpu_power(telemetry: Telemetry, begin: float, span: Span, freeze: Freeze) -> Witness | None:
    """The card drew as little as at rest while the engine stood still (compiling, the card waits).

    At rest: the median from the cell's ``begin`` to its first send; at work: over the cell outside
    the freeze.  Below the middle of the two the card rests.  Only rest inside the silence counts:
    before a cell's first send every card rests.  Power is known between samples (two sample
    distances; a second more without an energy counter).  None where it cannot tell.
    """
    silence = freeze.silence
    starts, ends, watts, lag = telemetry.drawn(begin, span.t1 + 1.0)
    if starts.size < 3:
        return None
    resolution = 2 * float(np.median(ends - starts)) + lag
    outside = (ends <= silence.t0) | (starts >= silence.t1 + lag)
    at_rest = watts[ends <= span.t0]
    at_work = watts[outside & (starts >= span.t0) & (ends <= span.t1)]
    watched = float((ends[ends <= span.t0] - starts[ends <= span.t0]).sum())
    if watched < GPU_QUIET_S or not at_work.size or freeze.seconds <= resolution:
        return None
    rest, work = float(np.median(at_rest)), float(np.median(at_work))
    if work < GPU_CONTRAST * rest:
        return None
    low = watts < (rest + work) / 2
    rested = _longest_run(starts, ends, low, (silence.t0, silence.t1 + lag))
    return Witness(
        "GPU's power",
        f"at rest ({rest:.0f} W, at work {work:.0f} W) for {rested:.2f} s (to {resolution:.2f} s)",
        rested >= freeze.seconds - resolution,
    )


def _longest_run(
    starts: Floats, ends: Floats, low: npt.NDArray[np.bool_], edges: tuple[float, float]
) -> float:
    """Longest time without a break in which ``low`` holds, the part of it between ``edges``."""
    longest, since = 0.0, None
    for begin, end, is_low in zip(starts, ends, low, strict=True):
        since = (begin if since is None else since) if is_low else None
        if since is not None:
            longest = max(longest, min(end, edges[1]) - max(since, edges[0]))
    return float(longest)
