"""What the GPU drew and at which clocks: columns beside the figures, and a table of its own."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze.document import Cell, Summary
from specgauge.analyze.machine_document import GpuFigures
from specgauge.analyze.records import DRIFT_ROLE
from specgauge.analyze.stats import mean
from specgauge.analyze.validity import worse
from specgauge.report import numbers
from specgauge.report.table import Column, Table, Value

TEXT = (
    "Energy of the whole card, its idle draw included, from a cell's first send to its last chunk, "
    "over the output tokens. Means over the counted starts. Clocks and the power cap belong to it: "
    "part of a gain or loss may be clocks."
)
_JOULES = Column("joules_per_token", "J/token", lambda v: numbers.number(v, 3))
_CLOCK = Column("sm_clock_mhz", "SM MHz", lambda v: numbers.number(v, 0))


def columns(summary: Summary) -> tuple[Column, ...]:
    """Energy and clock; none where no cell was watched."""
    watched = any(cell.observed.gpu is not None for cell in summary.cells)
    return (_JOULES, _CLOCK) if watched else ()


def figures_of(cell: Cell) -> dict[str, float | None]:
    """Their values."""
    gpu = cell.observed.gpu
    return {
        _JOULES.key: cell.observed.joules_per_token,
        _CLOCK.key: gpu.sm_clock_mhz if gpu else None,
    }


def table(summary: Summary) -> Table:
    """Load x variant: joules per token, against the baseline, from what, power, clocks, limits."""
    shown = (
        Column("load", "load"),
        Column("variant", "variant"),
        _JOULES,
        Column("against_baseline", "against baseline", numbers.times),
        Column("energy_from", "from"),
        Column("power_w", "mean W", lambda v: numbers.number(v, 0)),
        _CLOCK,
        Column("temperature_c", "highest °C", lambda v: numbers.number(v, 0)),
        Column("limited_by", "limited by"),
        Column("verdict", "verdict"),
    )
    rows: list[list[Value]] = []
    for load in summary.loads:
        names = sorted((v.name for v in summary.variants), key=lambda n: n != summary.baseline)
        base = _joules(_counted(summary, summary.baseline, load.name))
        for variant in names:
            cells = _counted(summary, variant, load.name)
            seen = [c.observed.gpu for c in cells if c.observed.gpu is not None]
            if not seen:
                continue
            mine = _joules(cells)
            rows.append(
                [
                    load.name,
                    variant,
                    mine,
                    mine / base if mine and base else None,
                    ", ".join(dict.fromkeys(g.energy_from for g in seen if g.energy_from)) or None,
                    mean([g.power_w for g in seen if g.power_w is not None]),
                    mean([g.sm_clock_mhz for g in seen if g.sm_clock_mhz is not None]),
                    max(
                        (g.temperature_c for g in seen if g.temperature_c is not None), default=None
                    ),
                    _limits(seen),
                    _verdict(cells),
                ]
            )
    return Table("energy", "Energy and clocks", shown, rows)


def _counted(summary: Summary, variant: str, load: str) -> list[Cell]:
    mine = [c for c in summary.cells if c.variant == variant and c.load == load]
    return [c for c in mine if not c.excluded and c.role != DRIFT_ROLE]


def _joules(cells: Sequence[Cell]) -> float | None:
    told = [c.observed.joules_per_token for c in cells]
    return mean([joules for joules in told if joules is not None])


def _verdict(cells: Sequence[Cell]) -> str:
    codes = dict.fromkeys(code for cell in cells for code in numbers.tainting(cell))
    return numbers.verdict(worse(*(cell.verdict for cell in cells)), list(codes))


def _limits(seen: Sequence[GpuFigures]) -> str | None:
    """``power cap 80%``: each reason with its mean share of the samples; None without any."""
    named = dict.fromkeys(word for g in seen for word in g.throttle)
    shares = {word: sum(g.throttle.get(word, 0.0) for g in seen) / len(seen) for word in named}
    return ", ".join(f"{word} {numbers.percent(share)}" for word, share in shares.items()) or None
