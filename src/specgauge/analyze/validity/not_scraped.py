"""NOT_SCRAPED: no counters of the server over the whole cell, so nothing was checked by them."""

from __future__ import annotations

from specgauge.analyze.acceptance import ACCEPTED, DRAFT_TOKENS, DRAFTS
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "NOT_SCRAPED"

COUNTED = (
    "vllm:request_success_total",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
)
"""What FOREIGN_TRAFFIC and TOKEN_MISMATCH compare with; every version of vLLM has them."""
DRAFTED = (DRAFTS, DRAFT_TOKENS, ACCEPTED)
"""What acceptance is computed from."""


def check(cell: CellContext) -> Reason | None:
    """Unknown where the scrapes do not bracket the cell, or lack a counter that checks need."""
    document = cell.cell.document
    if document is None:
        return None
    scrapes = cell.start.counters.scrapes
    window = cell.whole_window
    if window is not None:
        needed = (*COUNTED, *(DRAFTED if cell.variant.speculative_config else ()))
        lacking = [n for n in needed if cell.start.counters.delta(n, window) is None]
        if not lacking:
            return None
        seen = f"The scrapes of /metrics have no number for {', '.join(lacking)}"
    elif not scrapes.size:
        seen = "Nothing was scraped from the server's /metrics (no rows in metrics.parquet)"
    elif scrapes[0] > document.t_begin:
        late = scrapes[0] - document.t_begin
        seen = f"The scrapes of /metrics begin {late:.1f} s after the cell's begin"
    else:
        early = document.t_end - scrapes[-1]
        seen = f"The scrapes of /metrics stop {early:.1f} s before the cell's end"
    return Reason(
        code=CODE,
        severity="unknown",
        detail=f"{seen}: requests and tokens were not compared with the server's own count "
        "(FOREIGN_TRAFFIC, the third count of TOKEN_MISMATCH), and figures that come from its "
        "counters (acceptance, coverage, prefix-cache hits) are left empty.",
        remedy="See that /metrics answers on the server's own address until the load has ended, "
        "then run again.",
    )
