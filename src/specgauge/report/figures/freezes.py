"""Cells that stood still: tokens over time, each freeze shaded and named."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from specgauge.analyze.document import Cell, Reason, Summary
from specgauge.report.figures import style

CAPTION = (
    "Output tokens per second through the cells that stood still. A shaded span is a FREEZE: no "
    "chunk of any running request. The longest of a cell are named above it: how long and why."
)
MOST = 6
"""Panels in one figure; the cells with the longest freezes come first."""
NAMED = 3
"""Freezes named in one panel: more lines would leave no room for the curve."""
APART = 0.03
"""Least distance of two numbers on a panel, as a share of its width: digits do not touch."""
CHARACTERS = 84
"""Width of a panel in characters of the names' size."""


def of(cell: Cell) -> list[Reason]:
    """The cell's freezes that have a span."""
    return [r for r in cell.reasons if r.code == "FREEZE" and r.t0 is not None and r.t1 is not None]


def shade(axes: Axes, t0: float, t1: float, colour: str = "#D55E00", hatch: str = "////") -> None:
    """Shade a span over the whole height."""
    axes.axvspan(t0, t1, facecolor=colour, alpha=0.18, edgecolor=colour,
                 hatch=hatch, linewidth=0.0, zorder=0)  # fmt: skip


def _middle(freeze: Reason) -> float:
    return ((freeze.t0 or 0.0) + (freeze.t1 or 0.0)) / 2


def seconds(freeze: Reason) -> float:
    """How long it stood still."""
    return float(freeze.evidence.get("frozen_s") or 0.0)


def named(freezes: list[Reason], end: float) -> list[Reason]:
    """The longest few, in order of time, whose numbers do not touch on an axis of ``end`` s."""
    chosen: list[Reason] = []
    for freeze in sorted(freezes, key=seconds, reverse=True):
        if all(abs(_middle(freeze) - _middle(other)) >= APART * end for other in chosen):
            chosen.append(freeze)
    return sorted(chosen[:NAMED], key=_middle)


def lines(freezes: list[Reason], end: float) -> list[str]:
    """What stands above a panel: the named freezes, numbered if there are several."""
    chosen = named(freezes, end)
    several = len(freezes) > 1
    told = [cut(f"{i}: {name(f)}" if several else name(f)) for i, f in enumerate(chosen, 1)]
    more = len(freezes) - len(chosen)
    return [*told, f"and {more} more"] if more else told


def cut(text: str, most: int = CHARACTERS) -> str:
    """``text`` in one line of at most ``most`` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def name(freeze: Reason) -> str:
    """``FREEZE 3.20 s, JIT: _topk_topp_kernel, CONFIRMED ONE-OFF``."""
    parts = [f"FREEZE {seconds(freeze):.2f} s"]
    if freeze.cause:
        kernels = freeze.evidence.get("kernels")
        parts.append(f"{freeze.cause}: {cut(str(kernels), 30)}" if kernels else freeze.cause)
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
        ends = [cell.observed.duration_s or cell.timeline[-1][0] for cell in cells]
        above = [lines(of(cell), end) for cell, end in zip(cells, ends, strict=True)]
        height = 0.4 + 1.4 * len(cells) + 0.14 * sum(map(len, above))
        figure, panels = style.new(height, len(cells))
        for axes, cell, end, told in zip(panels, cells, ends, above, strict=True):
            look = looks[cell.variant]
            times = [t for t, _ in cell.timeline]
            rates = [v for _, v in cell.timeline]
            axes.step(times, rates, where="post", color=look.colour, linewidth=1.2)
            frozen = of(cell)
            for freeze in frozen:
                shade(axes, freeze.t0 or 0.0, freeze.t1 or 0.0)
            for number, freeze in enumerate(named(frozen, end), 1):
                if len(frozen) > 1:
                    axes.text(_middle(freeze), 0.98, str(number), fontsize=8, ha="center",
                              va="top", transform=axes.get_xaxis_transform())  # fmt: skip
            axes.set_xlim(0, end or 1.0)
            axes.set_ylim(0, max(rates, default=0.0) * 1.2 or 1.0)
            axes.set_ylabel("Tokens/s")
            start = f", start {cell.start}" if cell.start else ""
            title = f"{cell.variant} at {cell.load}{start}"
            axes.set_title("\n".join([title, *told]), fontsize=8, loc="left")
        panels[-1].set_xlabel("Time since the first request was sent (s)")
    return figure
