"""Where things were seen, told in few words and nothing lost."""

from __future__ import annotations

import pytest

from specgauge.report.places import brief, place


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (["ngram c1"], ["ngram c1"]),
        (["ngram c1", "ngram c16", "x c1"], ["ngram c1, c16", "x c1"]),
        ([f"ngram {load} start {k}" for k in range(3) for load in ("c1", "c4")],
         ["ngram c1, c4 (starts 0 to 2)"]),
        (["ngram c1 start 0", "ngram c1 start 2", "ngram c4 start 1"],
         ["ngram c1 (starts 0, 2)", "ngram c4 (start 1)"]),
        (["a c1 start 0", "b c1", "a c1 start 1"], ["a c1 (starts 0, 1)", "b c1"]),
        (["run", "ngram against vanilla c1", "x c1 (1.60, 0.90)"],
         ["run", "ngram against vanilla c1", "x c1 (1.60, 0.90)"]),
        ([], []),
    ],
)  # fmt: skip
def test_loads_of_the_same_starts_are_one_entry(where: list[str], told: list[str]) -> None:
    assert brief(where) == told


def test_a_place_names_its_start_where_there_are_several() -> None:
    assert place("ngram", "c16", 0) == "ngram c16 start 0"
    assert brief([place("ngram", "c16", None)]) == ["ngram c16"]
