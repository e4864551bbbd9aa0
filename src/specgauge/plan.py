"""Experiment → the starts to make, in order, and the cells of each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from specgauge.config.experiment import Experiment
from specgauge.config.load import Load


@dataclass(frozen=True)
class StartPlan:
    """One server start: a variant in a round.  ``drift``: the baseline once more at the end."""

    variant: str
    round: int
    role: Literal["round", "drift"] = "round"


@dataclass(frozen=True)
class CellSlot:
    """One cell of a start."""

    load: Load
    repeat: int


def starts(experiment: Experiment, variants: list[str]) -> list[StartPlan]:
    """Every start that ``experiment`` needs for ``variants``, in the order to make them.

    Rounds follow each other, each with every variant once, so that slow changes of the machine
    meet all variants alike; the baseline, if present, comes first in each round.
    """
    baseline = [v for v in variants if v == experiment.baseline]
    others = [v for v in variants if v != experiment.baseline]
    draw = random.Random(experiment.sampling.seed or 0)
    planned: list[StartPlan] = []
    for number in range(experiment.rounds):
        order = list(others)
        if experiment.order == "rotated" and others:
            shift = number % len(others)
            order = others[shift:] + others[:shift]
        elif experiment.order == "shuffled":
            draw.shuffle(order)
        planned += [StartPlan(variant, number) for variant in (*baseline, *order)]
    if experiment.baseline_last and baseline:
        planned.append(StartPlan(experiment.baseline, experiment.rounds, "drift"))
    return planned


def cells(experiment: Experiment) -> list[CellSlot]:
    """The measured cells of one start, in order: each load, ``repeats`` times in a row."""
    return [
        CellSlot(load, repeat) for load in experiment.loads for repeat in range(experiment.repeats)
    ]
