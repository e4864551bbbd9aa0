"""Many freezes in one cell: all shaded, the longest named, nothing on anything else."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from synthetic_run import BASE, NGRAM, StartPlant, write_run

from specgauge.analyze.document import Cell, Reason, Summary
from specgauge.analyze.summary import summarise
from specgauge.record.reader import read_run
from specgauge.report.figures import acceptance, freezes

LENGTHS = (0.5, 1.1, 0.4, 1.6, 0.6, 1.3, 0.7, 0.45)


def freeze(t0: float, length: float, kernels: str = "") -> Reason:
    evidence = {"frozen_s": length, "confirmation": "CONFIRMED ONE-OFF", "kernels": kernels}
    return Reason(code="FREEZE", severity="suspect", detail="still", cause="SERVER_STARVED",
                  evidence=evidence, t0=t0, t1=t0 + length)  # fmt: skip


def frozen(cell: Cell, kernels: str = "") -> Cell:
    """The cell as if it had lasted 40 s and stood still every five seconds."""
    stood = [freeze(5.0 * i, length, kernels) for i, length in enumerate(LENGTHS)]
    lengths = cell.observed.acceptance_length_over_time
    points = [(5.0 * i, 2.0 + i % 2) for i in range(8)] if cell.variant != "vanilla" else []
    observed = cell.observed.model_copy(
        update={
            "duration_s": 40.0,
            "acceptance_length_over_time": lengths.model_copy(update={"points": points}),
        }
    )
    timeline = [(0.25 * i, 20.0 + i % 7) for i in range(160)]
    return cell.model_copy(update={"reasons": stood, "timeline": timeline, "observed": observed})


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    plant = StartPlant({"c1": [replace(BASE, step_s=0.02)]}, speculative_config=NGRAM)
    starts = {("vanilla", 0): StartPlant({"c1": [BASE]}), ("x", 0): plant, ("y", 0): plant}
    folder: Path = tmp_path_factory.mktemp("r") / "r"
    loads = ({"requests": 8, "concurrency": 1},)
    return summarise(read_run(write_run(folder, starts, loads=loads)))


def with_freezes(summary: Summary, kernels: str = "") -> Summary:
    return summary.model_copy(update={"cells": [frozen(c, kernels) for c in summary.cells]})


def laid_out(figure: Figure | None) -> Figure:
    assert figure is not None
    figure.canvas.draw()
    return figure


def assert_readable(figure: Figure) -> None:
    """Every text lies in the figure, and no two texts of a panel touch."""
    for axes in figure.axes:
        shown: list[Text] = [*axes.texts, axes.title, axes._left_title, axes.yaxis.label]  # type: ignore[attr-defined]
        boxes = [t.get_window_extent() for t in shown if t.get_text()]
        for box in boxes:
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.width
        for i, one in enumerate(boxes):
            assert not any(one.overlaps(other) for other in boxes[i + 1 :])


def test_the_longest_freezes_are_named_in_order_of_time() -> None:
    stood = [freeze(5.0 * i, length) for i, length in enumerate(LENGTHS)]
    assert [freezes.seconds(f) for f in freezes.named(stood, 40.0)] == [1.1, 1.6, 1.3]
    told = freezes.lines(stood, 40.0)
    assert told[0] == "1: FREEZE 1.10 s, SERVER_STARVED, CONFIRMED ONE-OFF"
    assert told[-1] == "and 5 more"


def test_one_freeze_has_neither_a_number_nor_a_rest() -> None:
    (line,) = freezes.lines([freeze(3.0, 2.0)], 40.0)
    assert line.startswith("FREEZE 2.00 s, SERVER_STARVED")


def test_freezes_close_together_get_numbers_that_do_not_touch() -> None:
    stood = [freeze(10 + 0.5 * i, 0.4) for i in range(20)]
    chosen = freezes.named(stood, 200.0)
    assert 1 < len(chosen) <= freezes.NAMED
    assert all(b.t0 - a.t0 >= freezes.APART * 200.0 for a, b in pairwise(chosen))  # type: ignore[operator]


@pytest.mark.parametrize("kernels", ["", "_a_kernel_with_a_very_long_name " * 9])
def test_many_freezes_leave_both_figures_readable(summary: Summary, kernels: str) -> None:
    many = with_freezes(summary, kernels)
    figure = laid_out(freezes.draw(many))
    assert_readable(figure)
    assert all("CONFIRMED ONE-OFF" in axes.get_title("left") for axes in figure.axes)
    assert all(len(axes.patches) == len(LENGTHS) for axes in figure.axes)
    lengths = laid_out(acceptance.draw(many))
    assert_readable(lengths)
    (axes,) = lengths.axes
    assert len(axes.patches) == 2 * len(LENGTHS)
    told = axes.get_title("left")
    assert told == "FREEZE: x 8 times (longest 1.60 s), y 8 times (longest 1.60 s)"
