"""One profile with a real vLLM on the CPU, watched by a real Prometheus.

The only planted thing is the GPU that the exporter tells of.
"""

from __future__ import annotations

import json
import math
import os
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from compose_stack import Stack

from specgauge.config.project import cache_folder
from specgauge.stack.dashboard import PANELS, PHASES

pytestmark = pytest.mark.docker

MODEL = "smollm2-135m"


@pytest.fixture
def real(stack: Stack, free_port: int) -> Stack:
    prefix = os.environ["SPECGAUGE_TEST_IMAGES"]
    if not list((cache_folder() / "models").glob(f"{MODEL}-*/model.safetensors")):
        pytest.skip("the embedded model is not in the cache: make setup")
    gpu = {"uuid": "GPU-a", "pci_bus_id": "00000000:41:00.0", "processes": [{"pid": 1}]}
    planted = json.dumps({"gpus": [gpu]})
    stack.env |= {
        "VLLM_IMAGE": f"{prefix}-vllm-cpu",
        "MODEL_CACHE": str(cache_folder()),
        "EXPERIMENT": "quick",
        "PROMETHEUS_PORT": str(free_port),
    }
    environment = {"SPECGAUGE_FAKE_NVML": planted, "GPU_UUID": "GPU-a"}
    stack.override = {
        "services": {"gpu-exporter": {"profiles": ["ngram"], "environment": environment}}
    }
    return stack


def test_real_vllm_is_measured_and_seen(real: Stack) -> None:
    done = real.compose("--profile", "ngram", "up", timeout=560)

    assert done.returncode == 0, done.stdout[-5000:]
    (folder,) = (p.parent for p in real.results.glob("*/*/manifest.json"))
    summary = json.loads((folder / "analysis" / "summary.json").read_text())
    assert (folder / "analysis" / "report.md").stat().st_size > 1000
    codes = {(c["load"], r["code"]) for c in summary["cells"] for r in c["reasons"]}
    assert not {load for load, code in codes if code == "CLIENT_STARVED"}
    for cell in summary["cells"]:
        assert cell["observed"]["output_tok_s"] > 0
    real.assert_stopped()
    _every_panel_has_something(f"http://127.0.0.1:{real.env['PROMETHEUS_PORT']}")
    _nothing_but_the_results_was_written(folder)


def _every_panel_has_something(prometheus: str) -> None:
    empty = []
    for panel in PANELS:
        for query in panel.queries:
            if not _finite(prometheus, query.expr):
                empty.append((panel.title, query.expr))
    if not _finite(prometheus, PHASES.expr):
        empty.append(("annotation", PHASES.expr))
    assert empty == []


def _finite(prometheus: str, expr: str) -> bool:
    # Grafana puts four scrape intervals here.
    expr = expr.replace("$__rate_interval", "4s")
    words = urllib.parse.urlencode({"query": f"max_over_time(({expr})[15m:1s])"})
    with urllib.request.urlopen(f"{prometheus}/api/v1/query?{words}", timeout=30) as answer:
        series = json.load(answer)["data"]["result"]
    return any(math.isfinite(float(one["value"][1])) for one in series)


def _nothing_but_the_results_was_written(folder: Path) -> None:
    launch = json.loads((folder / "ngram" / "start-0" / "launch.json").read_text())
    assert launch["exit_code"] in (0, -15)
    assert launch["leftover"] == 0
    assert launch["cache_after"][0]["path"] == "/cache"
