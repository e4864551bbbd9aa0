"""Validity checks: what could make a number untrue.  One check a file, registered here.

A check is a pure function of a cell's context (``CellCheck``) or of a whole comparison or run; it
returns what it saw or nothing.  A code's severity comes from DESIGN's table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason, Verdict
from specgauge.analyze.validity import (
    acceptance_mismatch,
    client_starved,
    co_tenant,
    coalesced,
    cpu_bound,
    degenerate,
    first_call,
    forced_trait,
    foreign_traffic,
    freeze,
    front_end,
    incomplete,
    jit,
    monitor_off,
    not_scraped,
    preempted,
    server_starved,
    short_requests,
    throttled,
    token_mismatch,
    too_few,
)

CellCheck = Callable[[CellContext], Reason | None]

CELL_CHECKS: tuple[CellCheck, ...] = (
    incomplete.check,
    token_mismatch.check,
    foreign_traffic.check,
    co_tenant.check,
    client_starved.check,
    client_starved.check_clock,
    short_requests.check,
    first_call.check,
    jit.check,
    preempted.check,
    front_end.check,
    server_starved.check,
    cpu_bound.check,
    throttled.check,
    coalesced.check,
    acceptance_mismatch.check,
    degenerate.check,
    forced_trait.check,
    too_few.check,
    monitor_off.check,
    not_scraped.check,
)


def check_cell(cell: CellContext) -> list[Reason]:
    """Everything that any check saw in ``cell``: freezes, then in the registry's order."""
    others = [reason for check in CELL_CHECKS if (reason := check(cell)) is not None]
    return [*freeze.check(cell), *others]


def verdict(reasons: Iterable[Reason]) -> Verdict:
    """The worst of invalid and suspect among the reasons that bear on the whole cell."""
    severities = {reason.severity for reason in reasons if reason.scope == "cell"}
    if "invalid" in severities:
        return "INVALID"
    return "SUSPECT" if "suspect" in severities else "VALID"


def worse(*verdicts: Verdict) -> Verdict:
    """The worst of several verdicts."""
    return max(verdicts, key=("VALID", "SUSPECT", "INVALID").index, default="VALID")
