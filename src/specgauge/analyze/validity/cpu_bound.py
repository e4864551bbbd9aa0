"""CPU_BOUND: the engine's CPU thread, not the card, set the pace."""

from __future__ import annotations

from specgauge.analyze import cpu_figures
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.record.schema import TELEMETRY_HZ

CODE = "CPU_BOUND"

ON_CPU = 0.90
"""Of the load that the engine's thread was on a CPU.  By itself it says nothing: it may spin while
the card works (99 % in ngram cells of a 32B model whose card was busy for 76 to 88 %)."""
CARD_BUSY = 0.50
"""Of the time after the lag in which a kernel ran.  A thread spins only while the card works, so
below this it computed for more than the other 40 %.  A 135M model on an H200 had the card busy for
10 to 58 %, a 32B one for 76 % and more."""
LAG_S = 1.0
"""NVML's utilisation looks back over a sixth of a second to a second, by the card."""
SAMPLES = 3
"""Fewer of them after the lag tell nothing: cells of less than 1.6 s."""
WATCHED = 0.8
"""Of the samples that the time after the lag should have: what a few at its end say is not true of
the load."""


def check(cell: CellContext) -> Reason | None:
    """Info where the engine's thread was on a CPU throughout and the card idle for the most part.

    Utilisation is the share of time in which any kernel ran, however small: the card's idleness is
    certain, how much of it was used while busy is not told.
    """
    figures = cpu_figures.observe(cell)
    span = cell.span
    if not cell.on_gpu or span is None or figures is None or figures.engine_share is None:
        return None
    busy = cell.start.telemetry.values("utilisation", span.t0 + LAG_S, span.t1)
    watched = max(span.seconds - LAG_S, 0.0) * TELEMETRY_HZ
    if busy.size < max(SAMPLES, WATCHED * watched) or figures.engine_share < ON_CPU:
        return None
    share, card = min(figures.engine_share, 1.0), float(busy.mean())
    if card >= CARD_BUSY:
        return None
    return Reason(
        code=CODE,
        severity="info",
        detail=f"The engine's thread was on a CPU for {share:.0%} of the load, the card ran "
        f"kernels for {card:.0%} of it: for at least {share - card:.0%} the CPU computed and the "
        "card waited. On this machine these figures tell of its CPUs, not of its card.",
        remedy="None needed to compare variants on this machine. For a card's own figures: a "
        "larger model, more requests at once, or faster CPUs.",
        evidence={"engine_share": share, "card_busy": card},
    )
