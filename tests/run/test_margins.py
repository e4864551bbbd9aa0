"""The questions asked after the last cell: where outputs part, and against which start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from specgauge.plan import StartPlan
from specgauge.record import atomic
from specgauge.record.documents import Margins, Outcome
from specgauge.record.layout import RunPaths
from specgauge.run import margins
from specgauge.run.client import Client

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "analyze"))

from synthetic_run import Plant, build_cell, write_cell


class Answer:
    def __init__(self, value: Any) -> None:
        self.value = value

    def json(self) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("reply", "nats"),
    [
        ({"choices": [{"logprobs": {"top_logprobs": [{" a": -0.25, " b": -1.75}]}}]}, 1.5),
        ({"choices": [{"logprobs": None}]}, None),
        ({"error": {"message": "no"}}, None),
        ({"choices": [{"logprobs": {"top_logprobs": [{" a": -0.25}]}}]}, None),
    ],
)
def test_the_margin_of_an_answer(
    monkeypatch: pytest.MonkeyPatch, reply: Any, nats: float | None
) -> None:
    client = Client("http://127.0.0.1:9", "m")
    sent: list[Any] = []

    def post(url: str, json: Any, timeout: float) -> Answer:
        sent.append(json)
        return Answer(reply)

    monkeypatch.setattr(client._http, "post", post)
    assert client.margin([1, 2, 3]) == nats
    assert (sent[0]["prompt"], sent[0]["max_tokens"], sent[0]["logprobs"]) == ([1, 2, 3], 1, 2)


class Model:
    """Answers every question and remembers it."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def margin(self, token_ids: list[int]) -> float:
        self.asked.append(token_ids)
        return 0.75


def written(run: RunPaths, variant: str, k: int, number: int, tokens: dict[int, list[int]]) -> None:
    """A complete start with one greedy cell whose outputs are ``tokens``."""
    built = build_cell(Plant(requests=len(tokens), output_tokens=4), variant=variant, start=k)
    chunks = built.chunks.to_pandas()
    places = zip(chunks["request"], chunks["seq"], strict=True)
    chunks["token_ids"] = [[tokens[int(request)][int(seq)]] for request, seq in places]
    built.chunks = pa.Table.from_pandas(chunks, schema=built.chunks.schema, preserve_index=False)
    write_cell(run.start(variant, k).cell("c1", 0), built)
    outcome = Outcome(variant=variant, start=k, round=number, state="complete")
    atomic.write_json(run.start(variant, k).outcome, outcome.model_dump(mode="json"))


def test_each_parting_is_asked_once_with_the_common_begin(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    written(run, "vanilla", 0, 0, {0: [5, 6, 7, 8], 1: [5, 6, 7, 8]})
    written(run, "ngram", 0, 0, {0: [5, 6, 9, 9], 1: [5, 6, 7, 8]})
    model: Any = Model()
    margins.ask(model, run, StartPlan("ngram", 0), 0, "vanilla", {"p0": (1, 2), "p1": (3,)})
    assert model.asked == [[1, 2, 5, 6]]
    document = Margins.model_validate_json(run.start("ngram", 0).margins.read_text())
    assert (document.variant, document.start) == ("vanilla", 0)
    (margin,) = document.margins
    assert (margin.load, margin.index, margin.position, margin.margin) == ("c1", 0, 2, 0.75)


def test_the_baseline_is_compared_with_its_first_start_and_a_round_with_its_own(
    tmp_path: Path,
) -> None:
    run = RunPaths(tmp_path)
    for k in range(2):
        written(run, "vanilla", k, k, {0: [5, 6, 7, 8 + k]})
        written(run, "ngram", k, k, {0: [5, 6, 7, 8 + k]})
    model: Any = Model()
    margins.ask(model, run, StartPlan("vanilla", 1), 1, "vanilla", {"p0": (1,)})
    assert model.asked == [[1, 5, 6, 7]]
    margins.ask(model, run, StartPlan("ngram", 1), 1, "vanilla", {"p0": (1,)})
    document = Margins.model_validate_json(run.start("ngram", 1).margins.read_text())
    assert (document.start, document.margins) == (1, [])
    margins.ask(model, run, StartPlan("vanilla", 0), 0, "vanilla", {"p0": (1,)})
    assert len(model.asked) == 2  # start 0 has a sibling by now
