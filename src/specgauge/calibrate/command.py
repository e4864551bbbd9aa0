"""``specgauge calibrate``: plants, measurements, errors, detection; says whether it passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table

from specgauge.analyze.document import Cell
from specgauge.calibrate import plants, real, virtual
from specgauge.calibrate.judge import Error, Planted, frozen, judge
from specgauge.calibrate.plants import Plant

REAL, VIRTUAL = 20, 240
_CURVE_BINS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


@dataclass
class Calibration:
    """Of one clock."""

    clock: str
    errors: list[Error] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    """Plants whose client or server this machine did not let run, or that failed: they say nothing
    of the instrument."""
    detected: list[tuple[str, float, bool]] = field(default_factory=list)
    """(plant, freeze / threshold, called); 0: none planted."""

    def add(self, plant: Plant, planted: Planted, cell: Cell) -> None:
        """One measured plant."""
        starved = {r.code for r in cell.reasons} & {"CLIENT_STARVED", "SERVER_STARVED"}
        if starved or cell.observed.failed:
            self.unjudged.append(plant.name)
            return
        self.errors += judge(plant.name, planted, cell)
        self.detected.append((plant.name, plant.ratio or 0.0, frozen(cell) > 0))

    @property
    def missed(self) -> list[str]:
        """Freezes of twice the threshold and more that were not called."""
        return [name for name, ratio, called in self.detected if ratio >= 2 and not called]

    @property
    def invented(self) -> list[str]:
        """Freezes called where none, or one under half the threshold, was planted."""
        return [name for name, ratio, called in self.detected if ratio < 0.5 and called]

    @property
    def curve(self) -> list[tuple[float, float, int, int]]:
        """(from, to, called, planted) between half and twice the threshold."""
        found = []
        for low, high in pairwise(_CURVE_BINS):
            inside = [called for _, ratio, called in self.detected if low <= ratio < high]
            found.append((low, high, sum(inside), len(inside)))
        return found

    @property
    def passed(self) -> bool:
        """Every error within its limit, nothing missed, nothing invented, nearly all judged."""
        judged = len(self.detected)
        enough = judged >= 0.9 * (judged + len(self.unjudged)) and judged > 0
        return enough and all(e.ok for e in self.errors) and not self.missed + self.invented

    def facts(self) -> dict[str, Any]:
        """For ``--json``."""
        worst: dict[str, float] = {}
        for e in self.errors:
            worst[e.what] = max(
                worst.get(e.what, 0.0), abs(e.error) if e.error is not None else 9e9
            )
        return {
            "plants": len(self.detected),
            "not_judged": self.unjudged,
            "worst_errors": worst,
            "outside": [f"{e.plant}: {e.what} {e.planted:.4g} measured {e.measured}"
                        for e in self.errors if not e.ok],
            "missed": self.missed,
            "invented": self.invented,
            "curve": self.curve,
            "passed": self.passed,
        }  # fmt: skip


def calibrate(
    console: Console, *, real_plants: int = REAL, virtual_plants: int = VIRTUAL
) -> dict[str, Any]:
    """Run both and print a table each.  Returns ``passed`` and the errors of each clock.

    Raises:
        EnvironmentFault: servers cannot be run here.
    """
    on_virtual = Calibration("virtual clock, identical records")
    for number in range(virtual_plants):
        plant = plants.draw(number, concurrency=(1, 4, 16)[number // 7 % 3], requests=16,
                            output_tokens=64, fast=False)  # fmt: skip
        on_virtual.add(plant, *virtual.run(plant))
    _show(console, on_virtual)
    made = [on_virtual]
    if real_plants:
        on_real = Calibration("real clock, HTTP and Locust")
        drawn = [plants.draw(number, concurrency=4, requests=12, output_tokens=64, fast=True)
                 for number in range(real_plants)]  # fmt: skip
        measured = real.run(drawn, console)
        for plant, planted, cell in measured:
            on_real.add(plant, planted, cell)
        given = {plant.name for plant, _, _ in measured}
        on_real.unjudged += [plant.name for plant in drawn if plant.name not in given]
        _show(console, on_real)
        made.append(on_real)
    return {"passed": all(c.passed for c in made), **{c.clock: c.facts() for c in made}}


def _show(console: Console, made: Calibration) -> None:
    table = Table("quantity", "plants", "worst error", "within", box=None, title=made.clock)
    for what in dict.fromkeys(e.what for e in made.errors):
        mine = [e for e in made.errors if e.what == what]
        worst = max((abs(e.error) for e in mine if e.error is not None), default=0.0)
        unit = {"TTFT": f"{worst:.2f} ms", "freeze": f"{worst * 1000:.0f} ms"}.get(
            what, f"{worst:.2%}"
        )
        table.add_row(what, str(len(mine)), unit, f"{sum(e.ok for e in mine)} of {len(mine)}")
    console.print(table)
    above = [c for _, ratio, c in made.detected if ratio >= 2]
    below = [c for _, ratio, c in made.detected if ratio < 0.5]
    curve = ", ".join(f"{a:g}-{b:g}x: {n} of {of}" for a, b, n, of in made.curve if of)
    console.print(
        f"Freezes: {sum(above)} of {len(above)} called at twice the threshold and more, "
        f"{sum(below)} of {len(below)} under half of it; between: {curve or 'none planted'}.",
        highlight=False,
        soft_wrap=True,
    )
    if made.unjudged:
        console.print(
            f"Not judged, failed or starved of CPU: {', '.join(made.unjudged)}.",
            soft_wrap=True,
        )
