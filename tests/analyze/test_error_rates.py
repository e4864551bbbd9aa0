"""How often a comparison is wrong: A/A experiments rejected, a planted effect found."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from synthetic_run import Plant, build_cell, chunks_frame, requests_frame
from test_freezes import context

from specgauge.analyze import claims, figures, speedup, stats
from specgauge.analyze.document import Cell
from specgauge.analyze.latency import per_request

START_CV = 0.01
"""Starts of one server differ by about 1 %."""
REPEAT_CV = 0.003
"""And repeats on one server by less."""
EXPERIMENTS = 1000
BAND = (0.037, 0.064)
"""Where 95 % of correct 5 % tests over 1,000 experiments fall."""
REPEATS = 2


def throughputs(rounds: int, effect: float, draw: np.random.Generator) -> npt.NDArray[np.float64]:
    """[side, round, repeat] in tok/s: 100, a factor a start, a factor a repeat, the effect."""
    logs = draw.normal(0, START_CV, (2, rounds, 1)) + draw.normal(
        0, REPEAT_CV, (2, rounds, REPEATS)
    )
    logs[1] += math.log1p(effect)
    return 100 * np.exp(logs)


def share_significant(rounds: int, effect: float, seed: int) -> float:
    """Share of experiments whose claim is significant at 5 %, by the comparison's statistic."""
    draw = np.random.default_rng(seed)
    found = 0
    for _ in range(EXPERIMENTS):
        base, mine = np.log(throughputs(rounds, effect, draw)).mean(axis=2)
        result = stats.ratio(list(mine - base))
        assert result is not None
        assert result.p is not None
        found += stats.holm([result.p])[0] < claims.ALPHA
    return found / EXPERIMENTS


@pytest.mark.parametrize("rounds", [3, 5])
def test_a_against_a_is_rejected_as_often_as_it_says(rounds: int) -> None:
    assert BAND[0] <= share_significant(rounds, 0.0, seed=rounds) <= BAND[1]


@pytest.mark.parametrize(
    ("rounds", "effect", "power"),
    [(3, 0.02, 0.28), (3, 0.05, 0.82), (5, 0.02, 0.64), (5, 0.05, 1.0)],
)
def test_an_effect_is_found_with_the_power_that_the_docs_state(
    rounds: int, effect: float, power: float
) -> None:
    assert share_significant(rounds, effect, seed=rounds) == pytest.approx(power, abs=0.045)


def test_the_comparison_takes_that_statistic() -> None:
    """The whole way, cells in and claim out, gives the p-value that was simulated above."""
    seen = figures.observe(context(build_cell(Plant(requests=1, output_tokens=2))))
    values = throughputs(5, 0.03, np.random.default_rng(1))
    cells = [
        Cell(
            variant=variant, load="c1", start=k, repeat=r, round=k, role="round", concurrency=1,
            rate=None, excluded=False, excluded_because=None, verdict="VALID", reasons=[],
            observed=seen.model_copy(update={"output_tok_s": values[side, k, r]}),
        )
        for side, variant in enumerate(("vanilla", "ngram"))
        for k in range(5)
        for r in range(REPEATS)
    ]  # fmt: skip
    nothing: pd.DataFrame = per_request(requests_frame([]), chunks_frame([]))
    compared = speedup.compare(cells, {speedup.key(c): nothing for c in cells}, "vanilla", {})
    (claim,) = [c for c in compared if c.headline]
    base, mine = np.log(values).mean(axis=2)
    expected = stats.ratio(list(mine - base))
    assert expected is not None
    assert claim.p == pytest.approx(expected.p)
    assert claim.speedup == pytest.approx(expected.value)
