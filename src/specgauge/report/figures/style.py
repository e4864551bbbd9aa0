"""What the figures share: colours, markers, hatches, sizes.

Colours are Okabe and Ito's set, which stays apart in the common kinds of colour blindness and in
grey; each variant also has a marker and a hatch of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from specgauge.analyze.document import Cell, Summary

WIDTH_IN = 6.3
"""Text width of an A4 page."""
DPI = 200

_COLOURS = ("#767676", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "///", "\\\\\\", "xxx", "--", "++", "||")

SETTINGS: Any = {
    "font.size": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # a kernel's name may hold dollar signs
}


@dataclass(frozen=True)
class Look:
    """How one variant is drawn."""

    colour: str
    marker: str
    hatch: str


def looks(summary: Summary) -> dict[str, Look]:
    """A look for each variant: the baseline grey, the others in the listed order.

    With more variants than colours, markers and hatches move on by one: no two look alike.
    """
    names = sorted((v.name for v in summary.variants), key=lambda n: n != summary.baseline)
    return {
        name: Look(
            _COLOURS[i % len(_COLOURS)],
            _MARKERS[(i + i // len(_COLOURS)) % len(_MARKERS)],
            _HATCHES[(i + i // len(_COLOURS)) % len(_HATCHES)],
        )
        for i, name in enumerate(names)
    }


def new(height_in: float, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of text width with ``rows`` x ``columns`` axes; call inside ``context()``."""
    figure = Figure(figsize=(WIDTH_IN, height_in), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]


def context() -> Any:
    """The shared settings, as a context manager."""
    return mpl.rc_context(SETTINGS)


def swatch(name: str, look: Look) -> Patch:
    """A legend entry for bars."""
    return Patch(facecolor=look.colour, edgecolor="black", linewidth=0.6, hatch=look.hatch,
                 label=name)  # fmt: skip


def drawn(cells: Sequence[Cell]) -> list[Cell]:
    """Of one variant's cells under one load those to draw: the counted, else the INVALID ones."""
    counted = [c for c in cells if not c.excluded]
    return counted or [c for c in cells if c.verdict == "INVALID"]


def hollow(cells: Sequence[Cell]) -> bool:
    """Whether none of the drawn cells counts."""
    return all(c.excluded for c in cells)


def mark(cells: Sequence[Cell]) -> str:
    """What a figure writes beside a value: nothing if VALID, else the verdict."""
    words = {c.verdict for c in cells}
    return "INVALID" if "INVALID" in words else "SUSPECT" if "SUSPECT" in words else ""


DOT: Any = {
    "marker": "o",
    "linestyle": "none",
    "markersize": 3.5,
    "markerfacecolor": "white",
    "markeredgecolor": "black",
    "markeredgewidth": 0.7,
}
"""One cell among several: a white dot, visible on every colour and hatch."""
ABOVE_DOT = 5
"""Points above a dot's middle at which a number begins that is not read as ``0`` and number."""
