"""Counter differences between the scrapes around a cell."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families

from specgauge.analyze import acceptance, prefix_cache, steps
from specgauge.analyze.counters import Counters, Window
from specgauge.record.schema import SCRAPE_SERIES


def frame(rows: list[tuple[float, str, str, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["t", "name", "labels", "value"])


SCRAPES = [(t / 5, SCRAPE_SERIES, "{}", 0.004) for t in range(101)]


def test_window_reaches_out_to_the_scrapes_on_either_side() -> None:
    counters = Counters(frame(SCRAPES))
    assert counters.window(3.05, 7.3) == Window(3.0, 7.4, True)


@pytest.mark.parametrize(("took", "closing"), [(0.004, 7.4), (0.11, 7.6), (0.2, 7.6)])
def test_a_scrape_that_was_under_way_at_the_end_does_not_close_the_window(
    took: float, closing: float
) -> None:
    slow = [(t, name, labels, took if t == 7.4 else s) for t, name, labels, s in SCRAPES]
    assert Counters(frame(slow)).window(3.05, 7.3) == Window(3.0, closing, True)


def test_window_of_a_server_that_died_ends_with_its_last_scrape() -> None:
    assert Counters(frame(SCRAPES)).window(3.05, 99.0) == Window(3.0, 20.0, False)


def test_no_window_without_a_scrape_before() -> None:
    late = [row for row in SCRAPES if row[0] > 5]
    assert Counters(frame(late)).window(3.0, 7.0) is None
    assert Counters(frame([])).window(3.0, 7.0) is None


def test_value_is_the_last_row_at_or_before() -> None:
    counters = Counters(frame([*SCRAPES, (1.0, "a", "{}", 5.0), (4.0, "a", "{}", 9.0)]))
    assert counters.at("a", 3.99) == 5
    assert counters.at("a", 4.0) == 9
    assert counters.at("a", 0.5) == 0
    assert counters.at("b", 4.0) is None


def test_delta_sums_over_labels_and_selects_by_them() -> None:
    rows = [
        (0.0, "f", '{"reason":"length"}', 2.0),
        (0.0, "f", '{"reason":"stop"}', 1.0),
        (5.0, "f", '{"reason":"length"}', 10.0),
        (6.0, "f", '{"reason":"abort"}', 4.0),
    ]
    counters = Counters(frame([*SCRAPES, *rows]))
    window = Window(1.0, 8.0, True)
    assert counters.delta("f", window) == 8 + 4
    assert counters.delta("f", window, reason="stop") == 0
    assert counters.delta_by("f", "reason", window) == {"length": 8, "stop": 0, "abort": 4}
    assert counters.delta("g", window) is None


def scrape(path: Path, t: float) -> list[tuple[float, str, str, float]]:
    rows = [(t, SCRAPE_SERIES, "{}", 0.004)]
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            labels = json.dumps(dict(sorted(sample.labels.items())), separators=(",", ":"))
            rows.append((t, sample.name, labels, float(sample.value)))
    return rows


@pytest.mark.parametrize(
    ("variant", "k"), [("eagle3", 3), ("ngram_k4_2_128", 4), ("ngram_k6_4_6", 6)]
)
def test_captured_scrapes_keep_the_identity(samples: Path, variant: str, k: int) -> None:
    """16 requests of 512 tokens lie between two captured scrapes of a real server."""
    folder = samples / "0.27.1-cpu" / variant
    rows = scrape(folder / "metrics_after_c1.txt", 1.0) + scrape(
        folder / "metrics_after_c16.txt", 2.0
    )
    counters, window = Counters(frame(rows)), Window(1.0, 2.0, True)
    assert counters.delta("vllm:request_success_total", window) == 16
    tokens = counters.delta("vllm:generation_tokens_total", window)
    assert tokens == 16 * 512
    drafted = acceptance.drafting(counters, window)
    count = steps.server_steps(counters, window)
    assert drafted is not None
    assert drafted.length is not None
    assert count is not None
    assert len(drafted.by_position) == k
    assert sum(drafted.distribution) == pytest.approx(1)
    assert list(drafted.by_position) == sorted(drafted.by_position, reverse=True)
    assert sum(drafted.per_position) == drafted.accepted
    tokens_per_step = (tokens - 16) / count
    identity = 1 + drafted.drafts / count * (drafted.length - 1)
    assert 0 <= identity - tokens_per_step <= k * 16 / count
    hit_rate = prefix_cache.hit_rate(counters, window)
    assert hit_rate is not None
    assert 0 <= hit_rate <= 1
    mean = steps.server_mean(counters, window)
    assert mean is not None
    assert 0.004 < mean < 0.02


def test_every_captured_scrape_holds_the_series_we_read(samples: Path) -> None:
    needed = {
        "vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:request_success_total",
        "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total",
        "vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count",
        "vllm:num_preemptions_total",
    }  # fmt: skip
    files = [*samples.glob("*/*/metrics_after_*.txt"), *samples.glob("*/*/*.prom")]
    assert len(files) >= 12
    for path in files:
        exposed = set(re.findall(r"^([a-z_:]+)", path.read_text(), re.MULTILINE))
        assert needed - exposed == set(), path
