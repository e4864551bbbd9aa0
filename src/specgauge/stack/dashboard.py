"""The Grafana dashboard, as code: ``python -m specgauge.stack.dashboard`` writes the JSON.

Everything is for viewing while a run goes on.  The figures that count come from the run's own
records; these come from Prometheus at 1 s, over the last few scrapes.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OUTPUT = Path("config") / "grafana" / "dashboards" / "specgauge.json"
SOURCE = {"type": "prometheus", "uid": "specgauge"}
_W = "$__rate_interval"
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8
_GPU = "{{pci_bus_id}}"


@dataclass(frozen=True)
class Query:
    """One PromQL expression and how its series are called."""

    expr: str
    legend: str = "{{variant}}"


@dataclass(frozen=True)
class Panel:
    """One graph.  ``unit`` is Grafana's name of it."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    text: str = ""
    """What the figure means, shown at the panel's corner."""
    needs: str = "any"
    """``speculation`` or ``gpu``: empty without it."""


def _rate(metric: str, by: str = "variant") -> str:
    return f"sum by ({by}) (rate(vllm:{metric}[{_W}]))"


def _ratio(above: str, below: str) -> str:
    """A ratio of rates; no point, instead of 0/0, where nothing happened."""
    return f"({above}) / (({below}) > 0)"


def _quantiles(metric: str) -> tuple[Query, ...]:
    buckets = _rate(f"{metric}_bucket", "variant, le")
    mean = _ratio(_rate(f"{metric}_sum"), _rate(f"{metric}_count"))
    return (
        Query(f"histogram_quantile(0.5, {buckets})", "{{variant}} p50"),
        Query(f"histogram_quantile(0.9, {buckets})", "{{variant}} p90"),
        Query(mean, "{{variant}} mean"),
    )


_DRAFTS = _rate("spec_decode_num_drafts_total")
_ACCEPTED = _rate("spec_decode_num_accepted_tokens_total")
_STEPS = _rate("inter_token_latency_seconds_count")
"""Request-steps after the first: vLLM adds one sample of this histogram for each."""

PANELS = (
    Panel(
        "Output tokens/s",
        "none",
        (Query(_rate("generation_tokens_total")),),
        "Tokens generated per second, all requests of the server.",
    ),
    Panel(
        "TTFT",
        "s",
        _quantiles("time_to_first_token_seconds"),
        "Time to first token as the server sees it; quantiles are as coarse as its buckets.",
    ),
    Panel(
        "TPOT",
        "s",
        _quantiles("request_time_per_output_token_seconds"),
        "Time per output token after the first, of requests that ended.",
    ),
    Panel(
        "Step latency",
        "s",
        _quantiles("inter_token_latency_seconds"),
        "Gap between a request's chunks. Under speculation a chunk holds several tokens: this is "
        "not per token and by itself no speed-up.",
    ),
    Panel(
        "Requests running and waiting",
        "none",
        (
            Query("sum by (variant) (vllm:num_requests_running)", "{{variant}} running"),
            Query("sum by (variant) (vllm:num_requests_waiting)", "{{variant}} waiting"),
        ),
    ),
    Panel("KV-cache use", "percentunit", (Query("max by (variant) (vllm:kv_cache_usage_perc)"),)),
    Panel(
        "Prefix-cache hit rate",
        "percentunit",
        (Query(_ratio(_rate("prefix_cache_hits_total"), _rate("prefix_cache_queries_total"))),),
        "Tokens found in the prefix cache over tokens looked up.",
    ),
    Panel(
        "Acceptance length",
        "none",
        (Query(f"1 + {_ratio(_ACCEPTED, _DRAFTS)}"),),
        "1 + accepted / drafts: only of steps that had a draft. Read it with the next two.",
        "speculation",
    ),
    Panel(
        "Tokens per step",
        "none",
        (
            Query(
                _ratio(
                    f"{_rate('generation_tokens_total')} - "
                    f"{_rate('time_to_first_token_seconds_count')}",
                    _STEPS,
                )
            ),
        ),
        "Tokens per request-step, with a draft or without: what speculation really yields.",
    ),
    Panel(
        "Draft coverage",
        "percentunit",
        (Query(_ratio(_DRAFTS, _STEPS)),),
        "Share of request-steps that had a draft.",
        "speculation",
    ),
    Panel(
        "Acceptance by position",
        "percentunit",
        (
            Query(
                f"{_rate('spec_decode_num_accepted_tokens_per_pos_total', 'variant, position')} "
                f"/ on (variant) group_left () ({_DRAFTS} > 0)",
                "{{variant}} {{position}}",
            ),
        ),
        "Share of drafts whose token at this position (from 0) was accepted.",
        "speculation",
    ),
    Panel(
        "JIT events",
        "none",
        (Query("sum by (variant) (specgauge_jit_events_total)"),),
        "Lines of vLLM's JIT monitor so far. Each is a compile while requests wait; a step of this "
        "line beside a gap in the tokens is a freeze.",
    ),
    Panel(
        "GPU power",
        "watt",
        (Query("specgauge_gpu_power_watts", _GPU),),
        needs="gpu",
    ),
    Panel(
        "GPU clock",
        "hertz",
        (Query("specgauge_gpu_sm_clock_hertz", f"{_GPU} SM"),),
        "A lower clock under one variant than under another explains part of its time.",
        "gpu",
    ),
    Panel(
        "GPU memory",
        "bytes",
        (
            Query("specgauge_gpu_memory_used_bytes", f"{_GPU} used"),
            Query("specgauge_gpu_memory_total_bytes", f"{_GPU} of"),
        ),
        needs="gpu",
    ),
    Panel(
        "Processes on the GPU",
        "none",
        (Query("specgauge_gpu_processes", f"{_GPU} {{{{owner}}}}"),),
        "Anything but 'ours' spoils a measurement.",
        "gpu",
    ),
)

PHASES = Query("specgauge_cell_info", "{{variant}} {{load}} repeat {{repeat}}")
"""1 while a cell runs: shown as a region over every graph."""


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    return {
        "uid": "specgauge",
        "title": "specgauge live",
        "editable": False,
        "schemaVersion": 39,
        "time": {"from": "now-5m", "to": "now"},
        "refresh": "1s",
        "timepicker": {"refresh_intervals": ["1s", "5s", "30s"]},
        "annotations": {
            "list": [
                {
                    "name": "cells",
                    "datasource": SOURCE,
                    "enable": True,
                    "iconColor": "blue",
                    "expr": PHASES.expr,
                    "titleFormat": PHASES.legend,
                    "step": "1s",
                }
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def text() -> str:
    """The JSON that is checked in."""
    return json.dumps(dashboard(), indent=1) + "\n"


def main() -> int:
    """Write it into the checkout in the current folder."""
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(text(), encoding="utf-8")
    print(OUTPUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
