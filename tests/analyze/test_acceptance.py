"""Acceptance length, coverage, tokens per step: identities and planted truths."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_run import Built, Plant, build_cell, chunks_frame, scrapes

from specgauge.analyze import acceptance, prefix_cache, steps
from specgauge.analyze.counters import Counters, Window


def watched(built: Built) -> tuple[Counters, Window]:
    document = built.record.document
    assert document is not None
    table = scrapes(built.events, document.t_begin - 1, document.t_end + 1)
    counters = Counters(table.to_pandas())
    window = counters.window(document.t_begin, document.t_end)
    assert window is not None
    assert window.closed
    return counters, window


@settings(max_examples=40, deadline=None)
@given(
    k=st.integers(1, 8),
    coverage=st.floats(0.05, 1),
    accept=st.floats(0, 1),
    seed=st.integers(0, 10_000),
    tokens=st.integers(20, 80),
)
def test_counters_and_stream_give_back_the_plant(
    k: int, coverage: float, accept: float, seed: int, tokens: int
) -> None:
    plant = Plant(
        requests=6, concurrency=2, k=k, coverage=coverage, accept=accept, seed=seed,
        output_tokens=tokens,
    )  # fmt: skip
    built = build_cell(plant)
    counters, window = watched(built)
    drafted = acceptance.drafting(counters, window)
    assert drafted is not None
    truth, chunks = built.truth, built.record.chunks
    assert drafted.drafts == truth["drafts"]
    assert acceptance.tokens_per_step(chunks) == pytest.approx(truth["tokens_per_step"])
    assert acceptance.coverage(drafted.drafts, chunks) == pytest.approx(truth["coverage"])
    if not drafted.drafts:
        assert drafted.length is None
        return
    assert drafted.length == pytest.approx(truth["length"])
    assert drafted.efficiency == pytest.approx(truth["length"] / (1 + k))
    check = acceptance.cross_check(drafted, chunks, k)
    assert check.agrees
    assert check.accepted_stream == truth["stream_accepted"]
    assert check.identity is not None
    assert check.tokens_per_step is not None
    assert check.identity - check.tokens_per_step + 1e-9 >= 0
    assert check.identity - check.tokens_per_step <= check.tail_allowed / truth["steps"] + 1e-9
    assert sum(drafted.distribution) == pytest.approx(1)
    mean_accepted = sum(j * p for j, p in enumerate(drafted.distribution))
    assert 1 + mean_accepted == pytest.approx(drafted.length)
    assert steps.server_steps(counters, window) == truth["steps"]
    assert prefix_cache.hit_rate(counters, window) == pytest.approx(0.25)


def test_a_stream_that_lost_tokens_does_not_agree() -> None:
    built = build_cell(Plant(k=4, coverage=1.0, accept=0.8))
    drafted = acceptance.drafting(*watched(built))
    assert drafted is not None
    chunks = built.record.chunks
    thinned = chunks[~((chunks["tokens"] > 3) & (chunks["seq"] > 0))]
    assert not acceptance.cross_check(drafted, thinned, 4).agrees


def test_without_speculation_there_are_no_drafts() -> None:
    built = build_cell(Plant())
    assert acceptance.drafting(*watched(built)) is None
    assert acceptance.tokens_per_step(built.record.chunks) == 1.0


def test_length_over_time_follows_a_change() -> None:
    early = build_cell(Plant(k=4, coverage=1.0, accept=0.0, requests=4), t0=1000.0)
    late = build_cell(Plant(k=4, coverage=1.0, accept=1.0, requests=12), t0=1010.0)
    events = [*early.events, *late.events]
    table = scrapes(sorted(events, key=lambda e: e.t), 999.0, 1030.0)
    points = acceptance.over_time(Counters(table.to_pandas()), Window(999.0, 1030.0, True))
    before = [v for t, v in points if t < 1008]
    after = [v for t, v in points if t > 1012]
    assert before
    assert after
    assert before == pytest.approx([1.0] * len(before))
    assert after == pytest.approx([5.0] * len(after))
    assert [t for t, _ in points] == sorted(t for t, _ in points)


def test_tokens_per_step_by_category() -> None:
    built = build_cell(Plant(k=2, coverage=1.0, accept=1.0, requests=4))
    found = acceptance.by_category(built.record.requests, built.record.chunks)
    assert set(found) == {"code", "chat"}
    assert found["code"] == pytest.approx(built.truth["tokens_per_step"])


def test_tokens_per_step_by_token_and_by_request() -> None:
    """A long output of 1 token a step and a short one of 3: pooled near 1, by request 2."""
    chunks = chunks_frame([
        *({"request": 0, "seq": i, "t": i, "tokens": 1} for i in range(31)),
        *({"request": 1, "seq": i, "t": i, "tokens": 3} for i in range(11)),
    ])  # fmt: skip
    assert acceptance.tokens_per_step(chunks) == pytest.approx(60 / 40)
    assert acceptance.tokens_per_step_by_request(chunks) == pytest.approx(2.0)
