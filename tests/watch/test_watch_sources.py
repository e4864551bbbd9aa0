"""The live view against a served text, in both ways to run."""

from __future__ import annotations

import http.server
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from rich.console import Console

from specgauge.config.project import Project
from specgauge.watch.command import Watch, source_for, watch
from specgauge.watch.sources import PrometheusSource, ServerSource

CARD = '{uuid="GPU-a",pci_bus_id="00000000:41:00.0",name="H200"}'


class Served:
    """Answers every request with a text that counts up; remembers the paths."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        served = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.paths.append(unquote(self.path))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(served.text().encode())

            def log_message(self, *words: object) -> None:
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def text(self) -> str:
        label = '{engine="0",variant="ngram"}' if "federate" in self.paths[-1] else '{engine="0"}'
        tokens = 100 * len(self.paths)
        return (
            "# TYPE vllm:generation_tokens counter\n"
            f"vllm:generation_tokens_total{label} {tokens}\n"
            "# TYPE specgauge_gpu_power_watts gauge\n"
            f"specgauge_gpu_power_watts{CARD} 312\n"
        )


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.shutdown()


@pytest.fixture
def project(tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("SPECGAUGE_RESULTS", raising=False)
    start = tmp_path / "results" / "quick" / "run-1" / "eagle3" / "start-0"
    (start / "c1" / "repeat-0").mkdir(parents=True)
    (start / "c1" / "repeat-0" / "cell.json").write_text("{}")
    (start / "c16" / "repeat-0").mkdir(parents=True)
    (start / "server.log").write_text(
        "2026-11-29T15:49:03.123Z E Triton kernel JIT compilation during inference: _topk. This …\n"
    )
    manifest = {
        "schema": "specgauge.results/1",
        "run_id": "run-1",
        "created_at": "2026-11-29T00:00:00Z",
        "experiment": {"name": "quick", "server": {"host": "127.0.0.1", "port": served.port}},
        "model": {"name": "m"},
        "variants": {},
        "workload": {"name": "w", "sha256": "0", "prompts": 1},
        "runtime": "process",
        "fingerprint": "f",
    }
    (start.parents[1] / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "results" / "latest").symlink_to("quick/run-1")
    return Project(tmp_path)


def test_process_way_asks_the_server_and_the_results_folder(
    project: Project, served: Served
) -> None:
    source = source_for(project, None)
    assert isinstance(source, ServerSource)
    view = Watch(source)
    view.step()
    now, seen = view.step()
    assert served.paths[-1] == "/metrics"
    assert now["eagle3"] is not None
    assert now["eagle3"].output_tok_s > 0
    assert now["eagle3"].jit_events == 1
    assert seen.cells == {"eagle3": "c16 repeat 0"}


def test_stack_s_prometheus_is_preferred(project: Project, served: Served) -> None:
    env = f"SPECGAUGE_PROJECT=x\nPROMETHEUS_PORT={served.port}\n"
    (project.root / ".env").write_text(env)
    source = source_for(project, None)
    assert isinstance(source, PrometheusSource)
    now, _ = Watch(source).step()
    assert set(now) == {"ngram"}
    assert "/federate" in served.paths[-1]
    assert "vllm:.*" in served.paths[-1]


def test_screen_shows_figures_and_the_card(served: Served) -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    watch(PrometheusSource(f"http://127.0.0.1:{served.port}"), console, seconds=1.5)
    shown = console.file.getvalue()
    assert "ngram" in shown
    assert "output tok/s" in shown
    assert "312 W" in shown


def test_nothing_there_says_what_is_waited_for(tmp_path: Path, free_port: int) -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    watch(PrometheusSource(f"http://127.0.0.1:{free_port}"), console, seconds=0.1)
    assert "waiting for a server" in console.file.getvalue()
    assert Watch(ServerSource(tmp_path)).step() == ({}, None)
