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

import pyarrow.parquet as pq
import pytest
from compose_stack import Stack

from specgauge.config.project import cache_folder
from specgauge.record.schema import CPU_WAIT
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
    folder, starved = _measure(real)
    if starved:  # other work beside it does that too: twice in a row it is the stack's own doing
        folder, starved = _measure(real)

    assert not starved
    _every_panel_has_something(f"http://127.0.0.1:{real.env['PROMETHEUS_PORT']}")
    _nothing_but_the_results_was_written(folder)
    _what_only_the_server_s_container_knows(folder)


def _measure(real: Stack) -> tuple[Path, set[str]]:
    """A new run, and its loads whose client was starved."""
    done = real.compose("--profile", "ngram", "up", timeout=560, NEW="1")

    manifests = real.results.glob("*/*/manifest.json")
    folder = max(manifests, key=lambda path: path.stat().st_mtime).parent
    summary = json.loads((folder / "analysis" / "summary.json").read_text())
    assert (folder / "analysis" / "report.md").stat().st_size > 1000
    for cell in summary["cells"]:
        assert cell["observed"]["output_tok_s"] > 0
    real.assert_stopped()
    codes = {(c["load"], r["code"]) for c in summary["cells"] for r in c["reasons"]}
    starved = {load for load, code in codes if code == "CLIENT_STARVED"}
    assert starved or done.returncode == 0, done.stdout[-5000:]
    return folder, starved


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


def _what_only_the_server_s_container_knows(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["vllm"]["packages"]["vllm"].startswith("0.32.0")
    assert manifest["machine"]["gpus"] == []
    if Path("/proc/self/schedstat").exists():
        names = pq.read_table(folder / "ngram" / "start-0" / "metrics.parquet")["name"]
        assert CPU_WAIT in names.to_pylist()
