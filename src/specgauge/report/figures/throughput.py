"""Total token throughput by concurrency, per variant."""

from __future__ import annotations

from matplotlib.figure import Figure

from specgauge.analyze.document import Summary
from specgauge.analyze.stats import mean
from specgauge.report import numbers
from specgauge.report.figures import style

CAPTION = (
    "Total token throughput (prompt and output tokens) by concurrency; bars are means over starts; "
    "dots, where a bar has several cells, are single cells. A verdict that is not VALID is "
    "written on its bar; INVALID bars are hollow."
)

SIDE_BY_SIDE = 8
"""Bars whose verdicts fit beside each other; of more, they are written upwards."""
NUMBERS_SIDE_BY_SIDE = 12
"""Bars whose numbers do, without a verdict."""


def draw(summary: Summary) -> Figure | None:
    """Grouped bars, or None without a closed load that gave a token."""
    loads = sorted(
        (load for load in summary.loads if load.concurrency is not None),
        key=lambda load: load.concurrency or 0,
    )
    cells = [c for c in summary.cells if c.concurrency is not None and c.observed.total_tok_s]
    if not loads or not cells:
        return None
    looks = style.looks(summary)
    names = [name for name in looks if any(c.variant == name for c in cells)]
    width = 0.84 / len(names)
    with style.context():
        figure, (axes,) = style.new(3.1)
        axes.grid(axis="x", visible=False)
        highest, turned = 0.0, False
        for i, name in enumerate(names):
            look = looks[name]
            for group, load in enumerate(loads):
                mine = [c for c in cells if c.variant == name and c.load == load.name]
                shown = style.drawn(mine)
                values = [c.observed.total_tok_s or 0.0 for c in shown]
                height = mean(values)
                if height is None:
                    continue
                x = group + (i - (len(names) - 1) / 2) * width
                highest = max(highest, *values)
                axes.bar(
                    x,
                    height,
                    width * 0.92,
                    facecolor="none" if style.hollow(shown) else look.colour,
                    edgecolor=look.colour if style.hollow(shown) else "black",
                    linewidth=0.6,
                    hatch=look.hatch,
                )
                if len(values) > 1:
                    axes.plot([x] * len(values), values, **style.DOT)
                verdict = style.mark(shown)
                text = numbers.number(height, 1 if height < 100 else 0)
                most = SIDE_BY_SIDE if verdict else NUMBERS_SIDE_BY_SIDE
                crowded = len(names) * len(loads) > most
                axes.annotate(
                    f"{text} {verdict}".strip() if crowded else f"{verdict}\n{text}".strip(),
                    (x, max(values)),
                    xytext=(0, 2 if len(values) == 1 else style.ABOVE_DOT),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    fontsize=8,
                    rotation=90 if crowded else 0,
                )
                turned = turned or crowded
        axes.set_xticks(range(len(loads)), [str(load.concurrency) for load in loads])
        axes.set_ylim(0, highest * (1.5 if turned else 1.15) or 1.0)
        axes.set_xlabel("Concurrency (requests in flight)")
        axes.set_ylabel("Total tokens per second")
        figure.legend(
            handles=[style.swatch(name, looks[name]) for name in names],
            loc="outside upper center",
            ncols=min(len(names), 4),
        )
    return figure
