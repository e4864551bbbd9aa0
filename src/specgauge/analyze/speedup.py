"""Speed-ups of variants over the baseline: per round, then over rounds, with Holm's correction.

The start is the unit: repeats of a load on one server are averaged (in the logarithm) before the
round's ratio is taken, start k of the variant against start k of the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from specgauge.analyze import claims, stats
from specgauge.analyze.degenerate import MIN_BEFORE
from specgauge.analyze.derived import FREEZE, taken_off
from specgauge.analyze.document import Cell, Comparison, Reason
from specgauge.analyze.fingerprint import Fingerprint
from specgauge.analyze.pairing import (
    CellKey,
    RoundRatio,
    apart,
    key,
    paired,
    prompts_paired,
    throughput_rounds,
    tpot_rounds,
)
from specgauge.analyze.records import CellRecord
from specgauge.analyze.validity import (
    cache_warm,
    compile_cache,
    copied_rounds,
    degenerate,
    lossy,
    too_few,
    unlike,
    worse,
)
from specgauge.record.documents import Launch, Margins

INDICATIVE = "INDICATIVE"
KEPT_NOTES = frozenset(
    {
        unlike.CODE,
        cache_warm.CODE,
        compile_cache.CODE,
        lossy.CODE,
        degenerate.CODE,
        copied_rounds.CODE,
    }
)
"""What a comparison with a matched baseline still has to say."""


@dataclass(frozen=True)
class Evidence:
    """What is known of the cells beside their figures."""

    fingerprints: Mapping[CellKey, Fingerprint] = field(default_factory=dict)
    launches: Mapping[tuple[str, int], Launch | None] = field(default_factory=dict)
    """By variant and start."""
    configs: Mapping[str, dict[str, Any] | None] = field(default_factory=dict)
    """Speculative config of each variant."""
    records: Mapping[CellKey, CellRecord] = field(default_factory=dict)
    latencies_before: Mapping[CellKey, pd.DataFrame] = field(default_factory=dict)
    """``latencies`` up to where outputs degenerate, of runs in which some do."""
    margins: Mapping[tuple[str, int], Margins | None] = field(default_factory=dict)
    """By variant and start."""


NOTHING_KNOWN = Evidence()


def compare(
    cells: Sequence[Cell],
    latencies: Mapping[CellKey, pd.DataFrame],
    baseline: str,
    drift: Mapping[str, Reason],
    evidence: Evidence = NOTHING_KNOWN,
) -> list[Comparison]:
    """Every variant under every load against ``baseline``.

    ``latencies``: ``latency.per_request`` of each cell.  ``drift``: per load, what was seen of
    it.  Open loads have no throughput ratio (it equals the offered rate).  A comparison without a
    single usable round is kept, with null ratio and the verdict of its cells.
    """
    found: list[Comparison] = []
    for variant, load in dict.fromkeys((c.variant, c.load) for c in cells):
        if variant != baseline:
            found += _against(variant, load, baseline, cells, latencies, drift.get(load), evidence)
    return claims.corrected(found)


def compare_matched(
    cells: Sequence[Cell],
    latencies: Mapping[CellKey, pd.DataFrame],
    matched: Mapping[str, str],
    drift: Mapping[str, Reason],
    evidence: Evidence = NOTHING_KNOWN,
) -> list[Comparison]:
    """Variants against the baseline that shares their runner and scheduling.

    ``matched``: variant → its matched baseline.  ``drift``: of the run's baseline, by load: what
    changed the machine changed it for these too.  No headline claims.
    """
    found: list[Comparison] = []
    for variant, load in dict.fromkeys((c.variant, c.load) for c in cells):
        if variant in matched:
            against = matched[variant]
            found += _against(variant, load, against, cells, latencies, drift.get(load), evidence)
    plain = [
        c.model_copy(
            update={"headline": False, "notes": [n for n in c.notes if n.code in KEPT_NOTES]}
        )
        for c in found
    ]
    return claims.corrected(plain)


def _against(
    variant: str,
    load: str,
    baseline: str,
    cells: Sequence[Cell],
    latencies: Mapping[CellKey, pd.DataFrame],
    drift: Reason | None,
    evidence: Evidence,
) -> list[Comparison]:
    """The comparisons of one variant under one load; none without a baseline cell that counts."""
    mine = [c for c in cells if c.variant == variant and c.load == load]
    base = [c for c in cells if c.variant == baseline and c.load == load]
    if all(c.excluded for c in base):
        return []
    is_open = mine[0].rate is not None
    found = []
    if not is_open:
        rounds = throughput_rounds(mine, base)
        found.append(_comparison("output_tok_s", True, mine, base, rounds, drift))
        corrected = [_corrected(c) for c in mine], [_corrected(c) for c in base]
        if any(_is_frozen(c) for c in (*mine, *base)):
            rounds = throughput_rounds(*corrected)
            seen = _comparison("output_tok_s", False, *corrected, rounds, drift)
            found.append(seen.model_copy(update={"basis": "derived"}))
    rounds = tpot_rounds(mine, base, latencies)
    tpot = _comparison("tpot", is_open, mine, base, rounds, drift)
    if unpaired := too_few.pairs(*prompts_paired(rounds, latencies)):
        tpot = tpot.model_copy(update={"notes": [*tpot.notes, unpaired]})
    found.append(tpot)
    seen_of_both = _unlike(paired(mine, base), evidence)
    if degraded := _degenerate(mine, base, rounds, latencies, evidence):
        seen_of_both.append(degraded)
    return [_with_reasons(c, seen_of_both, mine[0].concurrency == 1) for c in found]


def _unlike(rounds: Sequence[tuple[list[Cell], list[Cell]]], evidence: Evidence) -> list[Reason]:
    """What keeps the two sides from being alike."""
    pairs = [p for ours, theirs in rounds for p in zip(ours, theirs, strict=True)]
    prints = evidence.fingerprints
    known = [
        (prints[key(a)], prints[key(b)]) for a, b in pairs if key(a) in prints and key(b) in prints
    ]
    starts = dict.fromkeys(((a.variant, a.start), (b.variant, b.start)) for a, b in pairs)
    launches = [(evidence.launches.get(a), evidence.launches.get(b)) for a, b in starts]
    config = evidence.configs.get(pairs[0][0].variant) if pairs else None
    method = (config or {}).get("method")
    found = (
        unlike.check(known),
        cache_warm.check(pairs, method),
        compile_cache.check(launches),
        _lossy(pairs, config, evidence),
    )
    return [reason for reason in found if reason is not None]


def _degenerate(
    mine: Sequence[Cell],
    base: Sequence[Cell],
    rounds: Sequence[RoundRatio],
    latencies: Mapping[CellKey, pd.DataFrame],
    evidence: Evidence,
) -> Reason | None:
    """Whether the TPOT speed-up (``rounds``) is another one before outputs degenerate.

    A side that drafts nothing gains nothing by repetition and is taken whole: cut at its own loops
    it would be left with its first tokens, which others' prefill slows.  Where hardly anything lies
    before, the cells say so, and no speed-up is made of it.
    """
    drafting = [c for c in (*mine, *base) if evidence.configs.get(c.variant) and not c.excluded]
    known = evidence.latencies_before
    if not drafting or any(key(c) not in known for c in drafting):
        return None
    if any(_share_before(latencies[key(c)], known[key(c)]) < MIN_BEFORE for c in drafting):
        return None
    before = {**latencies, **{key(c): known[key(c)] for c in drafting}}
    whole = stats.ratio([r.log_ratio for r in rounds])
    cut = stats.ratio([r.log_ratio for r in tpot_rounds(mine, base, before)])
    return degenerate.check_speedup(whole.value if whole else None, cut.value if cut else None)


def _share_before(whole: pd.DataFrame, before: pd.DataFrame) -> float:
    """Of the tokens after first chunks, those before outputs degenerate."""
    counts = [float((f["output_tokens"] - f["first_tokens"]).sum()) for f in (before, whole)]
    return counts[0] / counts[1] if counts[1] else 0.0


def _lossy(
    pairs: Sequence[tuple[Cell, Cell]], config: dict[str, Any] | None, evidence: Evidence
) -> Reason | None:
    """Greedy outputs against the baseline's, and the baseline's starts against its first."""
    records = evidence.records
    known = [(records[key(a)], records[key(b)]) for a, b in pairs
             if key(a) in records and key(b) in records]  # fmt: skip
    if not known or not lossy.applies([a for a, _ in known], config):
        return None
    base = known[0][1]
    siblings = [
        c for c in records.values()
        if (c.variant, c.load, c.repeat) == (base.variant, base.load, base.repeat)
    ]  # fmt: skip
    first = min(siblings, key=lambda c: c.start)
    return lossy.check(
        [(a, b, evidence.margins.get((a.variant, a.start))) for a, b in known],
        [
            (c, first, evidence.margins.get((c.variant, c.start)))
            for c in siblings
            if c.start != first.start
        ],
    )


def _with_reasons(comparison: Comparison, reasons: Sequence[Reason], alone: bool) -> Comparison:
    """``comparison`` with what was seen of its sides; the gravest of it enters its verdict.

    A warm cache changes TTFT and throughput, and not TPOT where requests come one by one; with
    others in the batch, what is left to read lengthens their steps.
    """
    immune = comparison.metric == "tpot" and alone
    bearing = [r for r in reasons if not (immune and r.code == cache_warm.CODE)]
    severities = {r.severity for r in bearing}
    verdict = comparison.verdict
    if "invalid" in severities:
        verdict = "INVALID"
    elif "suspect" in severities:
        verdict = worse(verdict, "SUSPECT")
    tainting = [r.code for r in bearing if r.severity in ("invalid", "suspect")]
    return comparison.model_copy(
        update={
            "verdict": verdict,
            "reasons": list(dict.fromkeys([*comparison.reasons, *tainting])),
            "notes": [*comparison.notes, *bearing],
        }
    )


def _is_frozen(cell: Cell) -> bool:
    """Whether its freezes are worth a correction."""
    suspect = any(r.code == FREEZE and r.severity == "suspect" for r in cell.reasons)
    return suspect and not cell.excluded


def _corrected(cell: Cell) -> Cell:
    """``cell`` as its freezes taken off leave it: throughput, verdict, reasons."""
    if cell.derived is None:
        return cell
    figure = {"output_tok_s": cell.derived.output_tok_s}
    kept = [r for r in cell.reasons if not taken_off(r, cell.reasons)]
    if cell.derived.confirmation != "CONFIRMED ONE-OFF":
        kept += [r for r in cell.reasons if r.code == FREEZE]
    return cell.model_copy(
        update={
            "observed": cell.observed.model_copy(update=figure),
            "verdict": cell.derived.verdict,
            "reasons": kept,
        }
    )


def _comparison(
    metric: str,
    headline: bool,
    mine: Sequence[Cell],
    base: Sequence[Cell],
    rounds: Sequence[RoundRatio],
    drift: Reason | None,
) -> Comparison:
    measured = apart(rounds)
    copied = copied_rounds.check(len(measured), len(rounds))
    ratio = stats.ratio([r.log_ratio for r in measured])
    used = [c for r in rounds for c in r.cells]
    judged = used or [c for c in (*mine, *base) if c.verdict == "INVALID"] or [*mine, *base]
    tainting = [r.code for c in judged for r in c.reasons
                if r.scope == "cell" and r.severity in ("invalid", "suspect")]  # fmt: skip
    verdict = worse(*(c.verdict for c in judged))
    if drift and used:
        verdict = worse(verdict, "SUSPECT")
        tainting.append(drift.code)
    if copied:
        verdict = worse(verdict, "SUSPECT")
        tainting.append(copied.code)
    notes = {r.detail: r for c in mine if not c.excluded for r in c.reasons
             if r.code == "FORCED_TRAIT"}  # fmt: skip
    each = [math.exp(r.log_ratio) for r in measured]
    few = too_few.rounds(each) if used else _unpaired(mine, base)
    return Comparison(
        variant=mine[0].variant,
        against=base[0].variant,
        load=mine[0].load,
        metric="output_tok_s" if metric == "output_tok_s" else "tpot",
        basis="observed",
        speedup=ratio.value if ratio else None,
        low=ratio.low if ratio else None,
        high=ratio.high if ratio else None,
        rounds=len(measured),
        per_round=each,
        verdict=verdict,
        reasons=list(dict.fromkeys(tainting)),
        headline=headline,
        p=ratio.p if ratio else None,
        label=INDICATIVE if few and used else None,
        notes=[*notes.values(), *(r for r in (copied, few) if r)],
    )


def _unpaired(mine: Sequence[Cell], base: Sequence[Cell]) -> Reason | None:
    """Why no round compares, where cells that count are there on both sides."""
    sides = [sorted({c.round for c in side if not c.excluded}) for side in (mine, base)]
    return too_few.no_common_round(*sides) if all(sides) else None
