"""A run's records into its summary: figures, verdicts, comparisons, recommendations.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from specgauge.analyze import (
    across_cells,
    energy,
    figures,
    fingerprint,
    prefill,
    prefix_cache,
    references,
    speedup,
    timeline,
    validity,
    weights,
)
from specgauge.analyze.context import CellContext, StartContext
from specgauge.analyze.counters import Counters
from specgauge.analyze.derived import derive
from specgauge.analyze.document import (
    Cell,
    LoadFacts,
    MissingCell,
    Reason,
    Summary,
    VariantFacts,
)
from specgauge.analyze.log import traits
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.pairing import CellKey, key
from specgauge.analyze.recommend import recommend
from specgauge.analyze.records import (
    DRIFT_ROLE,
    PARTIAL,
    CellRecord,
    Published,
    RunRecord,
    RunSetup,
    StartRecord,
)
from specgauge.analyze.started import Start, Traits
from specgauge.analyze.validity import drift
from specgauge.errors import ExitCode

__all__ = ["Summary", "exit_code", "summarise"]

INVALID = "INVALID"


def summarise(run: RunRecord, published: Sequence[Published] = ()) -> Summary:
    """Everything that the report shows of ``run``; ``published``: results to set beside ours."""
    setup = run.setup
    starts = [_context(start) for start in run.starts]
    cells: list[Cell] = []
    latencies: dict[CellKey, pd.DataFrame] = {}
    counting = _counting(run)
    pool = _prefill(starts)
    contexts: dict[CellKey, CellContext] = {}
    records: dict[CellKey, CellRecord] = {}
    prints: dict[CellKey, fingerprint.Fingerprint] = {}
    for start in starts:
        traits_to_compare = _baseline_traits(starts, setup.baseline, start.record)
        for position, record in enumerate(start.record.cells):
            context = CellContext(record, start, setup, traits_to_compare, position == 0, pool)
            cell = _cell(context, counting)
            version = start.version
            mark = fingerprint.of(record, start.record, setup, version)
            cell = cell.model_copy(update={"fingerprint": fingerprint.digest(dict(mark))})
            cells.append(cell)
            prints[key(cell)] = mark
            if not start.record.partial:
                records[key(cell)] = record
            latencies[key(cell)] = context.latencies
            contexts[key(cell)] = context
    cells = across_cells.noted(cells)
    evidence = speedup.Evidence(
        fingerprints=prints,
        launches={(s.variant, s.start): s.launch for s in run.starts},
        configs={v.name: v.speculative_config for v in setup.variants},
        records=records,
        latencies_before=_before_degeneration(contexts),
        margins={(s.variant, s.start): s.margins for s in run.starts},
    )
    loads = _loads(setup, cells)
    drifts = {
        load.name: seen
        for load in loads
        if (seen := drift.check(cells, setup.baseline, load.name)) is not None
    }
    comparisons = speedup.compare(cells, latencies, setup.baseline, drifts, evidence)
    measured = any(c.variant == setup.baseline and not c.excluded for c in cells)
    seen_variants = dict.fromkeys([*(v.name for v in setup.variants), *(c.variant for c in cells)])
    return Summary(
        experiment=setup.experiment,
        run_id=setup.run_id,
        model=setup.model,
        baseline=setup.baseline,
        baseline_measured=measured,
        rounds=setup.rounds,
        variants=[
            VariantFacts(
                name=v.name,
                speculative_config=v.speculative_config,
                matched_baseline=v.matched_baseline,
            )
            for v in map(setup.variant, seen_variants)
        ],
        loads=loads,
        starts=[_start(start) for start in starts],
        cells=cells,
        comparisons=comparisons,
        matched_comparisons=speedup.compare_matched(
            cells, latencies, _matched(setup), drifts, evidence
        ),
        energy=energy.compare(cells, setup.baseline, comparisons),
        references=references.beside(published, cells, comparisons),
        missing=_missing(setup, run, cells),
        reasons=[*drifts.values(), *_unseen_drifts(setup, run, cells, loads)],
        recommendations=recommend(setup, comparisons, [load.name for load in loads], cells),
        environment=_environment(setup.facts),
    )


def exit_code(summary: Summary, strict: bool) -> ExitCode:
    """How a command that ends with this summary exits.

    A planned cell without a complete measurement comes first (4: run again and it goes on there),
    then INVALID cells (3), then with ``strict`` SUSPECT ones (6).  Cells of partial starts that a
    later start replaced do not count; nor do variants that were never started.
    """
    if summary.missing:
        return ExitCode.INCOMPLETE
    counted = [c for c in summary.cells if c.excluded_because in (None, INVALID, DRIFT_ROLE)]
    if any(c.verdict == "INVALID" for c in counted):
        return ExitCode.INVALID
    doubtful = any(c.verdict == "SUSPECT" for c in counted) or any(
        c.verdict != "VALID" for c in summary.comparisons
    )
    return ExitCode.SUSPECT if strict and doubtful else ExitCode.MEASURED


def _context(start: StartRecord) -> StartContext:
    return StartContext(start, Counters(start.metrics), traits.read(start.log))


def _prefill(starts: list[StartContext]) -> tuple[prefill.Sample, ...]:
    """Prefill samples of every cell of the run, warm-ups too: the target reads for all alike."""
    found: list[prefill.Sample] = []
    for start in starts:
        for cell in (*start.record.warmup, *start.record.cells):
            document = cell.document
            window = start.counters.window(document.t_begin, document.t_end) if document else None
            whole = window if window and window.closed else None
            hits = prefix_cache.hit_rate(start.counters, whole) if whole else None
            found += prefill.samples(cell.requests, cell.chunks, hits)
    return tuple(found)


def _baseline_traits(
    starts: list[StartContext], baseline: str, of: StartRecord
) -> EngineTraits | None:
    """Of the baseline's start that counts for the round of ``of``; None for the baseline itself.

    Where that round has no complete one, of its first complete start, else of its first.  A first
    start, which compiles, is left less KV cache than later ones.
    """
    if of.variant == baseline:
        return None
    mine = [s for s in starts if s.record.variant == baseline]
    complete = [s for s in mine if not s.record.partial]
    same = [s for s in complete if (s.record.round, s.record.role) == (of.round, of.role)]
    return next((s.traits for s in (*same[-1:], *complete, *mine)), None)


def _matched(setup: RunSetup) -> dict[str, str]:
    return {v.name: v.matched_baseline for v in setup.variants if v.matched_baseline}


def _counting(run: RunRecord) -> Mapping[tuple[str, int, str], int]:
    """(variant, round, role) → the start that counts for it: the last complete one."""
    return {
        (s.variant, s.round, s.role): s.start
        for s in sorted(run.starts, key=lambda s: s.start)
        if not s.partial
    }


def _cell(context: CellContext, counting: Mapping[tuple[str, int, str], int]) -> Cell:
    record, start, load = context.cell, context.start.record, context.load
    reasons = validity.check_cell(context)
    verdict = validity.verdict(reasons)
    because = None
    if start.partial:
        because = PARTIAL
    elif counting.get((start.variant, start.round, start.role)) != start.start:
        because = "replaced by a later start"
    elif start.role == DRIFT_ROLE:
        because = DRIFT_ROLE
    elif verdict == "INVALID":
        because = INVALID
    return Cell(
        variant=record.variant,
        load=record.load,
        start=record.start,
        repeat=record.repeat,
        round=start.round,
        role=start.role,
        concurrency=load.concurrency,
        rate=load.rate,
        excluded=because is not None,
        excluded_because=because,
        verdict=verdict,
        reasons=reasons,
        observed=figures.observe(context),
        derived=derive(context, reasons),
        timeline=(
            timeline.tokens_over_time(context.chunks, context.span)
            if context.freezes and context.span
            else []
        ),
    )


def _before_degeneration(
    contexts: Mapping[CellKey, CellContext],
) -> dict[CellKey, pd.DataFrame]:
    """Latencies up to where outputs degenerate; empty if none does."""
    if not any(c.degeneration and c.degeneration.requests for c in contexts.values()):
        return {}
    return {name: context.latencies_before for name, context in contexts.items()}


def _loads(setup: RunSetup, cells: list[Cell]) -> list[LoadFacts]:
    """Planned loads, then those that only the cells know."""
    found = {
        x.name: LoadFacts(name=x.name, requests=x.requests, concurrency=x.concurrency, rate=x.rate)
        for x in setup.loads
    }
    for cell in cells:
        found.setdefault(
            cell.load,
            LoadFacts(
                name=cell.load,
                requests=cell.observed.requests,
                concurrency=cell.concurrency,
                rate=cell.rate,
            ),
        )
    return list(found.values())


def _missing(setup: RunSetup, run: RunRecord, cells: list[Cell]) -> list[MissingCell]:
    """Planned cells of every variant that was started, less those measured on a counting start."""
    started = dict.fromkeys(s.variant for s in run.starts)
    measured = {
        (c.variant, c.role, c.load, c.repeat, None if c.role == DRIFT_ROLE else c.round)
        for c in cells
        if c.excluded_because in (None, INVALID, DRIFT_ROLE)
    }
    planned = [(variant, "round", k) for k in range(setup.rounds) for variant in started]
    if _drift_planned(setup, run):
        planned.append((setup.baseline, DRIFT_ROLE, setup.rounds))
    return [
        MissingCell(variant=variant, round=k, load=load.name, repeat=r, role=role)
        for variant, role, k in planned
        for load in setup.loads
        for r in range(setup.repeats)
        if (variant, role, load.name, r, None if role == DRIFT_ROLE else k) not in measured
    ]


def _drift_planned(setup: RunSetup, run: RunRecord) -> bool:
    """Whether the baseline was to be measured again at the end, in a run that measures it."""
    return setup.baseline_last and any(s.variant == setup.baseline for s in run.starts)


def _unseen_drifts(
    setup: RunSetup, run: RunRecord, cells: Sequence[Cell], loads: Sequence[LoadFacts]
) -> list[Reason]:
    """That the baseline's last start told nothing, by cause."""
    planned = _drift_planned(setup, run)
    return drift.unseen(cells, setup.baseline, [load.name for load in loads], planned)


RUNNER_SWITCH = "VLLM_USE_V2_MODEL_RUNNER"
"""Environment variable that chooses the runner; the server's log does not name one so chosen."""
_RUNNERS = {"0": "V1", "1": "V2"}


def _start(start: StartContext) -> Start:
    record, read = start.record, start.traits
    launch, outcome = record.launch, record.outcome
    ready = launch.ready_at - launch.started_at if launch and launch.ready_at else None
    return Start(
        variant=record.variant,
        start=record.start,
        round=record.round,
        role=record.role,
        state=outcome.state if outcome else "partial",
        error=outcome.error if outcome else None,
        traits=Traits(
            variant=record.variant,
            start=record.start,
            vllm_version=start.version,
            runner=read.runner
            or (_RUNNERS.get(launch.env.get(RUNNER_SWITCH, "")) if launch else None),
            async_scheduling=read.async_scheduling,
            kv_cache_tokens=read.kv_cache_tokens,
            attention_backend=read.attention_backend,
            jit_monitor=read.jit_monitor,
            cuda_graph_tokens=read.graph_tokens,
            cuda_graph_mode=read.graph_mode,
            ready_s=ready,
        ),
    )


def _environment(facts: Mapping[str, object]) -> dict[str, object]:
    kept = ("machine", "gpu", "vllm", "git", "workload", "runtime", "created_at", "fingerprint")
    given = weights.of(facts)
    found = {key: facts[key] for key in kept if facts.get(key) is not None}
    return {**({"weights": given} if given else {}), **found}
