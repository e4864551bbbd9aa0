"""TTFT against TPOT at the highest concurrency (or, without a closed load, the highest rate)."""

from __future__ import annotations

from matplotlib.figure import Figure

from specgauge.analyze.document import Cell, LoadFacts, Summary
from specgauge.analyze.stats import mean
from specgauge.report.figures import style

CAPTION = (
    "Mean TTFT against mean TPOT at the highest load; lower left is faster. Large marks are means "
    "over starts, small ones are starts. A verdict that is not VALID is written beside its mark."
)


def highest(summary: Summary) -> LoadFacts | None:
    """The load with the highest concurrency; without closed loads, the highest rate."""
    closed = [load for load in summary.loads if load.concurrency is not None]
    if closed:
        return max(closed, key=lambda load: load.concurrency or 0)
    return max(summary.loads, key=lambda load: load.rate or 0, default=None)


def _point(cell: Cell) -> tuple[float, float] | None:
    """(TPOT, TTFT) in ms; TTFT from the schedule for open loads."""
    seen = cell.observed
    ttft = (seen.ttft_scheduled_ms or seen.ttft_ms).mean
    return None if ttft is None or seen.tpot_ms.mean is None else (seen.tpot_ms.mean, ttft)


def draw(summary: Summary) -> Figure | None:
    """A mark a variant, or None without a cell that has both."""
    load = highest(summary)
    if load is None:
        return None
    cells = [c for c in summary.cells if c.load == load.name and _point(c)]
    if not cells:
        return None
    looks = style.looks(summary)
    with style.context():
        figure, (axes,) = style.new(3.2)
        far_x = far_y = 0.0
        for name, look in looks.items():
            mine = [c for c in cells if c.variant == name]
            counted = [c for c in mine if not c.excluded]
            shown = counted or [c for c in mine if c.verdict == "INVALID"]
            points = [p for c in shown if (p := _point(c))]
            x, y = mean([p[0] for p in points]), mean([p[1] for p in points])
            if x is None or y is None:
                continue
            far_x, far_y = max(far_x, *(p[0] for p in points)), max(far_y, *(p[1] for p in points))
            if len(points) > 1:
                axes.plot(
                    [p[0] for p in points],
                    [p[1] for p in points],
                    look.marker,
                    color=look.colour,
                    markersize=4,
                    alpha=0.6,
                )
            axes.plot(
                x,
                y,
                look.marker,
                linestyle="none",
                markersize=9,
                markerfacecolor=look.colour if counted else "none",
                markeredgecolor="black" if counted else look.colour,
                markeredgewidth=0.7,
                label=name,
            )
            if verdict := style.mark(shown):
                axes.annotate(verdict, (x, y), xytext=(8, -3), textcoords="offset points",
                              fontsize=8)  # fmt: skip
        axes.set_xlim(0, far_x * 1.2)
        axes.set_ylim(0, far_y * 1.2)
        axes.set_xlabel(f"Mean TPOT at {load.name} (ms per output token)")
        scheduled = " from schedule" if load.rate is not None else ""
        axes.set_ylabel(f"Mean TTFT{scheduled} at {load.name} (ms)")
        figure.legend(loc="outside upper center", ncols=4)
    return figure
