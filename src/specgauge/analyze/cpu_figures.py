"""A cell's CPU figures: what a token cost the processes beside the engine, how busy the engine was.

CPU seconds per token over the cell's bracket are a speed of the machine's CPUs only with the answer
of a resting server beside them: see ``machine_document.CpuFigures``.
"""

from __future__ import annotations

import numpy as np

from specgauge.analyze import cpu
from specgauge.analyze.context import CellContext
from specgauge.analyze.counters import COUNTED_WITHIN_S
from specgauge.analyze.machine_document import CpuFigures
from specgauge.record.schema import CPU_RUN

REST_S = 0.4
"""Nothing is sent for at least this long before a cell's begin and after its end (the least that an
experiment's ``settle_s`` may be)."""
ANSWERS = 8
"""Of a resting server, from which their mean says something: one alone scatters by a quarter."""


def observe(cell: CellContext) -> CpuFigures | None:
    """The CPU figures of ``cell``; None where nobody kept accounts of its server."""
    window, span = cell.cpu_window, cell.span
    if window is None or span is None:
        return None
    tokens = int(cell.requests["output_tokens"].sum())
    ran = cpu.by_process(cell.start.counters, CPU_RUN, window)
    engine = max((a.seconds for a in ran if a.is_engine), default=None)
    api = [a.seconds for a in ran if a.is_api_server] if engine is not None else []
    client = _client_seconds(cell)
    bracket = window.t1 - window.t0
    answers = _rest_answers(cell)
    return CpuFigures(
        bracket_s=bracket,
        engine_share=_share(engine, span.seconds, bracket),
        api_server_s_per_token=sum(api) / tokens if api and tokens else None,
        client_s_per_token=client / tokens if client is not None and tokens else None,
        rest_answer_ms=float(np.exp(answers.mean())) * 1000 if answers.size else None,
        rest_answer_error=(
            float(answers.std(ddof=1) / np.sqrt(answers.size)) if answers.size else None
        ),
    )


def _share(engine: float | None, load: float, bracket: float) -> float | None:
    """Of the load; an engine that ran for longer than that did not sleep outside of it."""
    if engine is None or not load:
        return None
    return engine / (load if engine <= load else bracket)


def _client_seconds(cell: CellContext) -> float | None:
    clients = cell.cell.document.clients if cell.cell.document else []
    return sum(c.cpu_s if c.run_s is None else c.run_s for c in clients) if clients else None


def _rest_answers(cell: CellContext) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Logarithms of the seconds that scrapes around the cell took with no request under way."""
    document, span = cell.cell.document, cell.span
    counters = cell.start.counters
    asked, arrived = counters.asked, counters.scrapes
    if document is None or span is None or asked is arrived:
        return np.empty(0)
    before = (asked >= document.t_begin - REST_S) & (arrived <= span.t0)
    ended = max(span.t1 + COUNTED_WITHIN_S, document.t_end)
    after = (asked >= span.t1 + COUNTED_WITHIN_S) & (arrived <= ended + REST_S)
    took = (arrived - asked)[before | after]
    took = took[took > 0]
    return np.log(took) if took.size >= ANSWERS else np.empty(0)
