"""Which batch-size classes a warm-up leaves cold: Triton builds for each anew, while measuring."""

from __future__ import annotations

from collections.abc import Iterable

from specgauge.analyze.freezes import BatchClass, batch_class
from specgauge.config.experiment import Experiment

WORDS: dict[BatchClass, str] = {"one": "1", "multiple_of_16": "a multiple of 16", "other": "others"}


def met(sizes: Iterable[int]) -> set[BatchClass]:
    """Classes of the batch sizes from each of ``sizes`` down to 1: a batch drains."""
    return {batch_class(size) for most in sizes for size in range(1, most + 1)}


def cold(experiment: Experiment) -> list[str]:
    """Classes that the loads meet and no warm-up batch has, in words; open loads meet all."""
    if experiment.warmup is None:
        return []
    warm = {batch_class(size) for size in experiment.warmup.batches}
    needed = met(load.concurrency or 16 for load in experiment.loads)
    return [WORDS[name] for name in WORDS if name in needed - warm]
