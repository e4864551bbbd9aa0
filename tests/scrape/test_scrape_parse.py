"""Scrapes become samples and then changes, nothing invented, nothing lost."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from specgauge.record.schema import METRICS, SCRAPE_SERIES
from specgauge.scrape.parse import samples
from specgauge.scrape.series import Scrape, changes

SAMPLES = Path(__file__).parents[2] / ".." / "shared" / "vllm" / "samples"
CAPTURED = sorted([*SAMPLES.glob("**/*.prom"), *SAMPLES.glob("**/metrics_*.txt")])

TEXT = """\
# HELP vllm:generation_tokens_total Number of generation tokens.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="m",engine="0"} 12.0
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{engine="0",model_name="m"} 1.8e+09
# TYPE vllm:ttft_seconds histogram
vllm:ttft_seconds_bucket{le="0.1"} 1.0
vllm:ttft_seconds_bucket{le="+Inf"} 3.0
vllm:ttft_seconds_count 3.0
vllm:ttft_seconds_sum 1.5
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{generation="0"} 9.0
# TYPE http_requests_total counter
http_requests_total{handler="/x"} 5.0
# TYPE odd gauge
odd{text="a \\"quoted\\" é"} NaN
"""


def test_samples_of_a_text():
    found = list(samples(TEXT))
    assert found[:5] == [
        ("vllm:generation_tokens_total", '{"engine":"0","model_name":"m"}', 12.0),
        ("vllm:ttft_seconds_bucket", '{"le":"0.1"}', 1.0),
        ("vllm:ttft_seconds_bucket", '{"le":"+Inf"}', 3.0),
        ("vllm:ttft_seconds_count", "{}", 3.0),
        ("vllm:ttft_seconds_sum", "{}", 1.5),
    ]
    (odd,) = found[5:]
    assert odd[:2] == ("odd", '{"text":"a \\"quoted\\" é"}')
    assert math.isnan(odd[2])


@pytest.mark.skipif(not CAPTURED, reason=f"no captured scrapes at {SAMPLES}")
@pytest.mark.parametrize("path", CAPTURED, ids=lambda p: f"{p.parts[-3]}-{p.parts[-2]}-{p.name}")
def test_captured_scrapes_parse_completely(path):
    """Every sample line but the dropped ones is there, once."""
    text = path.read_text()
    found = list(samples(text))
    keys = {(name, labels) for name, labels, _value in found}
    assert len(keys) == len(found)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    kept = [
        line
        for line in lines
        if not line.startswith(("python_gc_", "http_"))
        and not line.split("{")[0].split(" ")[0].endswith("_created")
    ]
    assert len(found) == len(kept)
    names = {name for name, _labels in keys}
    assert "vllm:generation_tokens_total" in names
    assert len(list(text_string_to_metric_families(text))) > 10


def scrape(t, text):
    return Scrape(t, 0.002, lambda: text)


def test_a_row_where_a_series_begins_and_where_it_changes():
    table = changes(
        [
            scrape(1.0, "a_total 1\nb NaN\n"),
            scrape(1.2, "a_total 1\nb NaN\n"),
            scrape(1.4, "a_total 4\nb NaN\nc 0\n"),
            scrape(1.6, "a_total {cut"),
            scrape(1.8, "a_total 4\nb 1\nc 0\n"),
        ]
    )
    assert table.schema.equals(METRICS)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert [row[0] for row in rows if row[1] == SCRAPE_SERIES] == [1.0, 1.2, 1.4, 1.6, 1.8]
    assert {row[3] for row in rows if row[1] == SCRAPE_SERIES} == {0.002}
    assert [(row[0], row[3]) for row in rows if row[1] == "a_total"] == [(1.0, 1.0), (1.4, 4.0)]
    assert [row[0] for row in rows if row[1] == "b"] == [1.0, 1.8]
    assert [row[0] for row in rows if row[1] == "c"] == [1.4]


def test_no_scrape_at_all_is_an_empty_table():
    table = changes([])
    assert table.schema.equals(METRICS)
    assert table.num_rows == 0


@given(st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), max_size=12))
def test_the_last_row_at_or_before_a_time_is_the_value_then(values):
    scrapes = [
        scrape(float(t), f'x{{k="0"}} {a}\nx{{k="1"}} {b}\n') for t, (a, b) in enumerate(values)
    ]
    rows = [row for row in changes(scrapes).to_pylist() if row["name"] == "x"]
    for t, planted in enumerate(values):
        for k, value in enumerate(planted):
            before = [
                row["value"] for row in rows if row["labels"] == f'{{"k":"{k}"}}' and row["t"] <= t
            ]
            assert before[-1] == value


@pytest.mark.skipif(not CAPTURED, reason=f"no captured scrapes at {SAMPLES}")
def test_two_captured_scrapes_in_a_row_give_the_same_series_as_each_alone():
    """Parsing only what changed loses nothing: the state after both is the second one's."""
    first, second = (
        next(p for p in CAPTURED if p.parent.name == "eagle3" and p.name.endswith(name))
        for name in ("c1.txt", "c16.txt")
    )
    table = changes([scrape(1.0, first.read_text()), scrape(2.0, second.read_text())])
    state = {(row["name"], row["labels"]): row["value"] for row in table.to_pylist()}
    del state[SCRAPE_SERIES, "{}"]
    expected = {**as_state(first.read_text()), **as_state(second.read_text())}
    assert {key: repr(value) for key, value in state.items()} == expected


def as_state(text):
    return {(name, labels): repr(value) for name, labels, value in samples(text)}
