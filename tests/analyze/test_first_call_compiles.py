"""FIRST_CALL names a compile before the first token only if its line came before that token."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contexts import CLEAN, context, reason
from synthetic_run import Plant, build_cell

from specgauge.analyze.records import LogLine

FIRST_TOKEN_S = 1.8
LINE = "Triton kernel JIT compilation during inference: {}. This causes a latency spike"
BEFORE = " Compiled before its first token, by the log: {}."
LATER = " Compiled later in it, by the log: {}."


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([(1.0, "a")], BEFORE.format("a")),
        ([(1.804, "a")], LATER.format("a")),
        ([(1.885, "a"), (1.9, "b"), (2.0, "a")], LATER.format("a, b")),
        ([(0.5, "a"), (0.7, "b"), (1.9, "c")], BEFORE.format("a, b") + LATER.format("c")),
        ([(-1.0, "of the start"), (21.0, "of the repeat")], ""),
    ],
)
def test_by_when_the_line_came(lines: list[tuple[float, str]], told: str) -> None:
    """Seconds after the request was sent."""
    warm = [
        build_cell(Plant(requests=1, ttft_s=ttft), load="warmup", repeat=i, t0=900.0 + 20 * i)
        for i, ttft in enumerate((FIRST_TOKEN_S, 0.1))
    ]
    sent = float(warm[0].record.requests["t_send"].iloc[0])
    first = float(warm[0].record.requests["t_first"].iloc[0])
    assert first - sent == pytest.approx(FIRST_TOKEN_S)
    found = context(build_cell(CLEAN), warmup=tuple(w.record for w in warm), first=True)
    log = tuple(LogLine(sent + t, "O", LINE.format(name)) for t, name in lines)
    start = replace(found.start, record=replace(found.start.record, log=log))
    seen = reason(replace(found, start=start), "FIRST_CALL")
    assert seen.detail.endswith("it was a warm-up request." + told)
