"""FORCED_TRAIT: what the method changes in the engine, against the baseline of the same round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from contexts import CLEAN, codes, context, reason
from synthetic_run import (
    BASE,
    FAST,
    LOADS,
    NGRAM,
    NGRAM_LOG,
    VANILLA_LOG,
    StartPlant,
    build_cell,
    write_run,
)

from specgauge.analyze.context import CellContext
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.records import VariantSetup
from specgauge.analyze.summary import summarise
from specgauge.analyze.validity import forced_trait
from specgauge.record.reader import read_run

C1 = LOADS[:1]
V2 = EngineTraits(
    runner="V2", async_scheduling=True, graph_tokens=128, graph_mode="FULL_AND_PIECEWISE"
)
V1 = replace(V2, runner="V1", async_scheduling=False, graph_tokens=512)
EAGLE3 = VariantSetup("eagle3", {"method": "eagle3", "num_speculative_tokens": 3})


def test_forced_traits_between_v1_and_v2() -> None:
    baseline = EngineTraits(runner="V2", async_scheduling=True, kv_cache_tokens=1000)
    ngram = EngineTraits(
        runner="V1", runner_reason="does not yet support ngram", async_scheduling=False,
        async_reason="not supported with ngram", kv_cache_tokens=984,
    )  # fmt: skip
    found = forced_trait.differences(ngram, baseline)
    assert len(found) == 3
    assert "V1 model runner, the baseline on V2" in found[0]
    assert "asynchronous scheduling off" in found[1]
    assert "-1.6%" in found[2]


def test_no_runner_difference_where_both_lack_triton() -> None:
    cpu = EngineTraits(runner="V1", runner_reason="requires Triton", kv_cache_tokens=1000)
    ngram = replace(cpu, async_scheduling=False, async_reason="not supported with ngram")
    (only,) = forced_trait.differences(ngram, cpu)
    assert "asynchronous scheduling off" in only


def test_silence_of_one_log_is_no_difference() -> None:
    assert forced_trait.differences(EngineTraits(runner="V2"), EngineTraits()) == []
    assert forced_trait.differences(EngineTraits(), EngineTraits(kv_cache_tokens=5)) == []


def test_graphs_that_only_the_variant_has_are_told_with_the_steps_they_serve() -> None:
    (only,) = forced_trait.differences(replace(V2, graph_tokens=512), V2)
    assert only == (
        "CUDA graphs to 512 tokens, the baseline's to 128 (its steps of 129 to 512 tokens run "
        "without one)"
    )
    (other,) = forced_trait.differences(V2, replace(V2, graph_tokens=512))
    assert "(here steps of 129 to 512 tokens" in other


def test_the_same_graphs_or_none_are_no_difference() -> None:
    assert forced_trait.differences(V2, V2) == []
    eager = replace(V2, graph_tokens=None, graph_mode=None)
    assert forced_trait.differences(eager, V2) == []
    assert forced_trait.differences(V2, eager) == []


def test_the_remedy_names_what_makes_the_sides_alike() -> None:
    eagle3 = context(
        build_cell(CLEAN), variant=EAGLE3, own=replace(V2, graph_tokens=512), baseline=V2
    )
    eagle3 = replace(eagle3, cell=replace(eagle3.cell, variant="eagle3"))
    seen = reason(eagle3, "FORCED_TRAIT")
    assert seen.remedy == (
        "For graphs of the same sizes set max-cudagraph-capture-size: 512 in the model's "
        "server_args."
    )
    assert "full CUDA graphs" not in seen.detail
    both = reason(ngram(V1, V2), "FORCED_TRAIT").remedy or ""
    assert "same-runner speed-up" in both
    assert "max-cudagraph-capture-size: 512" in both
    one = reason(ngram(replace(V1, graph_tokens=128), V2), "FORCED_TRAIT").remedy or ""
    assert "max-cudagraph-capture-size" not in one
    cache = replace(V2, kv_cache_tokens=1000)
    less = replace(eagle3.start, traits=replace(cache, kv_cache_tokens=900))
    eagle3 = replace(eagle3, baseline=cache, start=less)
    assert reason(eagle3, "FORCED_TRAIT").remedy is None


def ngram(own: EngineTraits, baseline: EngineTraits) -> CellContext:
    built = build_cell(replace(CLEAN, k=6, coverage=0.3), variant="ngram")
    return context(built, own=own, baseline=baseline)


@pytest.mark.parametrize(
    ("mode", "others"),
    [("FULL_AND_PIECEWISE", "piecewise ones"), ("FULL_DECODE_ONLY", "none")],
)
def test_ngram_is_told_which_steps_get_no_full_graph(mode: str, others: str) -> None:
    """Also against a baseline that has the very same traits: the draft alone makes it so."""
    traits = replace(V1, graph_mode=mode)
    assert reason(ngram(traits, traits), "FORCED_TRAIT").detail.endswith(
        f"full CUDA graphs only for steps in which every request drafts K = 6 tokens, {others} for "
        "all others."
    )


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL", None])
def test_without_graphs_for_decoding_alone_there_is_nothing_to_tell(mode: str | None) -> None:
    traits = replace(V1, graph_mode=mode)
    assert "FORCED_TRAIT" not in codes(ngram(traits, traits))


def with_cache(log: Sequence[str], tokens: int) -> list[str]:
    return [line.replace("CPU KV", "GPU KV").replace("1,048,576", f"{tokens:,}") for line in log]


def test_each_round_is_held_against_the_baseline_of_that_round(tmp_path: Path) -> None:
    """A first start compiles and is left less cache than later ones; round 2 has no baseline."""
    base, mine = {"c1": [BASE]}, {"c1": [FAST]}
    starts = {
        ("vanilla", 0): StartPlant(base, log=with_cache(VANILLA_LOG, 10_000)),
        ("vanilla", 1): StartPlant(
            base, round=1, log=with_cache(VANILLA_LOG, 15_000), state="failed"
        ),
        ("vanilla", 2): StartPlant(base, round=1, log=with_cache(VANILLA_LOG, 20_000)),
        ("vanilla", 3): StartPlant(
            base, round=3, role="drift", log=with_cache(VANILLA_LOG, 30_000)
        ),
        **{
            ("ngram", k): StartPlant(
                mine, round=k, log=with_cache(NGRAM_LOG, 9_000), speculative_config=NGRAM
            )
            for k in range(3)
        },
    }
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=C1, rounds=3)))
    told = {
        c.start: [r.detail for r in c.reasons if r.code == "FORCED_TRAIT"]
        for c in summary.cells
        if c.variant == "ngram"
    }
    for start, size, share in ((0, "10,000", "-10.0%"), (1, "20,000", "-55.0%"),
                               (2, "10,000", "-10.0%")):  # fmt: skip
        (detail,) = told[start]
        assert f"KV cache of 9,000 tokens, the baseline's {size} ({share})" in detail
    assert not [
        r for c in summary.cells if c.variant == "vanilla" for r in c.reasons
        if r.code == "FORCED_TRAIT"
    ]  # fmt: skip
