"""INCOMPLETE: failed, missing or retried requests."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason

CODE = "INCOMPLETE"


def check(cell: CellContext) -> Reason | None:
    """Invalid when a planned request did not end well exactly once, or the cell was stopped."""
    document, requests = cell.cell.document, cell.requests
    planned = cell.load.requests
    failed = int((requests["state"] == "failed").sum())
    cut = int((requests["state"] == "cut").sum())
    distinct = int(requests["index"].nunique())
    retried = len(requests) - distinct
    ended = requests[(requests["state"] == "ok") & (requests["output_tokens"] > 0)]
    timeless = int(ended[["t_send", "t_first", "t_last"]].isna().any(axis=1).sum())
    missing = max(planned - distinct, 0)
    seen = [
        f"{count} {what}"
        for count, what in (
            (failed, "failed"),
            (cut, "cut off while running"),
            (missing, "never sent or not recorded"),
            (retried, "sent more than once"),
            (timeless, "ended well, but without their times on record"),
        )
        if count
    ]
    if document is None:
        seen.append("the cell's record was never finished")
    elif document.state != "complete":
        seen.append(document.error or "the cell was stopped early")
    if not seen:
        return None
    errors = requests.loc[requests["state"] == "failed", "error"].dropna()
    first = f" First error: {errors.iloc[0]}." if len(errors) else ""
    return Reason(
        code=CODE,
        severity="invalid",
        detail=f"Of {planned} requests: {'; '.join(seen)}.{first}",
        remedy="Read the end of server.log and locust.log, then run the same command again: the "
        "start is made again.",
        evidence={"planned": planned, "failed": failed, "cut": cut, "missing": missing,
                  "retried": retried},
    )  # fmt: skip
