"""UNLIKE, CACHE_WARM and COMPILE_CACHE see their plants, and nothing in matching sides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import (
    BASE,
    FAST,
    NGRAM,
    NGRAM_LOG,
    VANILLA_LOG,
    StartPlant,
    write_run,
)

from specgauge.analyze.document import Comparison, Summary
from specgauge.analyze.fingerprint import differences, flags
from specgauge.analyze.summary import summarise
from specgauge.analyze.validity import compile_cache
from specgauge.record.documents import CacheState, Launch
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run

C1 = ({"requests": 8, "concurrency": 1},)


def write(folder: Path, ngram: Any = FAST, vanilla: Any = BASE) -> Path:
    starts = {
        ("vanilla", 0): StartPlant({"c1": [vanilla]}, log=VANILLA_LOG),
        ("ngram", 0): StartPlant({"c1": [ngram]}, log=NGRAM_LOG, speculative_config=NGRAM),
    }
    return write_run(folder, starts, loads=C1)


def launched(folder: Path, variant: str, **changes: Any) -> None:
    path = RunPaths(folder).start(variant, 0).launch
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def throughput(summary: Summary) -> Comparison:
    (found,) = [c for c in summary.comparisons if c.metric == "output_tok_s"]
    return found


def seen(summary: Summary, code: str) -> Any:
    return next((n for n in throughput(summary).notes if n.code == code), None)


def test_matching_sides_are_valid(tmp_path: Path) -> None:
    folder = write(tmp_path / "r")
    base = ["vllm", "serve", "m", "--port", "8111", "--max-model-len", "2048"]
    launched(folder, "vanilla", argv=base)
    folders = ("TRITON_CACHE_DIR", "VLLM_CACHE_ROOT", "CUDA_CACHE_PATH", "HF_HUB_CACHE")
    launched(folder, "ngram", env=dict.fromkeys(folders, "/elsewhere"),
             argv=[*base, "--speculative-config", '{"method": "ngram"}'])  # fmt: skip
    summary = summarise(read_run(folder))
    assert throughput(summary).verdict == "VALID"
    assert len({c.fingerprint for c in summary.cells}) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"argv": ["vllm", "serve", "--max-num-seqs", "8"]}, "flag --max-num-seqs: 8 against not"),
        ({"argv": ["vllm", "serve", "--enforce-eager"]}, "flag --enforce-eager: true"),
        ({"env": {"VLLM_ATTENTION_BACKEND": "X"}}, "variable VLLM_ATTENTION_BACKEND"),
        ({"env": {"VLLM_CPU_KVCACHE_SPACE": "1"}}, "variable VLLM_CPU_KVCACHE_SPACE: 1 against"),
        ({"env": {"VLLM_DISABLE_COMPILE_CACHE": "1"}}, "variable VLLM_DISABLE_COMPILE_CACHE"),
    ],
)
def test_a_chosen_flag_makes_it_unlike(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    folder = write(tmp_path / "r")
    launched(folder, "ngram", **changes)
    summary = summarise(read_run(folder))
    assert throughput(summary).verdict == "INVALID"
    assert words in seen(summary, "UNLIKE").detail
    assert all(c.verdict == "VALID" for c in summary.cells)


def test_other_prompts_make_it_unlike(tmp_path: Path) -> None:
    summary = summarise(read_run(write(tmp_path / "r", replace(FAST, prompt_tokens=41))))
    assert "prompts and their order" in seen(summary, "UNLIKE").detail


def test_what_a_matched_baseline_sets_is_no_choice() -> None:
    plain = flags(["vllm", "serve", "m", "--seed=1"])
    matched = flags(["vllm", "serve", "m", "--seed", "1", "--no-async-scheduling"])
    assert plain == matched == {"seed": "1"}
    assert not differences({"flag --a": "1"}, {"flag --a": "1", "temperature": "0.0"})


def test_a_warm_cache_on_one_side_is_suspect(tmp_path: Path) -> None:
    plants = (replace(FAST, prompt_tokens=400, cached_share=0.9), replace(BASE, prompt_tokens=400))
    summary = summarise(read_run(write(tmp_path / "r", *plants)))
    warm = seen(summary, "CACHE_WARM")
    assert warm.severity == "suspect"
    assert warm.evidence["share"] == pytest.approx(0.65)
    assert throughput(summary).verdict == "SUSPECT"
    tpot = next(c for c in summary.comparisons if c.metric == "tpot")
    assert tpot.verdict == "VALID"


def test_a_block_a_request_is_no_warm_cache(tmp_path: Path) -> None:
    plants = (replace(FAST, prompt_tokens=400, cached_share=0.28), replace(BASE, prompt_tokens=400))
    assert seen(summarise(read_run(write(tmp_path / "r", *plants))), "CACHE_WARM") is None


def test_a_repeat_that_found_its_prompts_cached_says_so(tmp_path: Path) -> None:
    cold, warm = (replace(BASE, prompt_tokens=400, cached_share=s) for s in (0.0, 0.9))
    starts = {("vanilla", 0): StartPlant({"c1": [cold, warm]}, log=VANILLA_LOG)}
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=C1, repeats=2)))
    (first, again) = summary.cells
    assert "CACHE_WARM" not in [r.code for r in first.reasons]
    (note,) = [r for r in again.reasons if r.code == "CACHE_WARM"]
    assert (note.severity, again.verdict) == ("info", "VALID")


def launch(files: int | None) -> Launch:
    before = [] if files is None else [CacheState(path="t", files=files, bytes=1)]
    return Launch(id="x", argv=[], env={}, started_at=0, clock_offset=0, cache_before=before)


def test_cold_against_warm_compile_caches() -> None:
    found = compile_cache.check([(launch(12), launch(0))])
    assert found is not None
    assert "the variant" in found.detail
    for alike in ((0, 0), (3, 90), (None, 0)):
        assert compile_cache.check([(launch(alike[0]), launch(alike[1]))]) is None
