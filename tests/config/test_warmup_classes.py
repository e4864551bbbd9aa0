"""A warm-up that leaves a batch-size class cold is told before anything is measured."""

from __future__ import annotations

import pytest

from specgauge.config.experiment import Experiment
from specgauge.config.warmup_classes import cold


@pytest.mark.parametrize(
    ("batches", "concurrency", "missing"),
    [
        ([1, 16, 5], 16, []),
        ([1, 16], 16, ["others"]),
        ([1], 16, ["a multiple of 16", "others"]),
        ([1], 1, []),
        ([1, 5], 8, []),
        ([16], 4, ["1", "others"]),
    ],
)
def test_classes(batches: list[int], concurrency: int, missing: list[str]) -> None:
    experiment = Experiment.model_validate({
        "name": "x", "model": "m", "variants": ["vanilla"],
        "loads": [{"concurrency": concurrency, "requests": 16}], "warmup": {"batches": batches},
    })  # fmt: skip
    assert cold(experiment) == missing


def test_without_a_warm_up_nothing_is_said() -> None:
    experiment = Experiment.model_validate({
        "name": "x", "model": "m", "variants": ["vanilla"],
        "loads": [{"concurrency": 16, "requests": 16}],
    })  # fmt: skip
    assert cold(experiment) == []
