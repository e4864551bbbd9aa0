"""Cells that stood still: tokens over time, each freeze shaded and named."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from specgauge.analyze.document import Cell, Reason, Summary
from specgauge.report.figures import style

CAPTION = (
    "Output tokens per second through the cells that stood still. A shaded span is a FREEZE: no "
    "chunk of any running request; its name says how long and why."
)
MOST = 6
"""Panels in one figure; the cells with the longest freezes come first."""


def of(cell: Cell) -> list[Reason]:
    """The cell's freezes that have a span."""
    return [r for r in cell.reasons if r.code == "FREEZE" and r.t0 is not None and r.t1 is not None]


def shade(axes: Axes, t0: float, t1: float) -> None:
    """Shade a span over the whole height."""
    axes.axvspan(t0, t1, facecolor="#D55E00", alpha=0.18, edgecolor="#D55E00",
                 hatch="////", linewidth=0.0, zorder=0)  # fmt: skip


def name(freeze: Reason) -> str:
    """``FREEZE 3.20 s, JIT: _topk_topp_kernel, CONFIRMED ONE-OFF``."""
    seconds = float(freeze.evidence.get("frozen_s") or 0.0)
    parts = [f"FREEZE {seconds:.2f} s"]
    if freeze.cause:
        kernels = freeze.evidence.get("kernels")
        parts.append(f"{freeze.cause}: {kernels}" if kernels else freeze.cause)
    if said := freeze.evidence.get("confirmation"):
        parts.append(str(said))
    return ", ".join(parts)


def draw(summary: Summary) -> Figure | None:
    """One panel a cell, or None if none stood still."""
    cells = [c for c in summary.cells if of(c) and c.timeline]
    cells.sort(key=lambda c: -(c.derived.frozen_s if c.derived else 0.0))
    cells = cells[:MOST]
    if not cells:
        return None
    looks = style.looks(summary)
    with style.context():
        figure, panels = style.new(0.4 + 1.5 * len(cells), len(cells))
        for axes, cell in zip(panels, cells, strict=True):
            look = looks[cell.variant]
            times = [t for t, _ in cell.timeline]
            rates = [v for _, v in cell.timeline]
            axes.step(times, rates, where="post", color=look.colour, linewidth=1.2)
            end = cell.observed.duration_s or times[-1]
            for number, freeze in enumerate(of(cell)):
                assert freeze.t0 is not None
                assert freeze.t1 is not None
                shade(axes, freeze.t0, freeze.t1)
                left = (freeze.t0 + freeze.t1) / 2 < end / 2
                axes.annotate(
                    name(freeze),
                    (freeze.t1 if left else freeze.t0, 1.0 - 0.13 * number),
                    xycoords=("data", "axes fraction"),
                    xytext=(4 if left else -4, -2),
                    textcoords="offset points",
                    ha="left" if left else "right",
                    va="top",
                    fontsize=8,
                    bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1},
                )
            axes.set_xlim(0, end or 1.0)
            axes.set_ylim(0, max(rates, default=0.0) * 1.35 or 1.0)
            axes.set_ylabel("Tokens/s")
            start = f", start {cell.start}" if cell.start else ""
            axes.set_title(f"{cell.variant} at {cell.load}{start}", fontsize=9, loc="left")
        panels[-1].set_xlabel("Time since the first request was sent (s)")
    return figure
