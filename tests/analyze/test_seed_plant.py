"""The seed's experiment on a virtual clock, through the whole analysis: its corrected figures."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from specgauge.analyze.document import Cell, Comparison, Summary
from specgauge.analyze.records import LoadSetup, RunRecord, RunSetup, VariantSetup
from specgauge.analyze.summary import summarise
from specgauge.calibrate.virtual_start import VirtualStart
from specgauge.record.layout import RunPaths
from specgauge.report.write import write_report
from specgauge.simulate.seed_plant import (
    FROZEN_S,
    KERNEL,
    OUTPUT_TOKENS,
    SECTIONS,
    TOKENS_AT_16,
    seed_plant,
)

SINGLE = 2  # at concurrency 1 before the 16 (the seed's 16 would only take longer)
METHODS = {"ngram": ("ngram", 6), "ngram_improved": ("ngram", 4), "eagle3": ("eagle3", 3)}


def measured(variant: str) -> VirtualStart:
    """c1, c16, and where c16 stood still its repeat with the prefix cache put back."""
    server = VirtualStart(seed_plant(first_of_c16=SINGLE + 1), SECTIONS[variant], variant)
    rng = random.Random(0)
    last = TOKENS_AT_16[variant] - 15 * OUTPUT_TOKENS
    prompts = [[rng.randrange(20, 30_000) for _ in range(123)] for _ in range(16)]
    server.cell("c1", prompts[:SINGLE], 1, OUTPUT_TOKENS)
    server.cell("c16", prompts, 16, OUTPUT_TOKENS, last_tokens=last)
    if variant in ("ngram", "eagle3"):
        server.reset()
        server.read(prompts[:SINGLE])
        server.cell("c16", prompts, 16, OUTPUT_TOKENS, last_tokens=last, confirms=True, reset=True)
    return server


@pytest.fixture(scope="module")
def summary() -> Summary:
    variants = tuple(
        VariantSetup(name, None if name == "vanilla" else {
            "method": METHODS[name][0], "num_speculative_tokens": METHODS[name][1]})
        for name in SECTIONS
    )  # fmt: skip
    setup = RunSetup("seed", "virtual", "Qwen3-32B", "vanilla", variants,
                     (LoadSetup("c1", SINGLE, 1), LoadSetup("c16", 16, 16)))  # fmt: skip
    starts = tuple(measured(variant).record() for variant in SECTIONS)
    return summarise(RunRecord(setup, starts))


def cell(summary: Summary, variant: str) -> Cell:
    (found,) = [c for c in summary.cells if (c.variant, c.load) == (variant, "c16")]
    return found


def speedup(summary: Summary, variant: str, basis: str) -> Comparison:
    (found,) = [
        c for c in summary.comparisons
        if (c.variant, c.load, c.metric, c.basis) == (variant, "c16", "output_tok_s", basis)
    ]  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("variant", "seconds"),
    [("vanilla", 24.4), ("ngram", 29.3), ("ngram_improved", 25.1), ("eagle3", 17.5)],
)
def test_durations(summary: Summary, variant: str, seconds: float) -> None:
    assert cell(summary, variant).observed.duration_s == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize("variant", ["ngram", "eagle3"])
def test_the_two_freezes_are_found_named_and_confirmed(summary: Summary, variant: str) -> None:
    found = cell(summary, variant)
    (freeze,) = [r for r in found.reasons if r.code == "FREEZE"]
    assert freeze.cause == "JIT"
    assert KERNEL in freeze.detail
    assert freeze.evidence["kind"] == "before-token"
    assert freeze.evidence["witness server's prefill time"] == "agrees"
    assert freeze.evidence["witness server's generated tokens"] == "agrees"
    assert found.derived is not None
    assert found.derived.frozen_s == pytest.approx(FROZEN_S, rel=0.02)
    assert found.derived.confirmation == "CONFIRMED ONE-OFF"
    assert (found.verdict, found.derived.verdict) == ("SUSPECT", "VALID")


@pytest.mark.parametrize(
    ("variant", "raw", "corrected"), [("ngram", 0.84, 0.94), ("eagle3", 1.39, 1.70)]
)
def test_corrected_speed_ups_stand_beside_the_raw_ones(
    summary: Summary, variant: str, raw: float, corrected: float
) -> None:
    observed, derived = (speedup(summary, variant, b) for b in ("observed", "derived"))
    assert observed.speedup == pytest.approx(raw, abs=0.01)
    assert derived.speedup == pytest.approx(corrected, abs=0.01)
    assert (observed.verdict, derived.verdict) == ("SUSPECT", "VALID")


def test_what_did_not_freeze_is_left_alone(summary: Summary) -> None:
    for variant in ("vanilla", "ngram_improved"):
        assert cell(summary, variant).verdict == "VALID"
        assert cell(summary, variant).derived is None
    assert speedup(summary, "ngram_improved", "observed").speedup == pytest.approx(0.98, abs=0.01)


def test_the_recommendation_believes_the_corrected_figure(summary: Summary) -> None:
    (text,) = [r.text for r in summary.recommendations if r.load == "c16"]
    assert "eagle3" in text
    assert "freezes taken off" in text


def test_the_frozen_spans_are_drawn(summary: Summary, tmp_path: Path) -> None:
    write_report(RunRecord(RunSetup("", "", "", "", (), ()), ()), summary, RunPaths(tmp_path))
    assert (tmp_path / "analysis/figures/freezes.png").stat().st_size > 0
    text = (tmp_path / "analysis/report.md").read_text()
    assert "| c16 | eagle3 |" in text
    assert "CONFIRMED ONE-OFF" in text
