"""The seed's experiment as a plant: its durations, its freezes, its corrected speed-ups."""

from __future__ import annotations

import random

import pytest

from specgauge.simulate.engine import Engine
from specgauge.simulate.request import new_request
from specgauge.simulate.seed_plant import FROZEN_S, OUTPUT_TOKENS, SECTIONS, seed_plant
from specgauge.simulate.virtual import run_closed

pytestmark = pytest.mark.system  # long: every step of every variant, twice

SINGLE = 16  # requests at concurrency 1, before those at 16


def cells(variant: str, trial: int):
    """Concurrency 1, then 16, on one engine: TPOT (s), duration (s), frozen (s), all first."""
    section = SECTIONS[variant]
    truth = seed_plant(first_of_c16=SINGLE + 1).for_process(section, 0)
    engine = Engine(truth, section, int(section.partition(":")[2] or 0), 64)
    rng = random.Random(trial)
    arrived = 0

    def make(_, now):
        nonlocal arrived
        arrived += 1
        ids = [rng.randrange(20, 30_000) for _ in range(123)]
        return new_request(
            truth, section, ids, OUTPUT_TOKENS, arrival=arrived, now=now, ignore_eos=True
        )

    single = run_closed(engine, make, SINGLE, 1)
    ends = [s.t_end for s in single]
    first_ends = [s.t_end for s in single for e in s.emissions if e.first]
    prefill = sum(s.step.duration_s for s in single for e in s.emissions if e.first)
    tpot = (ends[-1] - prefill) / (SINGLE * (OUTPUT_TOKENS - 1))
    assert len(first_ends) == SINGLE
    many = run_closed(engine, make, 16, 16, t_begin=ends[-1])
    frozen = [s for s in many if s.step.freezes]
    assert not any(s.step.freezes for s in single)
    assert all(e.first for s in frozen for e in s.emissions)
    return tpot, many[-1].t_end - ends[-1], sum(s.step.frozen_s for s in frozen)


@pytest.fixture(scope="module")
def seed():
    """Means over two prompt sets."""
    found = {}
    for variant in SECTIONS:
        runs = [cells(variant, trial) for trial in range(2)]
        found[variant] = tuple(sum(column) / len(runs) for column in zip(*runs, strict=True))
    return found


@pytest.mark.parametrize(
    ("variant", "tpot_ms", "duration_s", "frozen_s"),
    [
        ("vanilla", 44.8, 24.4, 0.0),
        ("ngram", 42.3, 29.3, FROZEN_S),
        ("ngram_improved", 38.1, 25.1, 0.0),
        ("eagle3", 21.6, 17.5, FROZEN_S),
    ],
)
def test_cells_last_as_long_as_the_seed_s(seed, variant, tpot_ms, duration_s, frozen_s):
    tpot, duration, frozen = seed[variant]
    assert tpot * 1000 == pytest.approx(tpot_ms, rel=0.025)
    assert duration == pytest.approx(duration_s, rel=0.025)
    assert frozen == pytest.approx(frozen_s)


@pytest.mark.parametrize(
    ("variant", "speedup"), [("ngram", 0.94), ("ngram_improved", 0.98), ("eagle3", 1.70)]
)
def test_corrected_speedups(seed, variant, speedup):
    baseline = seed["vanilla"][1]
    _, duration, frozen = seed[variant]
    assert baseline / (duration - frozen) == pytest.approx(speedup, abs=0.03)
    if frozen:
        assert baseline / duration < speedup - 0.1 * speedup
