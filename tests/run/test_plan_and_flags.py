"""Order of starts; flags; what is expected to take how long."""

from typing import Any

import pytest

from specgauge.config.experiment import Experiment
from specgauge.config.resolve import flags
from specgauge.plan import StartPlan, cells, starts
from specgauge.run.progress import Durations, words


def experiment(**keys: Any) -> Experiment:
    base: dict[str, Any] = {
        "name": "x",
        "model": "m",
        "variants": ["a", "vanilla", "b", "c"],
        "loads": [{"concurrency": 1, "requests": 1}, {"rate": 2, "requests": 1}],
    }
    return Experiment.model_validate(base | keys)


def names(made: list[StartPlan]) -> str:
    return " ".join(plan.variant[0] for plan in made)


def test_rounds_are_interleaved_and_the_baseline_is_first_and_last() -> None:
    made = starts(experiment(rounds=2, baseline_last=True), ["a", "vanilla", "b"])
    assert names(made) == "v a b v a b v"
    assert made[-1] == StartPlan("vanilla", 2, "drift")


def test_rotation_moves_the_others_on() -> None:
    made = starts(experiment(rounds=3, order="rotated"), ["a", "vanilla", "b", "c"])
    assert names(made) == "v a b c v b c a v c a b"


def test_shuffling_is_by_the_seed_and_complete() -> None:
    given = experiment(rounds=4, order="shuffled")
    made = starts(given, given.variants)
    assert made == starts(given, given.variants)
    for number in range(4):
        assert {p.variant for p in made if p.round == number} == set(given.variants)


def test_without_the_baseline_there_is_no_drift_start() -> None:
    assert names(starts(experiment(baseline_last=True), ["a"])) == "a"


def test_cells_are_each_load_with_its_repeats() -> None:
    slots = [(slot.load.name, slot.repeat) for slot in cells(experiment(repeats=2))]
    assert slots == [("c1", 0), ("c1", 1), ("r2.0", 0), ("r2.0", 1)]


def test_flags_in_every_form() -> None:
    given = {"max_model_len": 8, "eager": True, "async": False, "gone": None}
    given |= {"names": ["a", "b"], "config": {"k": 1}}
    assert flags(given) == [
        *["--max-model-len", "8", "--eager", "--no-async"],
        *["--names", "a", "b", "--config", '{"k": 1}'],
    ]


def test_time_left_is_known_only_when_every_kind_was_seen() -> None:
    durations = Durations()
    durations.add("c1", 10)
    durations.add("c1", 20)
    assert durations.total(["c1", "c1"]) == 30
    assert durations.total(["c1", "c16"]) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (100, "2 min"), (7500, "2 h 05 min")]
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert words(seconds) == text
