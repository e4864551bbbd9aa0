"""From a results folder to comparisons, exclusions, recommendations and the exit code."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from short_runs import C1, break_cell, cell, of, other, throughput, vanilla
from synthetic_run import (
    BASE,
    FAST,
    LOADS,
    NGRAM,
    NGRAM_LOG,
    VANILLA_LOG,
    Plant,
    StartPlant,
    write_run,
    write_small_run,
)

from specgauge.analyze.pairing import tpot_log_ratio
from specgauge.analyze.summary import Summary, exit_code, summarise
from specgauge.errors import ExitCode
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run


def test_one_round_is_a_point(tmp_path: Path) -> None:
    summary = summarise(read_run(write_small_run(tmp_path / "r")))
    found = of(summary)
    assert found.label == "INDICATIVE"
    assert (found.low, found.high, found.p, found.significant) == (None, None, None, None)
    assert found.verdict == "VALID"
    assert [n.code for n in found.notes] == ["TOO_FEW"]
    assert found.speedup == pytest.approx(
        (cell(summary, "ngram").observed.output_tok_s or 0)
        / (cell(summary, "vanilla").observed.output_tok_s or 1)
    )
    assert exit_code(summary, strict=True) == ExitCode.MEASURED


def test_three_rounds_have_an_interval_start_against_start(tmp_path: Path) -> None:
    base, fast = (0.030, 0.031, 0.032), (0.020, 0.021, 0.0213)
    starts = {("vanilla", k): vanilla(s, round=k) for k, s in enumerate(base)}
    starts |= {("x", k): other(s, round=k) for k, s in enumerate(fast)}
    run = write_run(tmp_path / "r", starts, loads=C1, rounds=3)
    found = of(summarise(read_run(run)))
    ratios = [throughput(f) / throughput(b) for f, b in zip(fast, base, strict=True)]
    assert found.per_round == pytest.approx(ratios)
    assert found.speedup == pytest.approx(math.prod(ratios) ** (1 / 3))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.speedup < found.high
    assert (found.rounds, found.label, found.significant) == (3, None, True)
    tpot = of(summarise(read_run(run)), "tpot")
    assert tpot.per_round == pytest.approx([b / f for f, b in zip(fast, base, strict=True)])


def test_two_rounds_stay_indicative(tmp_path: Path) -> None:
    starts = {("vanilla", k): vanilla(0.03 + 1e-4 * k, round=k) for k in range(2)}
    starts |= {("x", k): other(0.02 + 1e-4 * k, round=k) for k in range(2)}
    run = write_run(tmp_path / "r", starts, loads=C1, rounds=2)
    found = of(summarise(read_run(run)))
    assert (found.rounds, found.label, found.low) == (2, "INDICATIVE", None)


def test_repeats_are_averaged_within_their_start(tmp_path: Path) -> None:
    """Two repeats of a start make one round, not two."""
    starts = {("vanilla", 0): vanilla(0.03, 0.04), ("x", 0): other(0.02, 0.03)}
    found = of(summarise(read_run(write_run(tmp_path / "r", starts, loads=C1, repeats=2))))
    ratio = [throughput(0.02) / throughput(0.03), throughput(0.03) / throughput(0.04)]
    assert found.rounds == 1
    assert found.speedup == pytest.approx(math.sqrt(math.prod(ratio)))


def test_open_loads_have_no_throughput_ratio(tmp_path: Path) -> None:
    plant = Plant(requests=20, concurrency=None, rate=2.0)
    load = {"r2.0": [plant]}
    starts = {
        ("vanilla", 0): StartPlant(load),
        ("x", 0): StartPlant({"r2.0": [replace(plant, step_s=0.02)]}, speculative_config=NGRAM),
    }
    run = write_run(
        tmp_path / "r", starts, loads=({"requests": 20, "rate": 2.0},), slo={"tpot_ms": 25}
    )
    summary = summarise(read_run(run))
    (found,) = summary.comparisons
    assert (found.metric, found.headline) == ("tpot", True)
    assert found.speedup == pytest.approx(1.5)
    goodput = [cell(summary, v, load="r2.0").observed.goodput for v in ("vanilla", "x")]
    assert [g.met for g in goodput if g] == [0, 20]
    assert cell(summary, "x", load="r2.0").observed.ttft_scheduled_ms is not None


def test_without_a_baseline_there_are_no_speedups(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", {("x", 0): other(0.02)}, loads=C1)
    summary = summarise(read_run(run))
    assert not summary.baseline_measured
    assert summary.comparisons == []
    assert cell(summary, "x").verdict == "VALID"
    assert "no measured baseline (vanilla)" in summary.recommendations[0].text
    assert exit_code(summary, strict=False) == ExitCode.MEASURED


def test_an_invalid_cell_is_visible_but_in_no_headline(tmp_path: Path) -> None:
    starts = {("vanilla", k): vanilla(0.03 + 1e-4 * k, round=k) for k in range(4)}
    starts |= {("x", k): other(0.02 + 1e-4 * k, round=k) for k in range(4)}
    folder = write_run(tmp_path / "r", starts, loads=C1, rounds=4)
    break_cell(folder, "x", 2)
    summary = summarise(read_run(folder))
    bad = cell(summary, "x", 2)
    assert (bad.verdict, bad.excluded_because) == ("INVALID", "INVALID")
    assert bad.observed.output_tok_s is not None
    assert (of(summary).rounds, of(summary).verdict) == (3, "VALID")
    assert exit_code(summary, strict=False) == ExitCode.INVALID


def test_a_comparison_whose_only_cell_is_invalid_has_no_ratio(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "r", {("vanilla", 0): vanilla(0.03), ("x", 0): other(0.02)}, loads=C1
    )
    break_cell(folder, "x", 0)
    summary = summarise(read_run(folder))
    found = of(summary)
    assert (found.speedup, found.rounds, found.verdict) == (None, 0, "INVALID")
    assert "INCOMPLETE" in found.reasons
    assert summary.recommendations[0].variant is None


def test_a_partial_start_is_excluded_and_its_round_is_missing(tmp_path: Path) -> None:
    starts = {("vanilla", 0): vanilla(0.03), ("x", 0): other(0.02, state=None)}
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=C1)))
    assert cell(summary, "x").excluded_because == "partial start"
    assert [(m.variant, m.load, m.round) for m in summary.missing] == [("x", "c1", 0)]
    assert exit_code(summary, strict=False) == ExitCode.INCOMPLETE


def test_a_later_start_takes_the_round_over(tmp_path: Path) -> None:
    starts = {
        ("vanilla", 0): vanilla(0.03),
        ("x", 0): other(0.06, state="interrupted"),
        ("x", 1): other(0.02),
    }
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=C1)))
    assert cell(summary, "x", 0).excluded
    assert not cell(summary, "x", 1).excluded
    assert of(summary).speedup == pytest.approx(throughput(0.02) / throughput(0.03))
    assert summary.missing == []
    assert exit_code(summary, strict=False) == ExitCode.MEASURED


def test_holm_spans_variants_and_loads_of_the_headline(tmp_path: Path) -> None:
    def start(step: float, k: int, config: dict[str, object] | None) -> StartPlant:
        wobble = (1.0, 1.01, 0.992)[k]
        plants = {name: [replace(BASE, step_s=step * wobble)] for name in ("c1", "c2")}
        plants["c2"] = [replace(plants["c2"][0], concurrency=2)]
        return StartPlant(plants, round=k, speculative_config=config)

    steps = {"vanilla": 0.03, "x": 0.02, "y": 0.0301}
    starts = {
        (name, k): start(step, (k + i) % 3, None if name == "vanilla" else NGRAM)
        for i, (name, step) in enumerate(steps.items())
        for k in range(3)
    }
    starts = {key: replace(plant, round=key[1]) for key, plant in starts.items()}
    loads = ({"requests": 8, "concurrency": 1}, {"requests": 8, "concurrency": 2})
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=loads, rounds=3)))
    family = [c for c in summary.comparisons if c.headline]
    assert len(family) == 4
    smallest = min(family, key=lambda c: c.p or 1)
    assert smallest.p is not None
    assert smallest.p_holm == pytest.approx(4 * smallest.p)
    assert {c.variant for c in family if c.significant} == {"x"}
    recommended = {r.load: (r.variant, r.claimed) for r in summary.recommendations}
    assert recommended == {"c1": ("x", True), "c2": ("x", True)}


def test_a_matched_baseline_gives_the_draft_alone(tmp_path: Path) -> None:
    starts = {
        ("vanilla", 0): vanilla(0.03),
        ("vanilla_v1", 0): vanilla(0.04),
        ("x", 0): other(0.02),
    }
    run = write_run(tmp_path / "r", starts, loads=C1, matched={"x": "vanilla_v1"})
    summary = summarise(read_run(run))
    (throughputs, tpot) = summary.matched_comparisons
    assert (throughputs.against, throughputs.metric) == ("vanilla_v1", "output_tok_s")
    assert throughputs.speedup == pytest.approx(throughput(0.02) / throughput(0.04))
    assert tpot.speedup == pytest.approx(2.0)
    assert all(c.against == "vanilla" for c in summary.comparisons)


def test_tpot_pairs_by_prompt_and_counts_a_repeated_prompt_once() -> None:
    def frame(values: dict[int, tuple[str, float]]) -> pd.DataFrame:
        rows = {i: {"prompt_id": p, "tpot": t} for i, (p, t) in values.items()}
        return pd.DataFrame.from_dict(rows, orient="index")

    base = frame({0: ("a", 1.0), 1: ("b", 2.0), 2: ("b", 2.0), 3: ("c", 9.0)})
    fast = frame({0: ("a", 0.5), 1: ("b", 2.0), 2: ("b", 2.0), 4: ("c", 1.0)})
    found = tpot_log_ratio([base], [fast])
    assert found == pytest.approx((math.log(2) + math.log(1)) / 2)
    assert tpot_log_ratio([base], [frame({7: ("a", 1.0)})]) is None


DESIGN_CELL = {
    "variant", "load", "start", "repeat", "verdict", "reasons", "observed", "derived",
}  # fmt: skip
DESIGN_OBSERVED = {
    "requests", "failed", "output_tokens", "duration_s", "output_tok_s", "ttft_ms", "tpot_ms",
    "step_ms", "tokens_per_step", "acceptance_length", "draft_coverage", "efficiency",
    "acceptance_by_position", "acceptance_length_over_time", "prefix_cache_hit_rate",
    "joules_per_token",
}  # fmt: skip
DESIGN_COMPARISON = {
    "variant", "load", "metric", "basis", "speedup", "low", "high", "rounds", "verdict", "reasons",
}  # fmt: skip
DESIGN_TOP = {
    "schema", "experiment", "run_id", "model", "baseline", "cells", "comparisons", "references",
}  # fmt: skip


def test_the_json_has_every_key_of_the_schema(tmp_path: Path) -> None:
    summary = summarise(read_run(write_small_run(tmp_path / "r")))
    value = json.loads(summary.model_dump_json(by_alias=True))
    assert value["schema"] == "specgauge.summary/1"
    assert set(value) >= DESIGN_TOP
    for one in value["cells"]:
        assert set(one) >= DESIGN_CELL
        assert set(one["observed"]) >= DESIGN_OBSERVED
        assert one["derived"] is None
        for reason in one["reasons"]:
            assert {"code", "severity", "cause", "detail", "remedy", "t0", "t1"} <= set(reason)
    assert all(set(c) >= DESIGN_COMPARISON for c in value["comparisons"])
    assert {"mean", "p50", "p90"} <= set(value["cells"][0]["observed"]["ttft_ms"])
    assert Summary.model_validate(value) == summary


def test_a_run_of_nothing_but_failures_still_has_a_summary(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "r",
        {("vanilla", 0): StartPlant({}, state="failed"), ("ngram", 0): StartPlant({}, state=None)},
        loads=LOADS,
    )
    summary = summarise(read_run(folder))
    assert summary.cells == []
    assert len(summary.missing) == 4
    assert exit_code(summary, strict=False) == ExitCode.INCOMPLETE


def test_a_cell_without_records_is_invalid_and_breaks_nothing(tmp_path: Path) -> None:
    folder = write_small_run(tmp_path / "r")
    at = RunPaths(folder).start("ngram", 0).cell("c4", 0)
    at.requests.unlink()
    at.chunks.unlink()
    bad = cell(summarise(read_run(folder)), "ngram", load="c4")
    assert bad.verdict == "INVALID"
    assert (bad.observed.failed, bad.observed.output_tok_s) == (16, None)
    RunPaths(folder).start("ngram", 0).metrics.unlink()
    unwatched = summarise(read_run(folder))
    assert cell(unwatched, "ngram").observed.acceptance_length is None
    assert cell(unwatched, "ngram").observed.tokens_per_step is not None


def on_gpu(log: Sequence[str]) -> list[str]:
    return [line.replace("CPU KV cache", "GPU KV cache") for line in log]


def test_forced_traits_come_from_the_baselines_log(tmp_path: Path) -> None:
    starts = {
        ("vanilla", 0): StartPlant({"c1": [BASE]}, log=on_gpu(VANILLA_LOG)),
        ("ngram", 0): StartPlant({"c1": [FAST]}, log=on_gpu(NGRAM_LOG), speculative_config=NGRAM),
    }
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=C1)))
    seen = [r for r in cell(summary, "ngram").reasons if r.code == "FORCED_TRAIT"]
    assert len(seen) == 1
    assert "asynchronous scheduling off" in seen[0].detail
    assert not [r for r in cell(summary, "vanilla").reasons if r.code == "FORCED_TRAIT"]


def test_on_a_cpu_all_variants_are_without_asynchronous_scheduling(tmp_path: Path) -> None:
    starts = {
        ("vanilla", 0): StartPlant({"c1": [BASE]}, log=VANILLA_LOG),
        ("ngram", 0): StartPlant({"c1": [FAST]}, log=NGRAM_LOG, speculative_config=NGRAM),
    }
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=C1)))
    assert not [r for c in summary.cells for r in c.reasons if r.code == "FORCED_TRAIT"]
