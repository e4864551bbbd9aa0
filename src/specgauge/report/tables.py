"""The report's tables: headline, one per load, every cell, cross-checks, every comparison."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze.document import Cell, Comparison, LoadFacts, Summary
from specgauge.analyze.records import DRIFT_ROLE
from specgauge.analyze.stats import mean
from specgauge.analyze.validity import worse
from specgauge.report import checks, energy, numbers, published
from specgauge.report.table import Column, Table, Value

TEXT = {
    "load": "load",
    "variant": "variant",
    "interval": "95 % interval",
    "claim": "claim",
    "verdict": "verdict",
}


def _text(key: str) -> Column:
    return Column(key, TEXT[key])


_SPEEDUP = Column("speedup", "speed-up", numbers.times)
_CORRECTED = (
    Column("frozen_s", "frozen s", lambda v: numbers.number(v, 2)),
    Column("corrected_tok_s", "corrected tok/s", numbers.rate),
    Column("corrected_speedup", "corrected speed-up", numbers.times),
    Column("corrected_verdict", "corrected verdict"),
    Column("confirmation", "confirmation"),
)
_TPOT_SPEEDUP = Column("tpot_speedup", "TPOT speed-up", numbers.times)
_RATIO_VERDICT = Column("speedup_verdict", "verdict of speed-ups")
_SAME_RUNNER = Column("draft_only_speedup", "same-runner speed-up", numbers.times)
_STEP_P50 = Column("step_p50_ms", "step p50 ms", numbers.milliseconds)
_FIGURES = (
    Column("output_tok_s", "output tok/s", numbers.rate),
    Column("tpot_ms", "TPOT ms", numbers.milliseconds),
    Column("ttft_ms", "TTFT ms", numbers.milliseconds),
    Column("step_ms", "step ms", numbers.milliseconds),
    _STEP_P50,
    Column("prefill_share", "prefill share", numbers.percent),
    Column("acceptance_length", "acceptance length", lambda v: numbers.number(v, 2)),
    Column("tokens_per_step", "tokens per step", lambda v: numbers.number(v, 2)),
    Column("draft_coverage", "coverage", numbers.coverage),
    Column("efficiency", "efficiency", numbers.percent),
    Column("prefix_cache_hit_rate", "prefix-cache hits", numbers.percent),
)
_OPEN_FIGURES = (
    Column("ttft_scheduled_ms", "TTFT from schedule ms", numbers.milliseconds),
    Column("e2e_scheduled_ms", "E2E from schedule ms", numbers.milliseconds),
    Column("goodput_s", "goodput req/s", lambda v: numbers.number(v, 2)),
)


def figures_of(cell: Cell) -> dict[str, float | None]:
    """The figures that the tables show of one cell."""
    seen = cell.observed
    scheduled, e2e = seen.ttft_scheduled_ms, seen.e2e_scheduled_ms
    return {
        "output_tok_s": seen.output_tok_s,
        "tpot_ms": seen.tpot_ms.mean,
        "ttft_ms": seen.ttft_ms.mean,
        "step_ms": seen.step_ms.mean,
        "step_p50_ms": seen.step_ms.p50,
        "prefill_share": seen.prefill_share,
        "acceptance_length": seen.acceptance_length,
        "tokens_per_step": seen.tokens_per_step,
        "draft_coverage": seen.draft_coverage,
        "efficiency": seen.efficiency,
        "prefix_cache_hit_rate": seen.prefix_cache_hit_rate,
        "ttft_scheduled_ms": scheduled.mean if scheduled else None,
        "e2e_scheduled_ms": e2e.mean if e2e else None,
        "goodput_s": seen.goodput.per_s if seen.goodput else None,
        **energy.figures_of(cell),
    }


def averaged(cells: Sequence[Cell]) -> dict[str, float | None]:
    """Mean of each figure over ``cells``; None where no cell has it.

    The median step only where all have it: beside a mean over all it would be of other starts.
    """
    each = [figures_of(cell) for cell in cells]
    keys = each[0].keys() if each else ()
    found = {key: mean([v for f in each if (v := f[key]) is not None]) for key in keys}
    if any(f[_STEP_P50.key] is None for f in each):
        found[_STEP_P50.key] = None
    return found


def find(
    comparisons: Sequence[Comparison], variant: str, load: str, metric: str, basis: str = "observed"
) -> Comparison | None:
    """The comparison of a variant under a load, observed or derived."""
    wanted = (variant, load, metric, basis)
    return next((c for c in comparisons if (c.variant, c.load, c.metric, c.basis) == wanted), None)


def headline(summary: Summary) -> Table:
    """Variant x load: speed-up, interval, what is claimed, verdict.  The baseline leads."""
    columns = (
        _text("load"),
        _text("variant"),
        Column("output_tok_s", "output tok/s", numbers.rate),
        Column("tpot_ms", "TPOT ms", numbers.milliseconds),
        _SPEEDUP,
        _text("interval"),
        _TPOT_SPEEDUP,
        Column("rounds", "rounds", lambda v: numbers.number(v, 0)),
        _text("claim"),
        _text("verdict"),
    )
    rows: list[list[Value]] = []
    for load in summary.loads:
        for variant in _ordered(summary):
            cells = _of(summary, variant, load.name)
            counted = [c for c in cells if not c.excluded]
            if not cells:
                continue
            shown = averaged(counted or [c for c in cells if c.role != DRIFT_ROLE] or cells)
            rows.append([load.name, variant, shown["output_tok_s"], shown["tpot_ms"],
                         *_comparison_fields(summary, variant, load, cells)])  # fmt: skip
    return Table("headline", "Headline", columns, rows)


def _comparison_fields(
    summary: Summary, variant: str, load: LoadFacts, cells: Sequence[Cell]
) -> list[Value]:
    """speed-up, interval, TPOT speed-up, rounds, claim, verdict."""
    throughput = find(summary.comparisons, variant, load.name, "output_tok_s")
    tpot = find(summary.comparisons, variant, load.name, "tpot")
    leading = throughput or tpot
    if variant == summary.baseline:
        unity = 1.0 if any(not c.excluded for c in cells) else None
        rounds = len({c.round for c in cells if not c.excluded})
        return [unity if load.rate is None else None, numbers.MISSING, unity, rounds, "baseline",
                _partial(cells) or _worst(_standing(cells))]  # fmt: skip
    if leading is None:
        return [None, numbers.MISSING, None, None, numbers.MISSING,
                _partial(cells) or _worst(_standing(cells))]  # fmt: skip
    return [
        throughput.speedup if throughput else None,
        numbers.interval(leading),
        tpot.speedup if tpot else None,
        leading.rounds,
        numbers.claim(leading),
        _partial(cells) or numbers.verdict(leading.verdict, leading.reasons),
    ]


def _standing(cells: Sequence[Cell]) -> list[Cell]:
    """Those that count, or would were they not INVALID; no partial start, nothing for drift."""
    return [c for c in cells if not c.excluded or c.excluded_because == "INVALID"]


def _partial(cells: Sequence[Cell]) -> str | None:
    """Why no cell of a row counts, where it is not their verdict: such a row has none."""
    if _standing(cells):
        return None
    causes = dict.fromkeys(c.excluded_because for c in cells if c.role != DRIFT_ROLE)
    return f"left out: {', '.join(str(c) for c in causes) or DRIFT_ROLE}"


def per_load(summary: Summary, load: LoadFacts) -> Table:
    """One load: a row a variant (mean over its counted starts), then what was left out."""
    is_open = load.rate is not None
    figures = (*_FIGURES, *energy.columns(summary), *(_OPEN_FIGURES if is_open else ()))
    ratios = _ratio_columns(summary, is_open)
    columns = (_text("variant"), figures[0], *ratios, *figures[1:], _text("verdict"))
    rows: list[list[Value]] = []
    for variant in _ordered(summary):
        cells = _of(summary, variant, load.name)
        if counted := [c for c in cells if not c.excluded]:
            shown: dict[str, Value] = {
                **averaged(counted),
                **_ratios(summary, variant, load.name),
            }
            rows.append([variant, *(shown[c.key] for c in columns[1:-1]), _worst(counted)])
        for cell in (c for c in cells if c.excluded):
            alone = figures_of(cell)
            rows.append(
                [left_out(cell), *(alone.get(c.key) for c in columns[1:-1]), _worst([cell])]
            )
    arrivals = (
        f"{load.rate:g} requests/s" if load.rate is not None else f"concurrency {load.concurrency}"
    )
    title = f"{load.name}: {arrivals}, {load.requests} requests"
    return Table(f"load-{load.name}", title, columns, rows)


def _ratio_columns(summary: Summary, is_open: bool) -> tuple[Column, ...]:
    throughput = () if is_open else (_SPEEDUP,)
    matched = (_SAME_RUNNER,) if summary.matched_comparisons else ()
    return (*throughput, _TPOT_SPEEDUP, *matched, _RATIO_VERDICT)


def _ratios(summary: Summary, variant: str, load: str) -> dict[str, Value]:
    """The ratio columns' values and the worst verdict of them; 1 for the baseline by definition."""
    if variant == summary.baseline:
        return {
            _SPEEDUP.key: 1.0,
            _TPOT_SPEEDUP.key: 1.0,
            _SAME_RUNNER.key: None,
            _RATIO_VERDICT.key: None,
        }
    throughput = find(summary.comparisons, variant, load, "output_tok_s")
    tpot = find(summary.comparisons, variant, load, "tpot")
    matched = find(summary.matched_comparisons, variant, load, "output_tok_s") or find(
        summary.matched_comparisons, variant, load, "tpot"
    )
    return {
        _SPEEDUP.key: throughput.speedup if throughput else None,
        _TPOT_SPEEDUP.key: tpot.speedup if tpot else None,
        _SAME_RUNNER.key: matched.speedup if matched else None,
        _RATIO_VERDICT.key: _ratio_verdict([c for c in (throughput, tpot, matched) if c]),
    }


def _ratio_verdict(shown: Sequence[Comparison]) -> str | None:
    """The worst verdict of the comparisons shown in a row; None where none has a number."""
    if all(c.speedup is None for c in shown):
        return None
    codes = dict.fromkeys(code for c in shown for code in c.reasons)
    return numbers.verdict(worse(*(c.verdict for c in shown)), list(codes))


def left_out(cell: Cell) -> str:
    """Row label of a cell that no headline counts."""
    if cell.excluded_because == DRIFT_ROLE:
        return f"{cell.variant}, again at the end"
    repeat = f", repeat {cell.repeat}" if cell.repeat else ""
    return f"{cell.variant}, start {cell.start}{repeat}, left out: {cell.excluded_because}"


def corrected(summary: Summary) -> Table:
    """Raw and corrected side by side, for the loads in which some cell stood still."""
    loads = {c.load for c in summary.cells if c.derived is not None}
    columns = (
        _text("load"), _text("variant"), Column("start", "start"),
        Column("output_tok_s", "raw tok/s", numbers.rate), _SPEEDUP, _text("verdict"), *_CORRECTED,
    )  # fmt: skip
    rows: list[list[Value]] = []
    for cell in summary.cells:
        if cell.load not in loads or (cell.excluded and cell.derived is None):
            continue
        raw = find(summary.comparisons, cell.variant, cell.load, "output_tok_s")
        taken = find(summary.comparisons, cell.variant, cell.load, "output_tok_s", "derived")
        off = cell.derived
        best = taken or raw
        is_base = cell.variant == summary.baseline and not cell.excluded and cell.rate is None
        rows.append(
            [
                cell.load, cell.variant, cell.start, cell.observed.output_tok_s,
                1.0 if is_base else raw.speedup if raw else None, _worst([cell]),
                off.frozen_s if off else 0.0,
                off.output_tok_s if off else cell.observed.output_tok_s if cell.rate is None
                else None,
                1.0 if is_base else best.speedup if best else None,
                numbers.verdict(best.verdict, best.reasons) if best else off.verdict if off
                else cell.verdict,
                (off.confirmation or "not repeated") if off else None,
            ]
        )  # fmt: skip
    return Table("corrected", "Freezes taken off", columns, rows if loads else [])


def all_cells(summary: Summary) -> Table:
    """Every cell, one row each."""
    names = ("variant", "load", "start", "repeat", "round", "role")
    columns = (
        *(Column(name, name) for name in names),
        Column("requests", "requests", lambda v: numbers.number(v, 0)),
        Column("failed", "failed", lambda v: numbers.number(v, 0)),
        Column("output_tokens", "output tokens", lambda v: numbers.number(v, 0)),
        Column("duration_s", "duration s", lambda v: numbers.number(v, 2)),
        Column("total_tok_s", "total tok/s", numbers.rate),
        Column("full_batch_tok_s", "full-batch tok/s", numbers.rate),
        *_FIGURES,
        *_OPEN_FIGURES,
        *energy.columns(summary),
        Column("server_step_ms", "server's step ms", numbers.milliseconds),
        Column("excluded_because", "left out"),
        _text("verdict"),
    )
    rows: list[list[Value]] = []
    for cell in summary.cells:
        seen, figures = cell.observed, figures_of(cell)
        rows.append(
            [
                cell.variant, cell.load, cell.start, cell.repeat, cell.round, cell.role,
                seen.requests, seen.failed, seen.output_tokens, seen.duration_s, seen.total_tok_s,
                seen.full_batch_tok_s,
                *(figures[c.key] for c in (*_FIGURES, *_OPEN_FIGURES, *energy.columns(summary))),
                seen.step_ms.server_mean, cell.excluded_because, _worst([cell]),
            ]
        )  # fmt: skip
    return Table("cells", "Every cell", columns, rows)


def comparisons(summary: Summary) -> Table:
    """Every comparison, for programs."""
    names = ("variant", "against", "load", "metric", "basis", "speedup", "low", "high", "rounds",
             "p", "p_holm", "significant", "label", "verdict")  # fmt: skip
    rows: list[list[Value]] = [
        [*(getattr(c, name) for name in names), ", ".join(c.reasons)]
        for c in (*summary.comparisons, *summary.matched_comparisons)
    ]
    columns = (*(Column(name, name) for name in names), Column("reasons", "reasons"))
    return Table("comparisons", "Every comparison", columns, rows)


def every(summary: Summary) -> list[Table]:
    """All tables of a run."""
    loads = [per_load(summary, load) for load in summary.loads]
    tables = [
        headline(summary), corrected(summary), *loads, energy.table(summary), all_cells(summary),
        checks.table(summary), published.table(summary), comparisons(summary),
    ]  # fmt: skip
    return [table for table in tables if table.rows]


def _ordered(summary: Summary) -> list[str]:
    """The baseline, then the variants as listed."""
    names = [v.name for v in summary.variants]
    return sorted(names, key=lambda name: name != summary.baseline)


def _of(summary: Summary, variant: str, load: str) -> list[Cell]:
    return [c for c in summary.cells if c.variant == variant and c.load == load]


def _worst(cells: Sequence[Cell]) -> str:
    word = worse(*(c.verdict for c in cells))
    codes = dict.fromkeys(code for c in cells for code in numbers.tainting(c))
    return numbers.verdict(word, list(codes))
