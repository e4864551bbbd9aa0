"""JIT: a kernel was compiled while requests ran and nothing stood still."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "JIT"


def check(cell: CellContext) -> Reason | None:
    """Info: the same warning came once with 417 ms, once with 23 ms (disk cache hit).

    A line inside a freeze is that freeze's cause, and is named there.
    """
    document = cell.cell.document
    if document is None:
        return None
    caused = {line for freeze in cell.freezes for line in cell.jit_lines_in(freeze)}
    alone = [
        line
        for line in cell.start.jit_lines
        if document.t_begin <= line.t <= document.t_end and line not in caused
    ]
    if not alone:
        return None
    kernels = list(dict.fromkeys(line.name for line in alone))
    return Reason(
        code=CODE,
        severity="info",
        detail=f"Compiled during the cell, without a freeze: {', '.join(kernels)} "
        f"({len(alone)} line{'s' if len(alone) > 1 else ''}).",
        remedy=None,
        t0=cell.since_begin(alone[0].t),
        t1=cell.since_begin(alone[-1].t),
        evidence={"lines": len(alone), "kernels": ", ".join(kernels)},
    )
