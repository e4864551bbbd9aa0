"""What a person reads when a configuration or prompts file is wrong."""

import json
from pathlib import Path

import pytest

from specgauge.config.base import StrictModel, find_named, load
from specgauge.config.experiment import Experiment
from specgauge.config.model import Model
from specgauge.config.project import Project
from specgauge.config.prompts import load_prompts
from specgauge.config.references import ReferenceFile
from specgauge.config.resolve import resolve
from specgauge.config.variant import Variant
from specgauge.config.workload import Workload
from specgauge.errors import EnvironmentFault, ExitCode, UsageError

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
        (GOOD + "rounds: true\n", ":6: rounds: Input should be a valid integer, found True"),
        (GOOD + "rounds: '3'\n", ":6: rounds: Input should be a valid integer, found '3'"),
        (GOOD + "confirm: 1\n", ":6: confirm: Input should be a valid boolean, found 1"),
        (GOOD + "rounds: 0\n", ":6: rounds: Input should be greater than 0"),
        (
            GOOD + "prefix_cache: rest\n",
            ":6: prefix_cache: unknown value 'rest'; did you mean 'reset'? (keep, reset)",
        ),
        (
            GOOD + "order: rotate\n",
            "order: unknown value 'rotate'; did you mean 'rotated'? (listed, rotated, shuffled)",
        ),
        (GOOD + "order: 3\n", ":6: order: unknown value 3; valid here: listed, rotated, shuffled"),
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


@pytest.mark.parametrize(
    ("model", "text", "expected"),
    [
        (Model, "name: m\npath: p\nplatform: cdua\n", ":3: platform: unknown value 'cdua'; "
         "did you mean 'cuda'? (any, cpu, cuda)"),
        (ReferenceFile, "results:\n  - {variant: v, load: c1,\n     metric: spedup, value: 1}\n",
         ":3: results.0.metric: unknown value 'spedup'; did you mean 'speedup'?"),
    ],
)  # fmt: skip
def test_a_misspelt_value_is_met_with_the_nearest(
    tmp_path: Path, model: type[StrictModel], text: str, expected: str
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(model, path)
    assert expected in str(caught.value)


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
        (b'{"prompt": "a"}\n' + b"[" * 100_000, ":2: nested too deeply"),
        (b'{"prompt": "a \\ud800"}\n', ":1: holds half of a surrogate pair (\\ud800)"),
        (b'{"id": "\\udfff", "prompt": "a"}\n', ":1: holds half of a surrogate pair"),
        (b'{"category": "\\ud800", "prompt": "a"}\n', ":1: holds half of a surrogate pair"),
        (b'{"messages": [{"role": "\\ud800", "content": "a"}]}\n', ":1: holds half of"),
        (b'{"id": {"a": 1}, "prompt": "a"}\n', ":1: 'id' must be a text or a number"),
        (b'{"id": null, "prompt": "a"}\n', ":1: 'id' must be a text or a number"),
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
    workload = Workload(
        name="spec_bench",
        path=str(shared / "question.jsonl"),
        sha256="4b6d33e79484f9841c487ee87d1cf6aa8c6066f61d5d482ff09e5a007fafdf04",
        format="spec_bench",
        order="vllm_bench",
    )
    ids = [int(p.id) for p in load_prompts(workload, shared).prompts]
    assert ids == json.loads((shared / "vllm_spec_bench_seed0_order.json").read_text())


def test_the_same_text_under_two_ids_is_found_among_the_prompts_that_are_sent(
    tmp_path: Path,
) -> None:
    rows = [{"id": f"p{i}", "prompt": text} for i, text in enumerate(["a", "b", "a", "a", "b"])]
    (tmp_path / "p.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    loaded = load_prompts(Workload(name="w", path="p.jsonl"), tmp_path)
    assert loaded.same_texts(2) == []
    assert loaded.same_texts(5) == [("p0", "p2"), ("p0", "p3"), ("p1", "p4")]


def project(tmp_path: Path, workload: str = "w") -> Project:
    files = {
        "experiments/x": GOOD.replace("name: x", f"workload: {workload}"),
        "models/m": "path: some/model\n",
        "variants/vanilla": "",
        "workloads/w": "path: w.jsonl\n",
        "workloads/far": f"url: http://127.0.0.1:9/none\nsha256: '{0:064}'\n",
    }
    for name, text in files.items():
        path = tmp_path / "config" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "config/workloads/w.jsonl").write_text('{"prompt": "a"}\n{"prompt": "a"}\n')
    return Project(tmp_path)


def test_the_same_text_twice_is_warned_of(tmp_path: Path) -> None:
    (warning,) = resolve(project(tmp_path), "x").warnings
    assert "'line-1' and 'line-2' are the same text" in warning


def test_a_workload_that_cannot_be_fetched_hides_no_other_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECGAUGE_CACHE", str(tmp_path / "cache"))
    far = project(tmp_path, "far")
    with pytest.raises(EnvironmentFault, match="cannot fetch http://127"):
        resolve(far, "x")
    path = tmp_path / "config/experiments/x.yaml"
    path.write_text(path.read_text() + "warmup: {workload: w, batches: [9]}\n")
    with pytest.raises(UsageError, match="the warm-up"):
        resolve(far, "x")


@pytest.mark.parametrize("where", ["models/m", "experiments/x"])
def test_an_output_that_fills_the_context_is_refused(tmp_path: Path, where: str) -> None:
    made = project(tmp_path)
    args = {"models/m": "server_args: {max-model-len: 128}\n",
            "experiments/x": "server: {args: {max-model-len: 128}}\n"}[where]  # fmt: skip
    path = tmp_path / "config" / f"{where}.yaml"
    path.write_text(path.read_text() + args)
    with pytest.raises(UsageError, match="output_tokens: 128 leaves no room"):
        resolve(made, "x")
