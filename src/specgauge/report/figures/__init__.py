"""The figures, one a file: print-sized, told apart by shape and hatch as well as by colour."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from specgauge.analyze.document import Summary
from specgauge.report.figures import acceptance, freezes, throughput, ttft_tpot

Draw = Callable[[Summary], Figure | None]

FIGURES: dict[str, tuple[str, Draw]] = {
    "throughput": (throughput.CAPTION, throughput.draw),
    "ttft_tpot": (ttft_tpot.CAPTION, ttft_tpot.draw),
    "freezes": (freezes.CAPTION, freezes.draw),
    "acceptance": (acceptance.CAPTION, acceptance.draw),
}
"""File name → caption and drawing; a drawing is None where the run has nothing for it."""
