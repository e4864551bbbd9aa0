"""The YAML files and prompts that the project ships: they load, fit together, and say true."""

import json
from collections import Counter
from pathlib import Path

import pytest

from specgauge.config.base import load
from specgauge.config.experiment import Experiment
from specgauge.config.model import Model
from specgauge.config.prompts import load_prompts
from specgauge.config.variant import Variant
from specgauge.config.workload import Workload
from specgauge.embedded.catalogue import MODELS

CONFIG = Path(__file__).parents[2] / "config"
KINDS = {
    "experiments": Experiment,
    "variants": Variant,
    "models": Model,
    "workloads": Workload,
}
FILES = [(kind, path) for kind in KINDS for path in sorted((CONFIG / kind).glob("*.yaml"))]


def of_kind(kind):
    return {p.stem: load(KINDS[kind], p, name=p.stem) for k, p in FILES if k == kind}


def rows(name):
    text = (CONFIG / "workloads" / f"{name}.jsonl").read_text(encoding="ascii")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(("kind", "path"), FILES, ids=[f"{k}/{p.stem}" for k, p in FILES])
def test_file_loads_and_is_called_like_its_content(kind, path):
    assert load(KINDS[kind], path, name=path.stem).name == path.stem


def test_experiments_name_only_what_exists():
    known = {kind: of_kind(kind) for kind in KINDS}
    for experiment in known["experiments"].values():
        model = known["models"][experiment.model]
        for name in [*experiment.variants, experiment.baseline]:
            variant = known["variants"][name]
            assert variant.drafter is None or variant.drafter in model.drafters
        assert experiment.workload in known["workloads"]
        if experiment.warmup:
            assert experiment.warmup.workload in known["workloads"]
        # Without the baseline among the variants there would be no speed-ups.
        assert experiment.baseline in experiment.variants
    for variant in known["variants"].values():
        assert variant.unknown_keys() == []
        if variant.matched_baseline:
            assert known["variants"][variant.matched_baseline].speculative_config is None
    for model in known["models"].values():
        assert model.embedded is None or model.embedded in MODELS


def test_variants_are_the_seeds():
    variants = of_kind("variants")
    assert variants["vanilla"].speculative_config is None
    ngram = variants["ngram"].speculative_config
    improved = variants["ngram_improved"].speculative_config
    keys = ("num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max")
    assert [ngram[key] for key in keys] == [6, 4, 6]
    assert [improved[key] for key in keys] == [4, 2, 128]
    assert variants["eagle3"].speculative_config["num_speculative_tokens"] == 3


def test_seed_is_the_seeds_protocol():
    seed = of_kind("experiments")["seed"]
    assert [(x.name, x.requests) for x in seed.loads] == [("c1", 16), ("c16", 16)]
    assert (seed.output_tokens, seed.ignore_eos, seed.warmup) == (512, False, None)
    assert (seed.prefix_cache, seed.rounds, seed.repeats) == ("keep", 1, 1)
    assert (seed.workload, seed.server.vllm_version) == ("spec_bench", "0.27.1")
    assert of_kind("workloads")["spec_bench"].order == "vllm_bench"
    args = of_kind("models")[seed.model].server_args
    assert args == {"max-model-len": 2048, "gpu-memory-utilization": 0.90}


def test_robust_is_protected_where_the_seed_was_not():
    robust = of_kind("experiments")["robust"]
    assert robust.rounds >= 3
    assert robust.order != "listed"
    assert robust.baseline_last
    assert robust.prefix_cache == "reset"
    sizes = robust.warmup.batches
    assert 1 in sizes
    assert any(n > 1 and n % 16 == 0 for n in sizes)
    assert any(n > 1 and n % 16 for n in sizes)
    for item in robust.loads:
        assert item.requests >= 4 * item.concurrency


@pytest.mark.parametrize("name", ["builtin", "builtin_warmup"])
def test_prompts_are_unique_and_of_a_sensible_length(name):
    prompts = load_prompts(of_kind("workloads")[name], CONFIG / "workloads").prompts
    assert len({p.id for p in prompts}) == len({p.text for p in prompts}) == len(prompts)
    # At some 4 characters a token 10 to 350 tokens: room for the answer in a small context.
    assert all(40 <= len(p.text) <= 1450 for p in prompts)


def test_there_are_prompts_enough_for_the_loads_and_the_warm_up():
    assert len(rows("builtin")) >= 48
    assert len(rows("builtin_warmup")) >= 1 + 1 + 16 + 5


def test_no_warm_up_prompt_is_measured():
    measured = {row["prompt"] for row in rows("builtin")}
    assert not measured & {row["prompt"] for row in rows("builtin_warmup")}


@pytest.mark.parametrize("count", [8, 16, 50])
def test_the_first_prompts_are_balanced_over_the_categories(count):
    built_in = rows("builtin")
    categories = {row["category"] for row in built_in}
    counts = Counter(row["category"] for row in built_in[:count])
    assert max(counts.values()) - min(counts[c] for c in categories) <= 1


def test_spec_bench_is_put_into_the_benchmarks_order(tmp_path):
    # The first questions of `vllm bench serve --dataset-name spec_bench`, seen in its source's run.
    lines = [
        json.dumps({"question_id": 81 + i, "category": "c", "turns": [f"question {i}"]})
        for i in range(480)
    ]
    (tmp_path / "question.jsonl").write_text("\n".join(lines))
    shipped = of_kind("workloads")["spec_bench"]
    workload = shipped.model_copy(update={"sha256": None, "path": "question.jsonl"})
    first = [int(p.id) for p in load_prompts(workload, tmp_path).prompts[:8]]
    assert first == [217, 294, 181, 223, 475, 439, 125, 234]
