"""The telemetry process: it writes when told to, when its parent dies, or says why it cannot."""

import json
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import MetricsHandler

from specgauge.gpu import recorder as recorder_module
from specgauge.gpu.exported import gpu_of_stack
from specgauge.gpu.exporter import GpuCollector
from specgauge.gpu.fake import FakeGpu, FakeNvml
from specgauge.gpu.recorder import Recorder
from specgauge.record.layout import RunPaths, StartPaths
from specgauge.record.manifest import Manifest, WorkloadFacts, write_manifest
from specgauge.record.schema import TELEMETRY
from specgauge.run.telemetry import recorder_for
from specgauge.side_process import SideProcess

CARD = {"uuid": "GPU-a", "pci_bus_id": "00000000:41:00.0", "power_w": 400.0}
pytestmark = pytest.mark.system


def wait() -> None:
    threading.Event().wait(2.5)  # more than Python's start on a slow machine


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGAUGE_FAKE_NVML", json.dumps({"gpus": [CARD]}))


def test_it_writes_when_it_is_stopped(tmp_path: Path) -> None:
    out = tmp_path / "telemetry.parquet"
    made = Recorder(out, "GPU-a", {"blind": True})
    made.start()
    wait()
    assert not out.exists()
    assert made.stop() is None
    assert made.stop() is None
    rows = pd.read_parquet(out)
    assert rows.columns.tolist() == TELEMETRY.names
    assert len(rows) >= 3
    assert (rows["power_w"] == 400.0).all()
    grown = rows["energy_j"].iloc[-1] - rows["energy_j"].iloc[0]
    assert grown == pytest.approx(400 * (rows["t"].iloc[-1] - rows["t"].iloc[0]), rel=0.02)


def test_it_writes_when_its_parent_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "telemetry.parquet"
    code = (
        "import sys, time; from pathlib import Path; from specgauge.gpu.recorder import Recorder\n"
        f"Recorder(Path({str(out)!r}), 'GPU-a', {{'blind': True}}).start()\n"
        "print('on', flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "on\n"
    wait()
    parent.kill()
    parent.communicate()
    for _ in range(200):
        if out.exists():
            break
        threading.Event().wait(0.1)
    assert len(pd.read_parquet(out)) >= 3


def test_what_keeps_it_from_recording_is_said(tmp_path: Path) -> None:
    no_card = Recorder(tmp_path / "t.parquet", "GPU-b", {"blind": True})
    no_card.start()
    assert "no telemetry of the GPU: no GPU GPU-b. Present are: 00000" in (no_card.stop() or "")
    (tmp_path / "file").touch()
    no_folder = Recorder(tmp_path / "file" / "t.parquet", "GPU-a", {"blind": True})
    no_folder.start()
    assert "no telemetry of the GPU" in (no_folder.stop() or "")


def test_a_driver_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "STOP_LIMIT_S", 1.0)
    (tmp_path / "planted_hang.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    hung = Recorder(tmp_path / "t.parquet", "GPU-a", {})
    hung._process = SideProcess("planted_hang", [])
    hung.start()
    assert "not done within 1 s" in (hung.stop() or "")
    assert not (tmp_path / "t.parquet").exists()


@pytest.fixture
def exporter():
    registry = CollectorRegistry()
    nvml = FakeNvml([FakeGpu("GPU-a", "00000000:41:00.0", power_w=400.0)])
    registry.register(GpuCollector(nvml, "GPU-a", None, Path("/proc")))
    server = ThreadingHTTPServer(("127.0.0.1", 0), MetricsHandler.factory(registry))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()


def begun(folder: Path, gpu: dict | None, runtime: str = "compose") -> tuple[RunPaths, StartPaths]:
    run = RunPaths(folder)
    workload = WorkloadFacts(name="w", sha256="", prompts=1)
    manifest = Manifest(run_id="r", created_at="", experiment={}, model={}, variants={},
                        workload=workload, runtime=runtime, fingerprint="f", gpu=gpu)  # fmt: skip
    write_manifest(run.manifest, manifest)
    return run, run.start("ngram", 0)


@pytest.mark.parametrize("known", [True, False])
def test_the_stack_s_exporter_is_asked_instead(tmp_path: Path, exporter: str, known: bool) -> None:
    environ = {"SPECGAUGE_GPU_METRICS": exporter}
    gpu = gpu_of_stack(["Planted GPU"], environ) if known else {"name": "Planted", "uuid": None}
    run, start = begun(tmp_path, gpu)
    made = recorder_for(object(), run, start, environ)
    assert made is not None
    made.start()
    wait()
    assert made.stop() is None
    rows = pd.read_parquet(start.telemetry)
    assert (rows["power_w"] == 400.0).all()
    assert rows["other"].dropna().tolist()[0] == 0
    assert rows["energy_j"].is_monotonic_increasing


def test_without_a_gpu_nothing_watches(tmp_path: Path) -> None:
    assert recorder_for(object(), *begun(tmp_path / "1", None), {}) is None
    on_host = begun(tmp_path / "2", {"uuid": "GPU-a"}, "process")
    assert recorder_for(object(), *on_host, {}) is None
