"""What the GPU drew and at which clocks: columns beside the figures, and a table of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specgauge.analyze.document import Cell, Summary
from specgauge.analyze.document_gpu import GpuFigures
from specgauge.analyze.records import DRIFT_ROLE
from specgauge.analyze.stats import mean
from specgauge.analyze.validity import worse
from specgauge.report import numbers
from specgauge.report.table import Column, Table, Value

TEXT = (
    "Energy of the whole card from a cell's first send to its last chunk, over the output tokens: "
    "the headline figure. Its idle draw is in it (**rest W**: with the same server up and nothing "
    "to do, the median of its start's samples), so where a card mostly idles the figure is little "
    "more than time. **Above rest** takes that draw off: what the work itself took; it is missing "
    "where the card told too little of its rest, or drew no more than its rest swings by. Figures "
    "are means over the counted starts; ratios are geometric means over rounds, start against "
    "start, below 1 takes less: points, of which none is claimed. Clocks and the power cap belong "
    "to it: part of a gain or loss may be clocks."
)
_JOULES = Column("joules_per_token", "J/token", numbers.joules)
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
    """Load x variant: joules per token and above rest, ratios, from what, power, clocks, limits."""
    shown = (
        Column("load", "load"),
        Column("variant", "variant"),
        _JOULES,
        Column("against_baseline", "against baseline", numbers.times),
        Column("joules_per_token_above_rest", "J/token above rest", numbers.joules),
        Column("above_rest_against_baseline", "above rest against baseline", numbers.times),
        Column("ratio_verdict", "verdict of ratios"),
        Column("energy_from", "from"),
        Column("power_w", "mean W", lambda v: numbers.number(v, 0)),
        Column("rest_power_w", "rest W", lambda v: numbers.number(v, 0)),
        _CLOCK,
        Column("temperature_c", "highest °C", lambda v: numbers.number(v, 0)),
        Column("limited_by", "limited by"),
        Column("verdict", "verdict"),
    )
    rows: list[list[Value]] = []
    for load in summary.loads:
        for variant in sorted(
            (v.name for v in summary.variants), key=lambda n: n != summary.baseline
        ):
            cells = _counted(summary, variant, load.name)
            if seen := [c.observed.gpu for c in cells if c.observed.gpu is not None]:
                rows.append([load.name, variant, *_energy(summary, cells), *_card(seen),
                             _verdict(cells)])  # fmt: skip
    return Table("energy", "Energy and clocks", shown, rows)


def _energy(summary: Summary, cells: Sequence[Cell]) -> list[Value]:
    """J/token, against the baseline, above rest, against the baseline's, verdict of the ratios."""
    variant, load = cells[0].variant, cells[0].load
    figures = [
        _mean(c.observed.joules_per_token for c in cells),
        _mean(c.observed.joules_per_token_above_rest for c in cells),
    ]
    if variant == summary.baseline:
        unity = [None if figure is None else 1.0 for figure in figures]
        return [figures[0], unity[0], figures[1], unity[1], None]
    found = {r.metric: r for r in summary.energy if (r.variant, r.load) == (variant, load)}
    whole, above = found.get("joules_per_token"), found.get("joules_per_token_above_rest")
    judged = whole or above
    return [
        figures[0],
        whole.ratio if whole else None,
        figures[1],
        above.ratio if above else None,
        numbers.verdict(judged.verdict, judged.reasons) if judged else None,
    ]


def _card(seen: Sequence[GpuFigures]) -> list[Value]:
    """From what, mean W, rest W, SM MHz, highest temperature, limits."""
    temperatures = [g.temperature_c for g in seen if g.temperature_c is not None]
    return [
        ", ".join(dict.fromkeys(g.energy_from for g in seen if g.energy_from)) or None,
        _mean(g.power_w for g in seen),
        _mean(g.rest_power_w for g in seen),
        _mean(g.sm_clock_mhz for g in seen),
        max(temperatures, default=None),
        _limits(seen),
    ]


def _counted(summary: Summary, variant: str, load: str) -> list[Cell]:
    mine = [c for c in summary.cells if c.variant == variant and c.load == load]
    return [c for c in mine if not c.excluded and c.role != DRIFT_ROLE]


def _mean(figures: Iterable[float | None]) -> float | None:
    return mean([figure for figure in figures if figure is not None])


def _verdict(cells: Sequence[Cell]) -> str:
    codes = dict.fromkeys(code for cell in cells for code in numbers.tainting(cell))
    return numbers.verdict(worse(*(cell.verdict for cell in cells)), list(codes))


def _limits(seen: Sequence[GpuFigures]) -> str | None:
    """``power cap 80%``: each reason with its mean share of the samples; None without any."""
    named = dict.fromkeys(word for g in seen for word in g.throttle)
    shares = {word: sum(g.throttle.get(word, 0.0) for g in seen) / len(seen) for word in named}
    return ", ".join(f"{word} {numbers.percent(share)}" for word, share in shares.items()) or None
