"""How much of a cell is reading prompts, and the median step: planted on a simulated engine."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contexts import context
from frozen import stop
from synthetic_run import Plant, build_cell

from specgauge.analyze import figures, prefill, prefill_share, steps
from specgauge.analyze.context import CellContext, StartContext
from specgauge.analyze.counters import Counters
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.records import LoadSetup, RunSetup, VariantSetup
from specgauge.calibrate.virtual_start import VirtualStart
from specgauge.simulate.truth import Truth

ORDINARY: dict[str, Any] = {"1": 10, "64": 20}
HEAVY = {"rate": 20_000, "prompt": 300}


def simulated(
    concurrency: int, *, rate: float, prompt: int, k: int = 3, requests: int | None = None
) -> tuple[CellContext, float]:
    """A cell, and the share of it that its engine read prompts."""
    truth = Truth.model_validate({
        "step_ms": ORDINARY, "prefill_tokens_per_s": rate, "noise": {"step_cv": 0.03},
        "kv_cache_tokens": 10_000_000,
        "variants": {"ngram": {"acceptance": [0.7, 0.6, 0.5], "coverage": 0.6}},
    })  # fmt: skip
    server = VirtualStart(truth, f"ngram:{k}" if k else "vanilla", "x")
    dice = random.Random(7)
    count = requests or 4 * concurrency
    prompts = [
        [dice.randrange(20, 30_000) for _ in range(dice.randint(prompt // 2, 3 * prompt // 2))]
        for _ in range(count)
    ]
    record = server.cell("load", prompts, concurrency, 64)
    config = {"method": "ngram", "num_speculative_tokens": k} if k else None
    setup = RunSetup("e", "r", "m", "vanilla", (VariantSetup("x", config),),
                     (LoadSetup("load", count, concurrency),))  # fmt: skip
    start = server.record()
    context = StartContext(start, Counters(start.metrics), EngineTraits())
    seconds = record.requests["t_last"].max() - record.requests["t_send"].min()
    read = sum(passed.step.prefill for passed in server.steps) / rate
    return CellContext(record, context, setup), read / seconds


@pytest.mark.parametrize(("concurrency", "k"), [(1, 0), (4, 0), (4, 3), (16, 0), (16, 3), (64, 3)])
def test_the_share_that_was_planted(concurrency: int, k: int) -> None:
    cell, share = simulated(concurrency, k=k, **HEAVY)
    assert 0.01 < share < 0.9
    assert prefill_share.of(cell) == pytest.approx(share, rel=0.07)
    assert figures.observe(cell).prefill_share == prefill_share.of(cell)


def test_reading_hidden_in_a_step_is_not_made_up() -> None:
    """60 tokens at 200,000 a second are a fortieth of a step: what does not show is left out."""
    cell, share = simulated(64, rate=200_000, prompt=60)
    seen = prefill_share.of(cell)
    assert seen is not None
    assert seen < share + 0.01


def test_the_mean_step_is_not_decoding_s_and_the_median_is() -> None:
    cell, share = simulated(16, **HEAVY)
    assert share > 0.3
    seen = figures.observe(cell)
    ordinary = 10 + 10 * 15 / 63
    assert seen.step_ms.p50 == pytest.approx(ordinary, rel=0.03)
    assert (seen.step_ms.mean or 0) > 1.3 * ordinary


def test_a_small_batch_s_step_is_no_ordinary_one() -> None:
    """All prompts are read while the batch is full; only its end, some requests, is without."""
    cell, _ = simulated(16, **HEAVY)
    assert prefill_share.of(cell) is not None
    _, end, waiting = prefill.waited(cell.requests, cell.chunks)
    assert (waiting <= 0).any()
    last = float(np.quantile(end, 0.9))
    late = cell.requests.copy()
    # one more prompt that waits from the first to the last tenth: no gap before is without
    late.loc[late.index[-1], ["t_send", "t_sent"]] = float(late["t_send"].min())
    late.loc[late.index[-1], ["t_first", "t_first_user"]] = last
    moved = replace(cell, cell=replace(cell.cell, requests=late))
    assert prefill.ordinary_step(moved.requests, moved.chunks) is not None
    assert prefill_share.of(moved) is None


def test_a_cell_that_stood_still_has_none() -> None:
    plant = Plant(requests=20, concurrency=4, step_s=0.02, ttft_s=0.04)
    assert prefill_share.of(context(build_cell(plant))) is not None
    frozen = context(stop(build_cell(plant), 1000.7, 2.0))
    assert frozen.freezes
    assert prefill_share.of(frozen) is None


def merged(every: int) -> tuple[CellContext, float]:
    """A cell of 1-token steps of 30 ms, 10 % more or less; each ``every``-th comes with the next.

    Also its true median step, seconds.
    """
    built = build_cell(Plant(requests=20))
    chunks = built.record.chunks.copy()
    chunks["t"] += np.random.default_rng(3).uniform(-0.0015, 0.0015, len(chunks))
    truth = float(np.median(steps.gaps(chunks)))
    inner = chunks[(chunks["seq"] > 0) & (chunks["seq"] < chunks["seq"].max())]
    chunks = chunks.drop(index=inner.index[::every])
    chunks["seq"] = chunks.groupby("request").cumcount()
    return context(built, chunks=chunks), truth


def test_the_median_is_known_where_few_chunks_hold_several_steps() -> None:
    few, truth = merged(30)
    assert few.steps_by_server == 20 * 63
    seen = figures.observe(few)
    assert seen.step_ms.p50 == pytest.approx(truth * 1000, rel=steps.MEDIAN_KNOWN)
    assert (seen.step_ms.p90, seen.step_ms.p99) == (None, None)
    assert seen.step_ms.mean == seen.step_ms.server_mean
    many, _ = merged(3)
    assert many.steps_by_server is not None
    assert figures.observe(many).step_ms.p50 is None
    assert prefill_share.of(few) is None


def test_how_far_hidden_steps_can_move_a_median() -> None:
    """100 gaps of 1 to 100; four hidden steps leave at most eight unknown."""
    even = np.arange(1.0, 101.0)
    assert steps.median_beside(np.full(100, 7.0), 104) == 7.0
    assert steps.median_beside(even, 100) == pytest.approx(50.5)
    assert steps.median_beside(even, 101) == pytest.approx(50.5)  # 49.0 to 52.0
    assert steps.median_beside(even, 104) is None  # 44.6 to 56.4
    assert steps.median_beside(even, 99) is None
    assert steps.median_beside(np.empty(0), 5) is None
