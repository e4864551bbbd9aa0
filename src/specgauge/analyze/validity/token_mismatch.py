"""TOKEN_MISMATCH: three counts of the same tokens that must agree, and outputs cut short."""

from __future__ import annotations

import pandas as pd

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.validity.foreign_traffic import foreign

CODE = "TOKEN_MISMATCH"


def check(cell: CellContext) -> Reason | None:
    """Invalid when token ids, usage and the server's counter disagree, or an output is short.

    The server's counter is compared only when every request ended well (else tokens of a cut
    request are counted on one side only), a scrape lies on either side, and nobody else's
    requests are in it (that is FOREIGN_TRAFFIC).
    """
    ok = cell.requests[cell.requests["state"] == "ok"]
    if ok.empty:
        return None
    ids = int(ok["output_tokens"].sum())
    seen: list[str] = []
    evidence: dict[str, float | int | str | None] = {"token_ids": ids}
    told = ok[ok["usage_completion_tokens"].notna()]
    usage = int(told["usage_completion_tokens"].sum()) if len(told) else None
    evidence["usage"] = usage
    differ = int((told["usage_completion_tokens"] != told["output_tokens"]).sum())
    if differ:
        seen.append(
            f"{differ} of {len(told)} requests: {int(told['output_tokens'].sum())} token ids "
            f"streamed, {usage} in usage"
        )
    streamed = _per_request(cell.chunks).reindex(ok["index"]).fillna(0).to_numpy()
    lost = int((streamed != ok["output_tokens"].to_numpy(dtype="int64")).sum())
    if lost:
        seen.append(f"{lost} requests: the chunks do not add up to the request's tokens")
    prompts = ok[ok["usage_prompt_tokens"].notna()]
    if wrong := int((prompts["usage_prompt_tokens"] != prompts["prompt_tokens"]).sum()):
        seen.append(f"{wrong} prompts: the server counted another length than was sent")
    short = ok[(ok["output_tokens"] < ok["max_tokens"]) & (ok["finish_reason"] != "stop")]
    if len(short):
        reasons = ", ".join(sorted({str(r) for r in short["finish_reason"]}))
        seen.append(f"{len(short)} outputs shorter than asked, finish_reason {reasons}")
    if over := int((ok["output_tokens"] > ok["max_tokens"]).sum()):
        seen.append(f"{over} outputs longer than asked")
    counted = _server_tokens(cell)
    evidence["server"] = counted
    if counted is not None and counted != ids:
        seen.append(f"{ids} token ids streamed, the server generated {counted}")
    if not seen:
        return None
    return Reason(
        code=CODE,
        severity="invalid",
        detail="; ".join(seen) + ".",
        remedy="Token ids, usage and vllm:generation_tokens must agree. Check that nothing else "
        "uses the server and that no proxy sits between; then run again.",
        evidence=evidence,
    )


def _per_request(chunks: pd.DataFrame) -> pd.Series:
    return chunks.groupby("request")["tokens"].sum()


def _server_tokens(cell: CellContext) -> int | None:
    """Growth of the server's counter over the cell, where it can be compared."""
    window = cell.window
    if window is None or not window.closed or (cell.requests["state"] != "ok").any():
        return None
    if (found := foreign(cell)) is not None and found.present:
        return None
    grown = cell.start.counters.delta("vllm:generation_tokens_total", window)
    return None if grown is None else round(grown)
