"""FOREIGN_TRAFFIC: somebody else's requests are named as such, ended or not; a miscount is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest
from contexts import CLEAN, changed, codes, context, reason
from synthetic_run import Built, Plant, build_cell

from specgauge.analyze.context import CellContext, StartContext
from specgauge.analyze.counters import Counters
from specgauge.record.schema import METRICS

OTHER = '{"engine":"1"}'
GENERATED, PROMPTS = "vllm:generation_tokens_total", "vllm:prompt_tokens_total"
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"

FIRST, INSIDE, END = 0.0, 2.0, 10_000.0
"""Seconds after the scrapes begin: a second before the cell, in it, and as it ends."""


def served(
    built: Built, rows: Sequence[tuple[float, str, float]], requests: pd.DataFrame | None = None
) -> CellContext:
    """The cell with rows (when, series, value) of somebody else in its scrapes."""
    cell = context(built, requests=requests)
    metrics = cell.start.record.metrics
    assert cell.cell.document is not None
    begin, end = metrics["t"].min(), cell.cell.document.t_end
    more = [(min(begin + at, end), name, OTHER, value) for at, name, value in rows]
    # a counter grows from 0: unknown before its first row
    known = {name for at, name, _ in rows if at == FIRST}
    more += [(begin, name, OTHER, 0.0) for name in {n for _, n, _ in rows} - known]
    metrics = pd.concat([pd.DataFrame(more, columns=METRICS.names), metrics])
    start = replace(cell.start.record, metrics=metrics)
    return replace(cell, start=StartContext(start, Counters(metrics), cell.start.traits))


RUNS_ON = [(INSIDE, GENERATED, 40.0), (INSIDE, PROMPTS, 90.0), (INSIDE, RUNNING, 1.0)]
RAN_BEFORE = [(INSIDE, GENERATED, 40.0), (FIRST, RUNNING, 1.0), (END, RUNNING, 0.0)]
RUNS_THROUGH = [(INSIDE, GENERATED, 40.0), (FIRST, RUNNING, 1.0)]
WAITS = [(INSIDE, GENERATED, 40.0), (INSIDE, WAITING, 2.0)]
GIVEN_UP = [(INSIDE, GENERATED, 7.0), (INSIDE, PROMPTS, 90.0)]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            RUNS_ON,
            "read 90 prompt tokens that it did not send and had requests in flight (1 after",
        ),
        (RAN_BEFORE, "had requests in flight (1 before its first request)"),
        (RUNS_THROUGH, "in flight (1 before its first request, 1 after its last)"),
        (WAITS, "had requests in flight (2 after its last)"),
        (GIVEN_UP, "generated 7 tokens that this load did not ask for, and read 90 prompt tokens"),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_request_whose_end_was_not_counted_is_foreign_all_the_same(
    rows: list[tuple[float, str, float]], words: str, concurrency: int
) -> None:
    cell = served(build_cell(replace(CLEAN, concurrency=concurrency)), rows)
    seen = reason(cell, "FOREIGN_TRAFFIC")
    assert seen.severity == "invalid"
    assert words in seen.detail
    assert "TOKEN_MISMATCH" not in codes(cell)


def test_under_an_open_load_too() -> None:
    cell = served(build_cell(Plant(requests=20, concurrency=None, rate=2.0)), RUNS_ON)
    assert reason(cell, "FOREIGN_TRAFFIC").evidence["output_tokens"] == 40
    assert "TOKEN_MISMATCH" not in codes(cell)


def test_tokens_without_a_trace_of_a_request_are_a_miscount() -> None:
    at_rest = [(INSIDE, GENERATED, 5.0), (FIRST, RUNNING, 0.0), (FIRST, WAITING, 0.0)]
    for rows in (at_rest, at_rest[:1]):
        cell = served(build_cell(CLEAN), rows)
        assert "the server generated 1285" in reason(cell, "TOKEN_MISMATCH").detail
        assert "FOREIGN_TRAFFIC" not in codes(cell)


def test_a_prompt_that_the_server_lengthened_is_nobody_elses() -> None:
    """A token more in each of 20 prompts by usage and by the counter: ours, and miscounted."""
    built = build_cell(CLEAN)
    requests = built.record.requests.assign(usage_prompt_tokens=CLEAN.prompt_tokens + 1)
    cell = served(built, [(INSIDE, PROMPTS, 20.0), (INSIDE, GENERATED, 5.0)], requests)
    assert "20 prompts" in reason(cell, "TOKEN_MISMATCH").detail
    assert "FOREIGN_TRAFFIC" not in codes(cell)


def test_tokens_of_our_own_that_failed_are_not_foreign() -> None:
    """The server may have gone on with it: its tokens, and itself in flight, are ours."""
    built = build_cell(CLEAN)
    requests = changed(built, 3, state="cut", output_tokens=10)
    cell = served(built, [(INSIDE, GENERATED, 40.0), (INSIDE, RUNNING, 1.0)], requests)
    assert "FOREIGN_TRAFFIC" not in codes(cell)
    assert "INCOMPLETE" in codes(cell)


def test_requests_that_are_not_on_record_are_not_foreign() -> None:
    """Rows that were lost, or lost their times: the server served them, and they were ours."""
    built = build_cell(CLEAN)
    for lost in (built.record.requests.iloc[:-2], built.record.requests.iloc[:0],
                 built.record.requests.assign(t_send=float("nan"))):  # fmt: skip
        cell = context(built, requests=lost)
        assert "INCOMPLETE" in codes(cell)
        assert "FOREIGN_TRAFFIC" not in codes(cell)


def test_a_request_that_came_as_the_cell_ended_is_told_and_taints_nothing() -> None:
    seen = reason(served(build_cell(CLEAN), [(END, RUNNING, 1.0)]), "FOREIGN_TRAFFIC")
    assert (seen.severity, seen.evidence["in_flight_after"]) == ("info", 1)
    assert "no token of theirs" in seen.detail


def test_gauges_at_rest_and_our_own_requests_are_not_foreign() -> None:
    ours = [(INSIDE, RUNNING, 1.0), (END, RUNNING, 0.0), (INSIDE, WAITING, 3.0)]
    cell = served(build_cell(CLEAN), [*ours, (END, WAITING, 0.0)])
    assert "FOREIGN_TRAFFIC" not in codes(cell)
