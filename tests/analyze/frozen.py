"""Stops the clock of a synthetic cell: everything from a moment on comes later."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from synthetic_run import Built, Event

TIMES = ("t_ready", "t_send", "t_sent", "t_first", "t_first_user", "t_last", "t_last_user",
         "t_done", "t_scheduled")  # fmt: skip


def stop(built: Built, at: float, seconds: float) -> Built:
    """``built`` with ``seconds`` of silence that opens at ``at``."""

    def later(times: pd.Series) -> pd.Series:
        return times.where(~(times > at), times + seconds)

    requests, chunks = built.record.requests.copy(), built.record.chunks.copy()
    for column in TIMES:
        requests[column] = later(requests[column])
    for column in ("t", "t_user"):
        chunks[column] = later(chunks[column])
    events = []
    crossing = True
    for event in built.events:
        grown = dict(event.grown)
        moved = event.t > at
        if moved and crossing and ("vllm:inter_token_latency_seconds_sum", "{}") in grown:
            grown["vllm:inter_token_latency_seconds_sum", "{}"] += seconds
        events.append(Event(event.t + seconds if moved else event.t, grown))
    document = built.record.document
    assert document is not None
    document = document.model_copy(update={"t_end": document.t_end + seconds})
    record = replace(built.record, requests=requests, chunks=chunks, document=document)
    return replace(built, record=record, events=events)
