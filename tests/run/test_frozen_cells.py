"""Which cells a run repeats: a warm cell has no prefill to hide a freeze behind."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from specgauge.record.layout import RunPaths
from specgauge.run.client import Client
from specgauge.run.confirm import frozen_cells

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "analyze"))

from frozen import stop
from synthetic_run import Plant, build_cell, write_cell

COLD = Plant(requests=6, concurrency=1, prompt_tokens=4000, ttft_s=2.0, cached_share=0.0)
WARM = replace(COLD, ttft_s=0.1, seed=1)
T0 = 2000.0


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """c1 reads 4,000 tokens in 2 s a prompt; c2 finds them all in the cache, and stands still for
    1.5 s before its first token."""
    run = RunPaths(tmp_path)
    warm = stop(build_cell(WARM, load="c2", t0=T0), T0 + 0.05, 1.5)
    for load, built in (("c1", build_cell(COLD, load="c1")), ("c2", warm)):
        table = built.record.requests.assign(cached_tokens=None)
        built.record = replace(built.record, requests=table)
        built.requests = built.requests.from_pandas(
            table, schema=built.requests.schema, preserve_index=False
        )
        built.chunks = built.chunks.from_pandas(
            built.record.chunks, schema=built.chunks.schema, preserve_index=False
        )
        write_cell(run.start("vanilla", 0).cell(load, 0), built)
    return run


def test_a_warm_cell_that_stood_still_is_repeated(run: RunPaths) -> None:
    (found,) = frozen_cells(run, "vanilla", 0, {("c1", 0): 0.0, ("c2", 0): 1.0})
    assert (found.load, found.repeat) == ("c2", 0)
    assert found.seconds == pytest.approx(1.5, abs=0.15)


def test_counted_cold_its_freeze_would_pass_for_prefill(run: RunPaths) -> None:
    assert frozen_cells(run, "vanilla", 0, {}) == []


METRICS = """\
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0"} 100.0
vllm:prefix_cache_queries_total{engine="1"} 20.0
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0"} 30.0
"""


@pytest.mark.parametrize(
    ("text", "told"), [(METRICS, (120.0, 30.0)), ("", None), ("no metrics {", None)]
)
def test_what_the_server_tells_of_its_prefix_cache(
    monkeypatch: pytest.MonkeyPatch, text: str, told: Any
) -> None:
    answer = requests.Response()
    answer._content, answer.status_code = text.encode(), 200
    client = Client("http://127.0.0.1:9", "m")
    monkeypatch.setattr(client._http, "get", lambda *_, **__: answer)
    assert client.prefix_cache() == told
