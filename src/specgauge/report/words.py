"""Sentences of the report that depend on what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from specgauge.analyze.document import Cell, Comparison, Reason, Summary
from specgauge.report import numbers, tables
from specgauge.report.alike import Seen, together
from specgauge.report.places import place

SEVERITIES = ("invalid", "suspect", "unknown", "info")
STARVED, DRIFTED = 0.5, 0.2
"""Share of a cell that a server waited, relative change of the baseline: from here on effects of
the size that speculation has (some tens of per cent) can be nothing but the machine."""
_SHOWN = (None, "INVALID", "drift")
"""``excluded_because`` of cells that a figure or the drift comes from."""
NOTICEABLE = 0.03
"""Relative difference below which a sentence does not call two values different."""


def reasons(summary: Summary) -> list[Seen]:
    """Every reason of the run, those of one kind together, the gravest first."""
    places: dict[tuple[str, str, str], list[str]] = {}
    first: dict[tuple[str, str, str], Reason] = {}
    for where, reason in _all_reasons(summary):
        group = (reason.severity, reason.code, reason.detail)
        first.setdefault(group, reason)
        if where not in places.setdefault(group, []):
            places[group].append(where)
    found = [Seen(reason, tuple(places[group])) for group, reason in first.items()]
    return together(sorted(found, key=lambda s: SEVERITIES.index(s.reason.severity)))


def _all_reasons(summary: Summary) -> Iterator[tuple[str, Reason]]:
    for reason in summary.reasons:
        yield "run", reason
    for where, cell in _of_cells(summary):
        for reason in cell.reasons:
            yield where, reason
    for comparison in (*summary.comparisons, *summary.matched_comparisons):
        for note in comparison.notes:
            if note.code != "FORCED_TRAIT":  # already a reason of the cells
                against = f"{comparison.variant} against {comparison.against} {comparison.load}"
                too_few = note.code == "TOO_FEW"
                yield f"{comparison.variant} {comparison.load}" if too_few else against, note


def _of_cells(summary: Summary) -> Iterator[tuple[str, Cell]]:
    """Each cell and its name, with the start where its variant has several."""
    starts: dict[str, set[int]] = {}
    for cell in summary.cells:
        starts.setdefault(cell.variant, set()).add(cell.start)
    for cell in summary.cells:
        several = len(starts[cell.variant]) > 1
        yield place(cell.variant, cell.load, cell.start if several else None), cell


def status(summary: Summary) -> str:
    """One line: how many cells, which verdicts, what is missing."""
    counted = [c for c in summary.cells if c.excluded_because in _SHOWN]
    parts = []
    for word in ("VALID", "SUSPECT", "INVALID"):
        if count := sum(c.verdict == word for c in counted):
            parts.append(f"{count} {word}")
    text = f"{len(counted)} cells: {', '.join(parts) or 'none measured'}"
    if summary.missing:
        text += f"; {len(summary.missing)} planned cells not measured"
    return text + "."


def failed_starts(summary: Summary, *, replaced: bool = True) -> list[str]:
    """Each start that did not end well, and why where that is known.

    ``replaced``: also those in whose place another one ended well.
    """
    good = {(s.variant, s.round, s.role) for s in summary.starts if s.state == "complete"}
    return [
        f"{s.variant}, start {s.start}: {s.state}" + (f": {s.error}" if s.error else "")
        for s in summary.starts
        if s.state != "complete" and (replaced or (s.variant, s.round, s.role) not in good)
    ]


def disturbed(summary: Summary) -> str | None:
    """What shook the machine so that the figures tell of it and not of the method; else None."""
    drift, waited, stolen, spread = 0.0, 0.0, 0.0, 0.0
    for reason in summary.reasons:
        if reason.code == "DRIFT":
            drift = max(drift, abs(_number(reason, "change")))
    for cell in (c for c in summary.cells if c.excluded_because in _SHOWN):
        for reason in cell.reasons:
            if reason.code == "UNSTEADY" and cell.variant == summary.baseline:
                spread = max(spread, _number(reason, "spread"))
            elif reason.code == "SERVER_STARVED":
                share, part = _number(reason, "share"), _number(reason, "steal_share")
                stolen = max(stolen, part)
                waited = max(waited, share if share > part else 0.0)
    said = []
    if waited >= STARVED:
        said.append(f"a server waited for a CPU for {waited:.0%} of a cell")
    elif stolen >= STARVED:
        said.append(f"the hypervisor took up to {stolen:.0%} of the CPU time of a cell")
    if drift >= DRIFTED:
        said.append(f"the baseline itself changed by {drift:.0%} from its first to its last start")
    elif spread >= DRIFTED:
        said.append(f"starts of the baseline itself differ by {spread:.0%}")
    if not said:
        return None
    return (
        f"DISTURBED: {' and '.join(said)}. These figures tell of the machine, not of the method: "
        "measure again when it is quiet."
    )


def _number(reason: Reason, key: str) -> float:
    value = reason.evidence.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def standing(summary: Summary) -> str | None:
    """What the speed-ups are worth, in a sentence or two; None where they stand by themselves."""
    return " ".join(filter(None, (disturbed(summary), _claimed(summary)))) or None


def _claimed(summary: Summary) -> str | None:
    if not summary.baseline_measured:
        return (
            f"No speed-ups: the baseline ({summary.baseline}) was not measured in this run. "
            "Verdicts of the cells follow."
        )
    claims = [c for c in summary.comparisons if c.headline and c.speedup is not None]
    below = [c for c in claims if c.label is not None]
    if below and len(below) < len(claims):
        named = ", ".join(f"{c.variant} {c.load}" for c in below)
        return f"INDICATIVE (too few rounds for an interval, nothing is claimed): {named}."
    if below:
        rounds, most = min(c.rounds for c in below), max(c.rounds for c in below)
        many = f"{rounds} rounds" if rounds > 1 else "one round"
        if most > rounds:
            many = f"at most {most} rounds"
        return f"INDICATIVE: {many}, so no interval; neither a win nor a loss is claimed."
    return None


def fewer_rounds(summary: Summary) -> str | None:
    """That some speed-ups are not the ratio of the means beside them; None where all are."""
    claims = [c for c in summary.comparisons if c.headline and c.speedup is not None]
    counted = {(c.load, c.round) for c in summary.cells
               if c.variant == summary.baseline and not c.excluded}  # fmt: skip
    most = {load.name: sum(name == load.name for name, _ in counted) for load in summary.loads}
    fewer = dict.fromkeys(c.variant for c in claims if c.rounds < most.get(c.load, 0))
    if not fewer:
        return None
    return (
        f"{', '.join(fewer)}: fewer rounds than the baseline. Their speed-ups are against its "
        "same rounds, not against its mean in this table."
    )


def corrected(summary: Summary) -> list[str]:
    """One sentence for each speed-up that freezes distort: raw, corrected, what a repeat said."""
    found = []
    for c in summary.comparisons:
        if c.basis != "derived" or c.speedup is None:
            continue
        raw = tables.find(summary.comparisons, c.variant, c.load, c.metric)
        said = dict.fromkeys(
            x.derived.confirmation or "not repeated"
            for x in summary.cells
            if x.load == c.load and x.variant in (c.variant, c.against) and x.derived
        )
        found.append(
            f"{c.variant} {c.load}: {numbers.times(raw.speedup if raw else None)} raw, "
            f"{numbers.times(c.speedup)} with freezes taken off ({c.verdict}; {', '.join(said)})."
        )
    return found


def why_step_latency(summary: Summary) -> str | None:
    """Why step latency did not fall while TPOT did, from where this run shows it; else None.

    Only a TPOT speed-up that is VALID, and a gain where there are intervals, says that TPOT fell.
    """
    best: tuple[float, str] | None = None
    for comparison in summary.comparisons:
        if comparison.metric != "tpot" or not _tpot_fell(comparison):
            continue
        base = _figures(summary, summary.baseline, comparison.load)
        mine = _figures(summary, comparison.variant, comparison.load)
        tpot, step, per_step = mine["tpot_ms"], mine["step_ms"], mine["tokens_per_step"]
        base_tpot, base_step = base["tpot_ms"], base["step_ms"]
        if not (tpot and step and per_step and base_tpot and base_step):
            continue
        fell = tpot < base_tpot * (1 - NOTICEABLE)
        if not fell or step < base_step * (1 - NOTICEABLE) or per_step < 1 + NOTICEABLE:
            continue
        text = (
            f"Why step latency did not fall while TPOT did: at {comparison.load} a step of "
            f"{comparison.variant} takes {numbers.milliseconds(step)} ms on average "
            f"({summary.baseline}: {numbers.milliseconds(base_step)} ms) but yields "
            f"{per_step:.2f} tokens: about {numbers.milliseconds(step / per_step)} ms a token "
            f"(TPOT, the mean over requests: {numbers.milliseconds(tpot)} ms instead of "
            f"{numbers.milliseconds(base_tpot)} ms); the gap between chunks is a step, not a token."
        )
        speedup = comparison.speedup or 0.0
        if best is None or speedup > best[0]:
            best = (speedup, text)
    return best[1] if best else None


def _tpot_fell(comparison: Comparison) -> bool:
    """Whether it may be said: VALID, more than nothing, and claimed or of too few rounds."""
    if comparison.verdict != "VALID" or (comparison.speedup or 0.0) * (1 - NOTICEABLE) < 1:
        return False
    return numbers.claim(comparison) == "gain" or comparison.label is not None


def _figures(summary: Summary, variant: str, load: str) -> dict[str, float | None]:
    cells = [c for c in summary.cells if c.variant == variant and c.load == load and not c.excluded]
    return tables.averaged(cells)
