"""Whose weights were served, and which published results they may stand beside."""

from __future__ import annotations

import pytest

from specgauge.analyze import weights
from specgauge.analyze.document import Reference, Summary
from specgauge.report import published

DUMMY = {"load-format": "dummy"}


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ({"model": {"embedded": "smollm2-135m"}}, "SmolLM2-135M-Instruct"),
        ({"model": {"path": "Qwen/Qwen3-32B"}}, "Qwen/Qwen3-32B"),
        ({"model": {"path": "/data/Qwen3-32B"}}, "Qwen3-32B"),
        ({"model": {"path": "/hf/hub/models--Qwen--Qwen3-32B/snapshots/0a1b"}}, "Qwen/Qwen3-32B"),
        ({"model": {"path": "Qwen/Qwen3-32B", "server_args": DUMMY}}, weights.DUMMY),
        ({"model": {"path": "Qwen/Qwen3-32B"}, "experiment": {"server": {"args": DUMMY}}},
         weights.DUMMY),
        ({"model": "m"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_weights_own_name(manifest: dict[str, object], name: str | None) -> None:
    assert weights.of(manifest) == name


@pytest.mark.parametrize(
    ("model", "served", "beside"),
    [
        ("mine", "Qwen/Qwen3-32B", True),
        ("Qwen3-32B", None, True),
        ("qwen3-32b", weights.DUMMY, False),
        ("qwen3", None, False),
        ("q", "Qwen", False),
        ("", None, False),
    ],
)
def test_times_stand_beside_those_of_the_same_weights_only(
    model: str, served: str | None, beside: bool
) -> None:
    conditions = {"model": "Qwen/Qwen3-32B (bf16)", "gpu": "H200"}
    theirs = Reference(source="s", variant="vanilla", load="c1", metric="output_tok_s",
                       basis="observed", theirs=23.0, ours=22.0, difference=-0.04,
                       verdict="VALID", conditions=conditions)  # fmt: skip
    environment = {"machine": {"gpus": ["NVIDIA H200"]}, "weights": served}
    summary = Summary.model_construct(model=model, environment=environment, references=[theirs])
    assert bool(published.table(summary).rows) is beside
