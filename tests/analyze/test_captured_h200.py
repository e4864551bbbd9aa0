"""What was captured on an H200 with another client: the artefacts of that hour, each told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from bench_json import h200
from contexts import codes, reason
from synthetic_run import NGRAM, Plant, build_cell

from specgauge.analyze.context import CellContext, StartContext
from specgauge.analyze.counters import Counters
from specgauge.analyze.figures import observe
from specgauge.analyze.log import traits
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.records import (
    LoadSetup,
    LogLine,
    RunSetup,
    StartRecord,
    VariantSetup,
)
from specgauge.record.schema import METRICS


def captured(samples: Path, variant: str, load: str, *, first: bool) -> CellContext:
    """A captured H200 cell as a context, its log's traits against vanilla's."""
    folder = samples / "0.26.0-h200"

    def read(name: str) -> EngineTraits:
        text = (folder / name / "server.log").read_text(errors="replace")
        return traits.read([LogLine(0.0, "O", x) for x in text.split("\n")])

    requests, chunks, concurrency = h200(folder / variant / f"{load}.json.gz")
    config = {"vanilla": None, "ngram-dummy-weights": NGRAM,
              "eagle3-synthetic": {"method": "eagle3", "num_speculative_tokens": 3}}  # fmt: skip
    built = build_cell(Plant(requests=len(requests), concurrency=concurrency), variant=variant)
    record = replace(built.record, requests=requests, chunks=chunks, document=None)
    start = StartRecord(variant, 0, None, None, (), pd.DataFrame(columns=METRICS.names), (record,))
    setup = RunSetup(
        "e", "r", "m", "vanilla", tuple(VariantSetup(n, c) for n, c in config.items()),
        (LoadSetup(record.load, len(requests), concurrency),),
    )  # fmt: skip
    baseline = None if variant == "vanilla" else read("vanilla")
    return CellContext(
        record, StartContext(start, Counters(start.metrics), read(variant)), setup, baseline, first
    )


def test_artefact_a_step_is_not_a_token(samples: Path) -> None:
    """The gap between eagle3's chunks is longer than vanilla's while it is twice as fast."""
    vanilla, eagle3 = (
        observe(captured(samples, v, "c1", first=False)) for v in ("vanilla", "eagle3-synthetic")
    )
    assert vanilla.step_ms.mean is not None
    assert eagle3.step_ms.mean is not None
    assert vanilla.tpot_ms.mean is not None
    assert eagle3.tpot_ms.mean is not None
    assert eagle3.step_ms.mean > vanilla.step_ms.mean
    assert eagle3.tpot_ms.mean < 0.55 * vanilla.tpot_ms.mean
    assert eagle3.tokens_per_step == pytest.approx(2.2, abs=0.05)


def test_artefact_ngram_changes_the_engine(samples: Path) -> None:
    seen = reason(captured(samples, "ngram-dummy-weights", "c1", first=False), "FORCED_TRAIT")
    assert "V1 model runner" in seen.detail
    assert "asynchronous scheduling off" in seen.detail


def test_artefact_ngrams_first_request(samples: Path) -> None:
    seen = reason(captured(samples, "ngram-dummy-weights", "c1", first=True), "FIRST_CALL")
    assert seen.severity == "suspect"
    cost = seen.evidence["cost_s"]
    assert isinstance(cost, float)
    assert 1.3 < cost < 2.0
    assert "FIRST_CALL" not in codes(captured(samples, "vanilla", "c1", first=True))


@pytest.mark.parametrize("variant", ["vanilla", "eagle3-synthetic", "ngram-dummy-weights"])
def test_captured_h200_figures_agree_with_their_own_client(samples: Path, variant: str) -> None:
    import gzip
    import json

    path = samples / "0.26.0-h200" / variant / "c16b.json.gz"
    told = json.loads(gzip.decompress(path.read_bytes()))["summary"]
    seen = observe(captured(samples, variant, "c16b", first=False))
    assert seen.output_tok_s == pytest.approx(told["out_tok_s"], rel=0.003)
    assert seen.ttft_ms.mean == pytest.approx(told["ttft_ms"]["mean"], rel=0.003)
    assert seen.tpot_ms.mean == pytest.approx(told["tpot_ms"]["mean"], rel=0.003)
    assert seen.step_ms.mean == pytest.approx(told["itl_ms"]["mean"], rel=0.003)
    assert seen.tokens_per_step is not None
