"""CO_TENANT: somebody else's process was on the same GPU while the cell was measured."""

from __future__ import annotations

import numpy as np

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.telemetry import Looks

CODE = "CO_TENANT"

LOOK_S = 1.0
"""Between two looks: a process seen in the last one before the cell was perhaps still there."""
MAX_GAP_S = 3.0
"""Between two looks before the time between them counts as not watched: two looks missed."""


def check(cell: CellContext) -> Reason | None:
    """Invalid if any look shows another's process; unknown where that cannot be told.

    Nothing of a run without a GPU.
    """
    document = cell.cell.document
    if not cell.on_gpu or document is None:
        return None
    telemetry, span = cell.start.telemetry, cell.span
    if telemetry.empty:
        return _unknown(
            "No telemetry of the GPU was recorded: neither who else was on it nor throttling was "
            "watched, and energy is not known."
        )
    t0, t1 = (span.t0, span.t1) if span else (document.t_begin, document.t_end)
    looks = telemetry.looks(t0 - LOOK_S, t1 + LOOK_S)
    count = looks.times.size
    seen = int((looks.other > 0).sum())
    if seen:
        first = float(looks.times[looks.other > 0][0])
        last = float(looks.times[looks.other > 0][-1])
        return Reason(
            code=CODE,
            severity="invalid",
            detail=f"Another process was on the GPU in {seen} of {count} looks (one a second): "
            f"{_listed(looks)}.",
            remedy="It shares the memory bandwidth that decoding lives on. Measure again when the "
            "card is yours alone: --wait-gpu MINUTES waits for that before the run.",
            t0=cell.since_begin(first),
            t1=cell.since_begin(last),
            evidence={"looks": count, "with_others": seen, "most": float(looks.other.max())},
        )
    if not count:
        return _unknown("The driver did not say who is on the GPU.")
    hidden = int((looks.unknown > 0).sum())
    if hidden:
        few, many = int(looks.unknown.min()), int(looks.unknown.max())
        number = f"{many}" if few == many else f"{few} to {many}"
        return _unknown(
            f"In {hidden} of {count} looks {number} processes were on the GPU whose owner cannot "
            f"be told from here (in a container they have other numbers): {_listed(looks)}."
        )
    edges = np.concatenate(([t0], looks.times, [t1]))
    gap = float(np.diff(np.sort(edges)).max())
    if gap > MAX_GAP_S:
        return _unknown(f"For {gap:.1f} s of the cell nobody looked at who is on the GPU.")
    return None


def _listed(looks: Looks) -> str:
    return " | ".join(looks.words[:3]) or "not named"


def _unknown(detail: str) -> Reason:
    return Reason(
        code=CODE,
        severity="unknown",
        detail=detail,
        remedy="Run where the driver's process numbers are the system's own (not in a container "
        "without pid: host), or make sure by other means that nobody else uses the card.",
    )
