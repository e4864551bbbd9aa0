"""The table of cross-checks: two sources of the same figure, side by side."""

from __future__ import annotations

from specgauge.analyze.document import Summary
from specgauge.report import numbers
from specgauge.report.table import Column, Table, Value


def table(summary: Summary) -> Table:
    """Two sources of the same figure, side by side, for every cell that has both."""
    columns = (
        Column("variant", "variant"),
        Column("load", "load"),
        Column("start", "start", lambda v: numbers.number(v, 0)),
        Column("accepted_server", "accepted, server", lambda v: numbers.number(v, 0)),
        Column("accepted_stream", "accepted, stream", lambda v: numbers.number(v, 0)),
        Column("tail_allowed", "tail allowed", lambda v: numbers.number(v, 0)),
        Column("agrees", "agrees"),
        Column("tokens_per_step", "tokens per step", lambda v: numbers.number(v, 3)),
        Column("identity", "1 + coverage x (length - 1)", lambda v: numbers.number(v, 3)),
        Column("step_ms", "step ms", numbers.milliseconds),
        Column("server_step_ms", "server's step ms", numbers.milliseconds),
        Column("step_agrees", "agrees to 2 %"),
    )
    rows: list[list[Value]] = []
    for c in summary.cells:
        check, step = c.observed.acceptance_check, c.observed.step_check
        if check is None and step is None:
            continue
        rows.append(
            [
                c.variant,
                c.load,
                c.start,
                check.accepted_server if check else None,
                check.accepted_stream if check else None,
                check.tail_allowed if check else None,
                _yes(check.agrees if check else None),
                check.tokens_per_step if check else c.observed.tokens_per_step,
                check.identity if check else None,
                c.observed.step_ms.mean,
                c.observed.step_ms.server_mean,
                _yes(step.agrees if step else None),
            ]
        )
    return Table("checks", "Cross-checks", columns, rows)


def _yes(value: bool | None) -> str:
    return numbers.MISSING if value is None else "yes" if value else "no"
