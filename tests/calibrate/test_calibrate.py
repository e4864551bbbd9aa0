"""The instrument against plants: on the virtual clock here, on the real one as a system test."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from rich.console import Console

from specgauge.calibrate import plants, virtual
from specgauge.calibrate.command import Calibration, calibrate
from specgauge.calibrate.judge import judge
from specgauge.cli import main


def drawn(number: int) -> plants.Plant:
    return plants.draw(number, concurrency=4, requests=8, output_tokens=32, fast=False)


def test_equal_numbers_give_equal_plants() -> None:
    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(11)


def test_a_plant_is_given_back_and_a_wrong_figure_is_not_accepted() -> None:
    plant = drawn(11)
    assert plant.ratio is not None
    assert plant.ratio >= 2
    planted, cell = virtual.run(plant)
    assert all(e.ok for e in judge("p", planted, cell))
    assert cell.derived is not None
    assert cell.derived.confirmation == "CONFIRMED ONE-OFF"
    worse = {e.what: e.ok for e in judge("p", replace(
        planted, output_tok_s=planted.output_tok_s * 1.03, ttft_ms=planted.ttft_ms * 1.03 + 1,
        frozen_s=planted.frozen_s * 1.06 + 0.05), cell)}  # fmt: skip
    assert not worse["throughput"] or not worse["TTFT"] or not worse["freeze"]
    assert (worse["throughput"], worse["TTFT"], worse["freeze"]) == (False, False, False)


def test_what_was_missed_or_invented_does_not_pass() -> None:
    made = Calibration("c", detected=[("a", 3.0, True), ("b", 0.0, False), ("c", 1.0, True)])
    assert made.passed
    assert made.curve[2] == (1.0, 1.25, 1, 1)
    assert not Calibration("c", detected=[("a", 3.0, False)]).passed
    assert not Calibration("c", detected=[("a", 0.3, True)]).passed
    assert not Calibration("c", unjudged=["a"], detected=[("b", 0.0, False)]).passed


def test_the_command_ends_with_one_object() -> None:
    done = CliRunner().invoke(main, ["calibrate", "--real", "0", "--virtual", "8", "--json"])
    found = json.loads(done.output.splitlines()[-1])
    assert found["passed"] is True
    assert done.exit_code == 0
    assert found["virtual clock, identical records"]["plants"] == 8


@pytest.mark.system
def test_through_http_and_locust() -> None:
    found = calibrate(Console(), real_plants=4, virtual_plants=4)
    real = found["real clock, HTTP and Locust"]
    assert real["plants"] + len(real["not_judged"]) == 4
    assert not real["missed"]
    assert not real["invented"]
