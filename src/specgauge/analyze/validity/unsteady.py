"""UNSTEADY: the same server, started again, ran at another pace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specgauge.analyze import slower_cpu
from specgauge.analyze.document import Cell, Reason, Severity
from specgauge.analyze.validity.drift import is_open, pace
from specgauge.analyze.validity.freeze import CODE as FREEZE
from specgauge.analyze.validity.server_starved import CODE as SERVER_STARVED

CODE = "UNSTEADY"

NOTED = 0.10
"""Highest over lowest start, less one, from which it is told.  Starts of one server differ by about
1 % on a quiet machine; the interval over rounds holds what scatters more."""
LIMIT = 0.20
"""From here on a start's luck moves the figure as far as what variants are compared for."""


def between_starts(cells: Sequence[Cell]) -> dict[int, Reason]:
    """Position in ``cells`` → what its variant's starts under its load differ by, where they do.

    Args:
        cells: of a whole run.  Looked at are those that count (the baseline's last start is
            DRIFT's): throughput with confirmed freezes taken off, of an open load TPOT, as DRIFT
            has it.  A freeze that is not taken off explains its cell's pace, and has a verdict of
            its own.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for at, cell in enumerate(cells):
        if not cell.excluded and not _frozen(cell):
            groups.setdefault((cell.variant, cell.load), []).append(at)
    found: dict[int, Reason] = {}
    for (_, load), members in groups.items():
        by_start: dict[int, list[Cell]] = {}
        for at in members:
            by_start.setdefault(cells[at].start, []).append(cells[at])
        by_start = _same_repeats(by_start)
        paces = {start: pace(mine) for start, mine in sorted(by_start.items())}
        unit = "ms a token" if is_open(cells, load) else "tok/s"
        reason = _differ({k: p for k, p in paces.items() if p}, unit)
        if reason is not None:
            reason = _with_cpus(reason, by_start, paces, is_open(cells, load))
            found.update(dict.fromkeys(members, reason))
    return found


def _same_repeats(by_start: Mapping[int, list[Cell]]) -> dict[int, list[Cell]]:
    """Of each start the repeats that all of them have: a later one may find a warm cache.

    Without a repeat in common nothing is compared.
    """
    common = set.intersection(*({c.repeat for c in mine} for mine in by_start.values()))
    return {start: [c for c in mine if c.repeat in common] for start, mine in by_start.items()}


def _frozen(cell: Cell) -> bool:
    taken_off = cell.derived is not None and cell.derived.verdict == "VALID"
    return not taken_off and _suspect(cell, FREEZE)


def _suspect(cell: Cell, code: str) -> bool:
    return any(r.code == code and r.severity == "suspect" for r in cell.reasons)


def _differ(paces: dict[int, float], unit: str) -> Reason | None:
    if len(paces) < 2:
        return None
    low, high = min(paces.values()), max(paces.values())
    spread = high / low - 1
    if spread < NOTED:
        return None
    severity: Severity = "suspect" if spread >= LIMIT else "info"
    return Reason(
        code=CODE,
        severity=severity,
        detail=f"The same server, started again, differs by {spread:.0%}: at its lowest "
        f"{low:,.1f}, at its highest {high:,.1f} {unit}.",
        remedy="Longer cells, more rounds, a quieter machine; see whether its CPUs are shared "
        "(SERVER_STARVED). Read the interval, not the mean.",
        evidence={
            "lowest": low,
            "highest": high,
            "spread": spread,
            **{f"start_{start}": value for start, value in paces.items()},
        },
    )


def _with_cpus(
    reason: Reason,
    by_start: Mapping[int, Sequence[Cell]],
    paces: Mapping[int, float | None],
    by_time: bool,
) -> Reason:
    """``reason`` with what the accounts of its slowest and fastest start say of the CPUs' speed.

    Args:
        paces: of each start; ``by_time``: the higher the slower.
    """
    ordered = sorted((k for k, p in paces.items() if p), key=lambda k: paces[k] or 0.0)
    fast, slow = (ordered[0], ordered[-1]) if by_time else (ordered[-1], ordered[0])
    starved = any(_suspect(cell, SERVER_STARVED) for cell in by_start[slow])
    seen = slower_cpu.between(by_start[slow], by_start[fast], starved)
    if not (said := slower_cpu.sentence(seen)):
        return reason
    update = {
        "detail": f"{reason.detail} {said}",
        "evidence": {**reason.evidence, **slower_cpu.evidence(seen)},
    }
    return reason.model_copy(update=update)
