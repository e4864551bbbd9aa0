"""Artefacts that no capture holds, planted: a stall as the batch drains, a warning without one."""

from __future__ import annotations

import random

import pytest

from specgauge.analyze.document import Cell, Summary
from specgauge.analyze.records import LoadSetup, RunRecord, RunSetup, VariantSetup
from specgauge.analyze.summary import summarise
from specgauge.calibrate.virtual_start import VirtualStart
from specgauge.simulate.truth import Truth

KERNEL = "_topk_topp_kernel"
DRAIN_S = 10.96


def measured(*freezes: dict, variant: str = "ngram", repeat: bool = False) -> Summary:
    """16 requests at once after 2 single ones; outputs end at different times."""
    truth = Truth.model_validate({
        "step_ms": {"1": 20, "16": 30}, "freezes": list(freezes),
        "variants": {"ngram": {"acceptance": [0.6, 0.5], "coverage": 0.3, "coverage_spread": 0.9}},
    })  # fmt: skip
    server = VirtualStart(truth, "ngram:4", variant)
    rng = random.Random(1)
    prompts = [[rng.randrange(20, 30_000) for _ in range(60)] for _ in range(16)]
    server.cell("c1", prompts[:2], 1, 200)
    server.cell("c16", prompts, 16, 200)
    if repeat:
        server.reset()
        server.read(prompts[:2])
        server.cell("c16", prompts, 16, 200, confirms=True, reset=True)
    config = {"method": "ngram", "num_speculative_tokens": 4}
    setup = RunSetup("e", "r", "m", "vanilla", (VariantSetup(variant, config),),
                     (LoadSetup("c1", 2, 1), LoadSetup("c16", 16, 16)))  # fmt: skip
    return summarise(RunRecord(setup, (server.record(),)))


def c16(summary: Summary) -> Cell:
    return next(c for c in summary.cells if c.load == "c16")


def test_5_the_stall_as_the_batch_drains_has_its_place() -> None:
    """Batch 16 and 64 share a build, 15 does not."""
    stall = {"length_s": DRAIN_S, "batch_class": "other", "falling": True, "log": KERNEL}
    found = c16(measured(stall, repeat=True))
    (freeze,) = [r for r in found.reasons if r.code == "FREEZE"]
    assert freeze.cause == "JIT"
    assert (freeze.evidence["phase"], freeze.evidence["batch_class"]) == ("drain", "other")
    assert freeze.evidence["batch"] == 15
    assert freeze.evidence["frozen_s"] == pytest.approx(DRAIN_S, rel=0.01)
    assert found.derived is not None
    assert found.derived.confirmation == "CONFIRMED ONE-OFF"


def test_4_the_same_warning_with_23_ms_is_no_freeze() -> None:
    quick = {"length_s": 0.023, "when_batch": 16, "phase": "after_first_token", "log": KERNEL}
    found = c16(measured(quick))
    assert "FREEZE" not in [r.code for r in found.reasons]
    (jit,) = [r for r in found.reasons if r.code == "JIT"]
    assert (jit.severity, jit.evidence["kernels"]) == ("info", KERNEL)
    assert found.verdict == "VALID"


def test_a_second_compile_for_another_batch_class_is_a_new_stall() -> None:
    first = {"length_s": 1.0, "when_batch": 16, "phase": "after_first_token", "log": KERNEL}
    # The repeat's drain passes the class for the first time (the first cell's was planted away).
    again = {"length_s": 0.9, "after_tokens": (2 + 16 + 1) * 200, "batch_class": "other",
             "falling": True, "log": KERNEL}  # fmt: skip
    found = c16(measured(first, again, repeat=True))
    assert found.derived is not None
    assert found.derived.confirmation == "NEW STALL"
    assert found.derived.verdict == "SUSPECT"


def test_without_a_plant_nothing_is_called() -> None:
    found = c16(measured())
    assert {r.code for r in found.reasons} <= {"TOO_FEW", "COALESCED"}
    assert found.derived is None
