"""Intervals, corrections and percentiles: what they promise, simulated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgauge.analyze import stats


def test_one_or_two_rounds_are_a_point() -> None:
    for logs in ([0.1], [0.1, 0.2]):
        found = stats.ratio(logs)
        assert found is not None
        assert found.value == pytest.approx(math.exp(sum(logs) / len(logs)))
        assert (found.low, found.high, found.p) == (None, None, None)
    assert stats.ratio([]) is None


def test_interval_of_three_rounds_by_hand() -> None:
    found = stats.ratio([0.1, 0.2, 0.3])
    assert found is not None
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert found.low == pytest.approx(math.exp(0.2 - half), rel=1e-6)
    assert found.high == pytest.approx(math.exp(0.2 + half), rel=1e-6)
    assert found.p is not None
    assert found.p == pytest.approx(0.0742, abs=1e-4)


@pytest.mark.parametrize("log", [0.0, 0.5, math.log(1.1)])
def test_identical_rounds_are_a_point_without_an_interval(log: float) -> None:
    """Nothing varies, so nothing is known of how much it would; whatever the floating point."""
    found = stats.ratio([log, log, log])
    assert found is not None
    assert found.value == pytest.approx(math.exp(log))
    assert (found.low, found.high, found.p) == (None, None, None)


def test_rounds_that_are_merely_close_keep_their_narrow_interval() -> None:
    found = stats.ratio([0.5, 0.500001, 0.500002])
    assert found is not None
    assert found.low is not None
    assert 0 < found.value - found.low < 1e-5


def test_holm_by_hand() -> None:
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_helps_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = stats.holm(p_values)
    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    ranked = sorted(range(len(p_values)), key=lambda i: p_values[i])
    assert [adjusted[i] for i in ranked] == sorted(adjusted)


def test_percentiles_need_samples() -> None:
    assert [stats.samples_for(q) for q in (0.5, 0.9, 0.95, 0.99)] == [20, 100, 200, 1000]
    assert stats.percentile(np.arange(19), 0.5) is None
    assert stats.percentile(np.arange(21), 0.5) == 10
    assert stats.percentile(np.arange(99), 0.9) is None
    assert stats.percentile(np.arange(101), 0.9) == 90


def test_means_skip_what_is_missing() -> None:
    assert stats.mean([1.0, float("nan"), 3.0]) == 2.0
    assert stats.mean([]) is None
    assert stats.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert stats.geometric_mean([]) is None
