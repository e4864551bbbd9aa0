"""Acceptance length over time: one panel a load, one line a drafting variant."""

from __future__ import annotations

import textwrap

from matplotlib.figure import Figure

from specgauge.analyze.document import Cell, Reason, Summary
from specgauge.report.figures import freezes, style

CAPTION = (
    "Acceptance length over time, from the server's counters (points of at least 1 s and 10 "
    "drafts), first counted start of each variant. It is conditional on a draft: read it beside "
    "coverage and tokens per step. A span shaded in a variant's colour is a FREEZE of it."
)


def _first(cells: list[Cell]) -> Cell | None:
    """The first cell that counts, else the first."""
    return next((c for c in cells if not c.excluded), cells[0] if cells else None)


def _told(name: str, stood: list[Reason]) -> str:
    """``ngram 8 times (longest 1.55 s)``; ``eagle3 0.60 s``."""
    longest = max(map(freezes.seconds, stood))
    if len(stood) == 1:
        return f"{name} {longest:.2f} s"
    return f"{name} {len(stood)} times (longest {longest:.2f} s)"


def draw(summary: Summary) -> Figure | None:
    """Lines, or None if nothing was drafted."""
    drafting = [c for c in summary.cells if c.observed.acceptance_length_over_time.points]
    loads = [load.name for load in summary.loads if any(c.load == load.name for c in drafting)]
    if not loads:
        return None
    looks = style.looks(summary)
    with style.context():
        figure, panels = style.new(0.5 + 1.7 * len(loads), len(loads))
        top = 1.0
        named: set[str] = set()
        for axes, load in zip(panels, loads, strict=True):
            verdicts: list[str] = []
            frozen: list[str] = []
            for name, look in looks.items():
                cell = _first([c for c in drafting if c.load == load and c.variant == name])
                if cell is None:
                    continue
                points = cell.observed.acceptance_length_over_time.points
                if verdict := style.mark([cell]):
                    verdicts.append(f"{name} {verdict}")
                top = max(top, *(v for _, v in points))
                if stood := freezes.of(cell):
                    frozen.append(_told(name, stood))
                for freeze in stood:
                    freezes.shade(axes, freeze.t0 or 0.0, freeze.t1 or 0.0, look.colour, look.hatch)
                axes.plot(
                    [t for t, _ in points],
                    [v for _, v in points],
                    marker=look.marker,
                    markersize=4,
                    linewidth=1.2,
                    color=look.colour,
                    markeredgecolor="black",
                    markeredgewidth=0.4,
                    label=None if name in named else name,
                )
                named.add(name)
            if frozen:
                text = "FREEZE: " + ", ".join(frozen)
                axes.set_title(textwrap.fill(text, freezes.CHARACTERS), fontsize=8, loc="left")
            text = textwrap.fill(", ".join(verdicts), freezes.CHARACTERS)
            axes.text(0.995, 0.98, text, fontsize=8, ha="right", va="top",
                      transform=axes.transAxes)  # fmt: skip
            axes.set_ylabel(f"Acceptance\nlength at {load}")
            axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
            axes.set_xlim(left=0)
        for axes in panels:
            axes.set_ylim(0.9, top + 0.5)
        panels[-1].set_xlabel("Time since the first request was sent (s)")
        figure.legend(loc="outside upper center", ncols=4)
    return figure
