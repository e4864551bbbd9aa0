"""Mean TTFT against mean TPOT at the highest concurrency (without closed loads: highest rate)."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from specgauge.analyze.document import Cell, LoadFacts, Summary
from specgauge.analyze.stats import mean
from specgauge.report import numbers
from specgauge.report.figures import style

CAPTION = (
    "Mean TTFT against mean TPOT at the highest load; shorter is faster. Bars are means over "
    "starts; dots, where a bar has several cells, are single cells. A verdict that is not VALID is "
    "written on its bar; INVALID bars are hollow."
)


def highest(summary: Summary) -> LoadFacts | None:
    """The load with the highest concurrency; without closed loads, the highest rate."""
    closed = [load for load in summary.loads if load.concurrency is not None]
    if closed:
        return max(closed, key=lambda load: load.concurrency or 0)
    return max(summary.loads, key=lambda load: load.rate or 0, default=None)


def _ttft(cell: Cell) -> float | None:
    """From the schedule for open loads."""
    return (cell.observed.ttft_scheduled_ms or cell.observed.ttft_ms).mean


def _tpot(cell: Cell) -> float | None:
    return cell.observed.tpot_ms.mean


def draw(summary: Summary) -> Figure | None:
    """Two panels of bars, a bar a variant, or None without a cell that has a TTFT."""
    load = highest(summary)
    cells = [c for c in summary.cells if load and c.load == load.name and _ttft(c) is not None]
    if load is None or not cells:
        return None
    looks = style.looks(summary)
    drawn = {name: style.drawn([c for c in cells if c.variant == name]) for name in looks}
    shown = {name: found for name, found in drawn.items() if found}
    if not shown:
        return None
    scheduled = " from schedule" if load.rate is not None else ""
    with style.context():
        figure, (left, right) = style.new(0.9 + 0.42 * len(shown), columns=2)
        _bars(left, shown, looks, _ttft)
        _bars(right, shown, looks, _tpot)
        left.set_yticks(range(len(shown)), list(shown))
        right.set_yticks(range(len(shown)), [""] * len(shown))
        left.set_xlabel(f"Mean TTFT{scheduled} at {load.name} (ms)")
        right.set_xlabel(f"Mean TPOT at {load.name} (ms per token)")
    return figure


def _bars(
    axes: Axes,
    shown: dict[str, list[Cell]],
    looks: dict[str, style.Look],
    value: Callable[[Cell], float | None],
) -> None:
    """One horizontal bar a variant, the first on top."""
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    furthest = 0.0
    for i, (name, cells) in enumerate(shown.items()):
        values = [v for cell in cells if (v := value(cell)) is not None]
        length = mean(values)
        if length is None:
            continue
        furthest = max(furthest, *values)
        look, hollow = looks[name], style.hollow(cells)
        axes.barh(
            i,
            length,
            0.7,
            facecolor="none" if hollow else look.colour,
            edgecolor=look.colour if hollow else "black",
            linewidth=0.6,
            hatch=look.hatch,
        )
        if len(values) > 1:
            axes.plot(values, [i] * len(values), **style.DOT)
        verdict = style.mark(cells)
        text = numbers.milliseconds(length)
        axes.annotate(
            f"{text} {verdict}" if verdict else text,
            (max(values), i),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_xlim(0, furthest * 1.45 or 1.0)
    axes.set_ylim(len(shown) - 0.5, -0.5)
