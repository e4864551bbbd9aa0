"""THROTTLED: the card's clocks were held down, or differ between starts of the same variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Cell, Reason
from specgauge.analyze.telemetry import slowdown_share
from specgauge.gpu import throttle

CODE = "THROTTLED"

SHARE = 0.01
"""Of the samples with a slowdown from which it is suspect: what FREEZE calls noticeable; in a cell
of less than twenty seconds that is a single sample."""
CAP_NOTED = 0.05
"""Of the samples at the power cap from which it is told: a cap that is touched now and then is how
such cards work."""
LIMIT = 0.03
"""Clocks of two starts that differ by more: three times what starts of one server differ by."""


def check(cell: CellContext) -> Reason | None:
    """Suspect with a thermal or hardware slowdown; info at a steady power cap, with the clocks."""
    span = cell.span
    if not cell.on_gpu or span is None:
        return None
    telemetry = cell.start.telemetry
    shares = telemetry.throttled(span.t0, span.t1)
    clocks = telemetry.values("sm_clock_mhz", span.t0, span.t1)
    mean = float(clocks.mean()) if clocks.size else None
    slow, capped = slowdown_share(shares), shares.get(throttle.POWER_CAP, 0.0)
    told = {bit: s for bit, s in shares.items() if bit & (throttle.SLOWDOWN | throttle.POWER_CAP)}
    if slow < SHARE and capped < CAP_NOTED:
        return None
    named = ", ".join(
        f"{throttle.words(bit)[0]} in {share:.0%} of the samples" for bit, share in told.items()
    )
    at = f" Mean SM clock {mean:.0f} MHz{_of_highest(cell)}." if mean is not None else ""
    return Reason(
        code=CODE,
        severity="suspect" if slow >= SHARE else "info",
        detail=f"{named[0].upper()}{named[1:]}.{at}",
        remedy="Cool the card or look at the machine's power supply, then measure again."
        if slow >= SHARE
        else "None needed: read the clocks beside the row. Part of a gain or loss may be clocks; "
        "locking them below the cap takes that out.",
        evidence={"slowdown_share": slow, "power_cap_share": capped, "sm_clock_mhz": mean},
    )


def _of_highest(cell: CellContext) -> str:
    gpu = cell.setup.facts.get("gpu")
    highest = gpu.get("max_sm_clock_mhz") if isinstance(gpu, dict) else None
    return f" of {highest}" if highest else ""


def between_starts(cells: Sequence[Cell], left_out: str) -> dict[int, Reason]:
    """Position in ``cells`` → suspect, where starts of one variant ran at other clocks.

    Args:
        cells: of a whole run.
        left_out: ``excluded_because`` of cells that are not looked at: their start broke off.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for at, cell in enumerate(cells):
        if cell.excluded_because != left_out and _clock(cell) is not None:
            groups.setdefault((cell.variant, cell.load), []).append(at)
    found: dict[int, Reason] = {}
    for (variant, load), members in groups.items():
        by_start: dict[int, list[float]] = {}
        for at in members:
            by_start.setdefault(cells[at].start, []).append(_clock(cells[at]) or 0.0)
        means = {start: sum(clocks) / len(clocks) for start, clocks in by_start.items()}
        reason = _differ(variant, load, means)
        if reason is not None:
            found.update(dict.fromkeys(members, reason))
    return found


def _differ(variant: str, load: str, means: Mapping[int, float]) -> Reason | None:
    low, high = min(means.values()), max(means.values())
    if len(means) < 2 or high <= low * (1 + LIMIT):
        return None
    listed = ", ".join(f"start {start}: {clock:.0f}" for start, clock in sorted(means.items()))
    return Reason(
        code=CODE,
        severity="suspect",
        detail=f"Mean SM clock of {variant} at {load} differs by {high / low - 1:.1%} between its "
        f"starts ({listed} MHz): the same work did not meet the same card.",
        remedy="Let the card reach its temperature first, lock its clocks (nvidia-smi -lgc), or "
        "measure at another time.",
        evidence={"lowest_mhz": low, "highest_mhz": high},
    )


def _clock(cell: Cell) -> float | None:
    return cell.observed.gpu.sm_clock_mhz if cell.observed.gpu else None
