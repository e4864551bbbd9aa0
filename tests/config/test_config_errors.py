"""What a person reads when a configuration or prompts file is wrong."""

from pathlib import Path

import pytest

from specgauge.config.base import find_named, load
from specgauge.config.experiment import Experiment
from specgauge.config.prompts import load_prompts
from specgauge.config.variant import Variant
from specgauge.config.workload import Workload
from specgauge.errors import ExitCode, UsageError

GOOD = """\
name: x
model: m
variants: [vanilla]
loads:
  - {concurrency: 1, requests: 2}
"""


def experiment(tmp_path: Path, text: str) -> Experiment:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    return load(Experiment, path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD + "temprature: 1\n", ":6: temprature: unknown key"),
        (GOOD + "output_token: 5\n", "did you mean 'output_tokens'?"),
        (
            GOOD.replace("concurrency: 1", "concurency: 1"),
            ":5: loads.0.concurency: unknown key; did you mean 'concurrency'?",
        ),
        (GOOD + "sampling: {temperatur: 0}\n", "did you mean 'temperature'?"),
        (GOOD + "output_tokens: many\n", ":6: output_tokens: "),
        (GOOD + "output_tokens: many\n", "found 'many'"),
        (GOOD + "rounds: 0\n", ":6: rounds: Input should be greater than 0"),
        (GOOD + "prefix_cache: rest\n", ":6: prefix_cache: Input should be 'keep' or 'reset'"),
        (GOOD.replace("model: m\n", ""), "model: this key is required"),
        (GOOD.replace("requests: 2", "requests: 2, rate: 3"), "give either 'concurrency'"),
        (GOOD.replace("[vanilla]", "[ngram, ngram]"), "'variants' holds ngram twice"),
        (GOOD + "rounds: 2\nrounds: 3\n", ":7: not valid YAML: the key 'rounds' is written twice"),
        (GOOD + "  bad\n indent: [\n", "not valid YAML"),
        ("- a\n- b\n", "expected keys and values, found a list"),
    ],
)
def test_message_names_line_key_and_remedy(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        experiment(tmp_path, text)
    assert expected in str(caught.value)
    assert str(tmp_path / "x.yaml") in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE


def test_every_fault_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        experiment(tmp_path, GOOD + "rounds: 0\nrepeats: no\n")
    assert len(str(caught.value).splitlines()) == 2


def test_unknown_name_suggests_the_nearest(tmp_path: Path) -> None:
    for name in ("vanilla", "ngram", "eagle3"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n")
    with pytest.raises(UsageError, match="did you mean 'ngram'") as caught:
        find_named(tmp_path, "variant", "ngrm")
    assert "eagle3, ngram, vanilla" in str(caught.value)


def test_speculative_config_is_passed_as_given_and_unknown_keys_are_named() -> None:
    given = {"method": "brand_new", "num_speculative_tokens": 5, "warp_factor": 9}
    variant = Variant(name="v", speculative_config=given)
    assert variant.speculative_config == given
    assert variant.unknown_keys() == ["warp_factor"]


def prompts(tmp_path: Path, content: bytes, **keys: str) -> list[str]:
    (tmp_path / "p.jsonl").write_bytes(content)
    workload = Workload.model_validate({"name": "w", "path": "p.jsonl", **keys})
    return [p.id for p in load_prompts(workload, tmp_path).prompts]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "holds no prompts"),
        (b"\n\n", "holds no prompts"),
        (b'{"prompt": "a"}\n{"prompt": \n', ":2: not a JSON object"),
        (b'{"prompt": "a"}\n\n["b"]\n', ":3: expected a JSON object, found a list"),
        (b'{"prompt": ""}\n', ":1: 'prompt' must be a text that is not empty"),
        (b'{"text": "a"}\n', ":1: 'prompt' must be a text"),
        (b'{"id": "x", "prompt": "a"}\n{"id": "x", "prompt": "b"}', ":2: id 'x' is also on line 1"),
        (b'{"messages": [{"role": "user"}]}\n', ":1: 'messages' must be a list"),
        (b'{"prompt": "\xff"}\n', ":1: not a JSON object"),
    ],
)
def test_broken_prompts_file_names_the_line(tmp_path: Path, content: bytes, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        prompts(tmp_path, content)
    assert expected in str(caught.value)


def test_prompts_keep_their_order_and_odd_line_ends(tmp_path: Path) -> None:
    content = '{"id": 1, "prompt": "a\u2028b"}\r\n{"id": 2, "prompt": "c"}'.encode()
    assert prompts(tmp_path, content) == ["1", "2"]


def test_another_file_than_the_one_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sha256 is"):
        prompts(tmp_path, b'{"prompt": "a"}', sha256="0" * 64)


def test_too_few_prompts_for_a_load(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(b'{"prompt": "a"}')
    loaded = load_prompts(Workload(name="w", path="p.jsonl"), tmp_path)
    with pytest.raises(UsageError, match="load c4 asks for 2 requests"):
        loaded.first(2, "load c4")


def test_spec_bench_order_is_that_of_vllm_bench_serve() -> None:
    shared = Path(__file__).resolve().parents[3] / "shared" / "spec-bench"
    if not (shared / "question.jsonl").is_file():
        pytest.skip(f"Spec-Bench is not shipped with this project and not found in {shared}")
    import json

    workload = Workload(
        name="spec_bench",
        path=str(shared / "question.jsonl"),
        sha256="4b6d33e79484f9841c487ee87d1cf6aa8c6066f61d5d482ff09e5a007fafdf04",
        format="spec_bench",
        order="vllm_bench",
    )
    ids = [int(p.id) for p in load_prompts(workload, shared).prompts]
    assert ids == json.loads((shared / "vllm_spec_bench_seed0_order.json").read_text())
