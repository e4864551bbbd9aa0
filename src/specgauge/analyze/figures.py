"""A cell's observed figures, put together from the definitions."""

from __future__ import annotations

import math
import statistics

import numpy as np
import numpy.typing as npt
import pandas as pd

from specgauge.analyze import acceptance, cpu_figures, gpu_figures, latency, steps, throughput
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import (
    CrossCheckFigures,
    GoodputFigures,
    LengthOverTime,
    Observed,
    Spread,
    StepCheck,
    StepSpread,
)
from specgauge.analyze.log import lines
from specgauge.analyze.stats import mean, percentile


def observe(cell: CellContext) -> Observed:
    """Every figure of ``cell`` as measured.  A figure without its records is None."""
    requests, chunks, load = cell.requests, cell.chunks, cell.load
    latencies, span = cell.latencies, cell.span
    drafted = cell.drafting
    ok = len(latencies)
    is_open = load.rate is not None
    seconds = span.seconds if span else None
    slo = cell.setup.slo
    drafts = drafted if drafted and drafted.drafts else None
    gpu = gpu_figures.observe(cell)
    by_server = cell.steps_by_server
    return Observed(
        requests=load.requests,
        failed=max(load.requests - ok, 0),
        prompt_tokens=int(requests["prompt_tokens"].sum()),
        output_tokens=int(requests["output_tokens"].sum()),
        duration_s=seconds,
        output_tok_s=throughput.output_tok_s(requests),
        total_tok_s=throughput.total_tok_s(requests),
        full_batch_tok_s=throughput.full_batch_tok_s(requests, chunks, load.concurrency),
        request_s=ok / seconds if seconds else None,
        ttft_ms=spread(latencies["ttft"]),
        ttft_scheduled_ms=spread(latencies["ttft_scheduled"]) if is_open else None,
        e2e_ms=spread(latencies["e2e"]),
        e2e_scheduled_ms=spread(latencies["e2e_scheduled"]) if is_open else None,
        tpot_ms=spread(latencies["tpot"]),
        step_ms=_steps(cell),
        goodput=_goodput(cell) if is_open and slo and seconds else None,
        steps_from="server" if by_server else "stream",
        tokens_per_step=_tokens_per_step(cell),
        tokens_per_step_by_request=(
            None if by_server else acceptance.tokens_per_step_by_request(chunks)
        ),
        acceptance_length=drafts.length if drafts else None,
        draft_coverage=_coverage(cell),
        efficiency=drafts.efficiency if drafts else None,
        drafts=round(drafted.drafts) if drafted else None,
        draft_tokens=round(drafted.draft_tokens) if drafted else None,
        accepted_tokens=round(drafted.accepted) if drafted else None,
        acceptance_by_position=list(drafts.by_position) if drafts else [],
        acceptance_distribution=list(drafts.distribution) if drafts else [],
        acceptance_length_over_time=_over_time(cell),
        acceptance_check=_cross_check(cell),
        tokens_per_step_by_category=({} if by_server else acceptance.by_category(requests, chunks)),
        prefix_cache_hit_rate=cell.hit_rate,
        uncached_prompt_tokens=cell.uncached_tokens,
        step_check=_step_check(cell),
        joules_per_token=gpu_figures.joules_per_token(gpu, int(requests["output_tokens"].sum())),
        gpu=gpu,
        cpu=cpu_figures.observe(cell),
    )


def spread(seconds: pd.Series | npt.NDArray[np.float64]) -> Spread:
    """Mean and percentiles of seconds, in milliseconds."""
    ms = np.asarray(seconds, dtype=np.float64) * 1000
    return Spread(
        mean=mean(ms), p50=percentile(ms, 0.5), p90=percentile(ms, 0.9), p99=percentile(ms, 0.99)
    )


def _tokens_per_step(cell: CellContext) -> float | None:
    """By the server's count of steps where chunks hold several; a first step yields one token."""
    by_server = cell.steps_by_server
    if by_server:
        return (int(cell.requests["output_tokens"].sum()) - len(cell.latencies)) / by_server
    return acceptance.tokens_per_step(cell.chunks)


def _coverage(cell: CellContext) -> float | None:
    """Drafts / decode steps, by the server's count where chunks hold several."""
    if cell.drafting is None:
        return None
    by_server = cell.steps_by_server
    if by_server:
        return cell.drafting.drafts / by_server
    return acceptance.coverage(cell.drafting.drafts, cell.chunks)


def _steps(cell: CellContext) -> StepSpread:
    """Of the gaps between chunks; where those are not steps, the server's mean alone."""
    window = cell.whole_window
    server = steps.server_mean(cell.start.counters, window) if window else None
    mean_ms = server * 1000 if server is not None else None
    of_gaps = spread(steps.gaps(cell.chunks))
    if cell.steps_by_server and mean_ms is not None:
        of_gaps = Spread(mean=mean_ms)
    return StepSpread(**of_gaps.model_dump(), server_mean=mean_ms, merged_share=cell.merged.share)


def _step_check(cell: CellContext) -> StepCheck | None:
    """None where the server's mean is unknown, or requests are in one and not in the other."""
    window = cell.whole_window
    if window is None or (cell.requests["state"] != "ok").any():
        return None
    server = steps.server_mean(cell.start.counters, window)
    gaps = steps.gaps(cell.chunks)
    if not server or not gaps.size or cell.merged.chunks:
        return None
    client = float(gaps.mean())
    difference = client / server - 1
    return StepCheck(
        client_ms=client * 1000,
        server_ms=server * 1000,
        difference=difference,
        agrees=abs(difference) <= steps.AGREE,
    )


def _goodput(cell: CellContext) -> GoodputFigures:
    assert cell.setup.slo is not None
    assert cell.span is not None
    found = latency.goodput(cell.latencies, cell.setup.slo, cell.load.requests, cell.span.seconds)
    return GoodputFigures(met=found.met, of=found.of, per_s=found.per_s)


def _over_time(cell: CellContext) -> LengthOverTime:
    if cell.window is None or cell.span is None:
        return LengthOverTime()
    t0 = cell.span.t0
    points = [(t - t0, v) for t, v in acceptance.over_time(cell.start.counters, cell.window)]
    logged = [
        (line.t - t0, line.acceptance_length)
        for line in lines.all_spec_decoding(cell.start.record.log)
        if line.acceptance_length is not None
        and not math.isnan(line.acceptance_length)
        and cell.span.t0 <= line.t <= cell.window.t1
    ]
    values = [v for _, v in points]
    return LengthOverTime(
        median=statistics.median(values) if values else None,
        min=min(values, default=None),
        max=max(values, default=None),
        points=points,
        log_lines=logged,
    )


def _cross_check(cell: CellContext) -> CrossCheckFigures | None:
    check = cell.acceptance_check
    if check is None:
        return None
    by_server = cell.steps_by_server
    return CrossCheckFigures(
        accepted_server=check.accepted_server,
        accepted_stream=check.accepted_stream,
        tail_allowed=check.tail_allowed,
        agrees=check.agrees,
        tokens_per_step=_tokens_per_step(cell),
        identity=1 + check.accepted_server / by_server if by_server else check.identity,
    )
