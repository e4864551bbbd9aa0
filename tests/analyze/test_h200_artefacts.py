"""What one hour on an H200 held: each artefact is named by the analysis of its capture."""

from __future__ import annotations

from pathlib import Path

import pytest
from h200_run import captured_run

from specgauge.analyze.document import Cell, Reason, Summary
from specgauge.analyze.summary import summarise
from specgauge.report.words import why_step_latency

NGRAM, EAGLE3 = "ngram-dummy-weights", "eagle3-synthetic"


@pytest.fixture(scope="module")
def summary(samples: Path) -> Summary:
    return summarise(captured_run(samples))


def cell(summary: Summary, variant: str, load: str, repeat: int = 0) -> Cell:
    (found,) = [
        c for c in summary.cells if (c.variant, c.load, c.repeat) == (variant, load, repeat)
    ]
    return found


def reasons(found: Cell, code: str) -> list[Reason]:
    return [r for r in found.reasons if r.code == code]


def test_1_a_step_is_not_a_token(summary: Summary) -> None:
    seen = cell(summary, EAGLE3, "c1").observed
    assert seen.step_ms.mean == pytest.approx(20.1, abs=0.1)
    text = why_step_latency(summary)
    assert "the gap between chunks is a step, not a token" in text


def test_2_ngram_changes_the_engine(summary: Summary) -> None:
    (trait,) = reasons(cell(summary, NGRAM, "c16"), "FORCED_TRAIT")
    assert "V1 model runner" in trait.detail
    assert "asynchronous scheduling off" in trait.detail


def test_3_the_first_request_is_named_without_any_line(summary: Summary) -> None:
    found = cell(summary, NGRAM, "c1")
    first, _ = reasons(found, "FREEZE")
    assert first.cause == "FIRST_CALL"
    assert first.evidence["silence_s"] == pytest.approx(1.68, abs=0.01)
    (call,) = reasons(found, "FIRST_CALL")
    assert call.severity == "suspect"


def test_4_the_417_ms_compile_is_named_with_its_kernel(summary: Summary) -> None:
    _, compiled = reasons(cell(summary, NGRAM, "c1"), "FREEZE")
    assert compiled.cause == "JIT"
    assert "rejection_greedy_sample_kernel" in compiled.detail
    assert compiled.evidence["silence_s"] == pytest.approx(0.417, abs=0.001)
    assert compiled.evidence["witness server's step histogram"] == "agrees"


def test_7_the_same_prompts_again_are_warm(summary: Summary) -> None:
    for variant, cached in (("vanilla", 1792), (EAGLE3, 1536), (NGRAM, 1792)):
        again = cell(summary, variant, "c16", repeat=1)
        (warm,) = reasons(again, "CACHE_WARM")
        assert warm.evidence["uncached"] == pytest.approx(1974 - cached)
        assert again.observed.prefix_cache_hit_rate == pytest.approx(cached / 1974)
        assert again.observed.ttft_ms.mean < 0.55 * (
            cell(summary, variant, "c16").observed.ttft_ms.mean or 0
        )  # fmt: skip


def test_client_and_server_agree_on_the_step(summary: Summary) -> None:
    checks = [c.observed.step_check for c in summary.cells]
    assert sum(check is not None for check in checks) >= 6
    assert all(check.agrees for check in checks if check is not None)


def test_the_clean_cells_stay_valid(summary: Summary) -> None:
    for variant in ("vanilla", EAGLE3):
        for load, repeat in (("c1", 0), ("c16", 0), ("c16", 1)):
            assert cell(summary, variant, load, repeat).verdict == "VALID"
