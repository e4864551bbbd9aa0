"""The planted document: what it accepts, and what it says about mistakes."""

from __future__ import annotations

import json

import pytest

from specgauge.errors import UsageError
from specgauge.simulate.arguments import parse
from specgauge.simulate.steptime import StepTime
from specgauge.simulate.truth import Truth, parse_truth


def test_unknown_key_is_named_with_the_nearest_one():
    with pytest.raises(
        UsageError, match=r"freezes\.0\.lenght_s: unknown key; did you mean 'length_s'"
    ):
        parse_truth('{"freezes": [{"length_s": 1, "lenght_s": 1}]}')


def test_every_fault_has_a_line():
    with pytest.raises(UsageError) as caught:
        parse_truth('{"sead": 1, "merge_probability": 2}')
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert any("merge_probability" in line for line in lines)


def test_path_and_inline_are_the_same(tmp_path):
    text = json.dumps({"seed": 7, "step_ms": {"1": 5}})
    path = tmp_path / "truth.json"
    path.write_text(text)
    assert parse_truth(str(path)) == parse_truth(text)
    with pytest.raises(UsageError, match="cannot be read"):
        parse_truth(str(tmp_path / "absent.json"))


@pytest.mark.parametrize(
    "variant",
    [
        {"accepted": {"0": 0.5, "1": 0.4}},
        {"acceptance": [1.2]},
        {"acceptance": [0.5], "accepted": {"0": 1}},
        {"draft_lengths": {"0": 1}},
    ],
)
def test_bad_acceptance_is_refused(variant):
    with pytest.raises(UsageError, match="variants"):
        parse_truth(json.dumps({"variants": {"ngram": variant}}))


def test_events_of_other_variants_and_starts_are_left_out():
    truth = Truth.model_validate(
        {
            "freezes": [
                {"length_s": 1, "variants": ["ngram"]},
                {"length_s": 2, "starts": [1]},
                {"length_s": 3},
            ]
        }
    )
    assert [f.length_s for f in truth.for_process("ngram", 0).freezes] == [1, 3]
    assert [f.length_s for f in truth.for_process("vanilla", 1).freezes] == [2, 3]


def test_step_table_is_linear_between_and_constant_outside():
    steps = StepTime(Truth.model_validate({"step_ms": {"4": 10, "8": 14}}), "vanilla")
    assert [steps.mean(b) for b in (1, 4, 6, 8, 64)] == [0.010, 0.010, 0.012, 0.014, 0.014]
    affine = StepTime(Truth.model_validate({"step_ms": {"base": 8, "per_request": 0.5}}), "vanilla")
    assert affine.mean(4) == pytest.approx(0.010)


def test_command_line_as_for_vllm_serve():
    arguments = parse(
        [
            *("/models/x", "--host", "127.0.0.1", "--port=8231", "--served-model-name", "m"),
            *("--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "16"),
            *("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 6}'),
        ],
        {},
    )
    assert (arguments.model, arguments.port, arguments.served_model_name) == (
        "/models/x",
        8231,
        "m",
    )
    assert (arguments.method, arguments.k, arguments.max_num_seqs) == ("ngram", 6, 16)
    assert arguments.enforce_eager
    assert parse(["x"], {}).method == "vanilla"


def test_bad_command_line():
    with pytest.raises(UsageError, match="--port: expected a whole number, found 'x'"):
        parse(["m", "--port", "x"], {})
    with pytest.raises(UsageError, match="--speculative-config: not valid JSON"):
        parse(["m", "--speculative-config", "{"], {})
