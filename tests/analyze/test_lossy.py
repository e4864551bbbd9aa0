"""LOSSY: outputs that leave the baseline's where the model was sure; ties are no loss."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthetic_run import Plant, build_cell

from specgauge.analyze import divergence
from specgauge.analyze.records import CellRecord
from specgauge.analyze.validity import lossy
from specgauge.record.documents import Margin, Margins

PLANT = Plant(requests=16, concurrency=16, output_tokens=40)


def cell(parts: dict[int, int], variant: str = "ngram", start: int = 0) -> CellRecord:
    """A cell whose request i leaves the others' output at token ``parts[i]``."""
    record = build_cell(PLANT, variant=variant, start=start).record
    chunks = record.chunks.copy()
    at = chunks.groupby("request")["tokens"].cumsum() - chunks["tokens"]
    chunks["token_ids"] = [
        [-1 - int(start)] if int(request) in parts and position >= parts[int(request)] else ids
        for request, position, ids in zip(chunks["request"], at, chunks["token_ids"], strict=True)
    ]
    return replace(record, chunks=chunks)


def asked(values: dict[int, tuple[int, float]], start: int = 0) -> Margins:
    """Margins by request: (position, nats), against the baseline's ``start``."""
    load = cell({}).load
    margins = [
        Margin(load=load, repeat=0, index=i, position=p, margin=m) for i, (p, m) in values.items()
    ]
    return Margins(variant="vanilla", start=start, margins=margins)


BASE = cell({}, "vanilla")


def test_divergences_have_their_place() -> None:
    found, of = divergence.compare(cell({3: 10, 7: 0}), BASE)
    assert [(d.index, d.position) for d in found] == [(3, 10), (7, 0)]
    assert of == 16
    assert divergence.first_difference([1, 2], [1, 2, 3]) is None


def test_a_sure_token_that_differs_is_suspect() -> None:
    mine = cell({3: 10, 7: 20})
    reason = lossy.check([(mine, BASE, asked({3: (10, 2.1), 7: (20, 0.01)}))], [])
    assert reason is not None
    assert reason.severity == "suspect"
    assert reason.evidence["sure"] == 1
    assert "first at token 10" in reason.detail


def test_ties_are_told_and_are_no_loss() -> None:
    mine = cell(dict.fromkeys(range(12), 5))
    reason = lossy.check([(mine, BASE, asked(dict.fromkeys(range(12), (5, 0.05))))], [])
    assert reason is not None
    assert reason.severity == "info"
    assert "12 of 16" in reason.detail


def test_no_more_than_the_baseline_s_own_is_no_loss() -> None:
    again = cell({1: 4}, "vanilla", 1)
    own = [(again, BASE, asked({1: (4, 0.9)}))]
    once = lossy.check([(cell({3: 10}), BASE, asked({3: (10, 0.9)}))], own)
    assert once is not None
    assert once.severity == "info"
    twice = cell({3: 10, 4: 10})
    more = lossy.check([(twice, BASE, asked({3: (10, 0.9), 4: (10, 0.9)}))], own)
    assert more is not None
    assert more.severity == "suspect"


def test_margins_asked_against_another_start_do_not_count() -> None:
    reason = lossy.check([(cell({3: 10}), BASE, asked({3: (10, 2.0)}, start=5))], [])
    assert reason is not None
    assert (reason.severity, reason.evidence["sure"]) == ("info", 0)


def test_equal_outputs_say_nothing() -> None:
    assert lossy.check([(cell({}), BASE, None)], []) is None


@pytest.mark.parametrize(
    ("config", "temperature", "fits"),
    [
        ({"method": "ngram"}, 0.0, True),
        ({"method": "ngram"}, 0.6, False),
        ({"method": "eagle3", "rejection_sample_method": "synthetic"}, 0.0, False),
        ({"method": "eagle3", "synthetic_acceptance_length": 2.2}, 0.0, False),
        (None, 0.0, False),
    ],
)
def test_only_greedy_real_acceptance_is_judged(config, temperature, fits) -> None:
    record = cell({})
    assert record.document is not None
    document = record.document.model_copy(update={"temperature": temperature})
    assert lossy.applies([replace(record, document=document)], config) is fits
