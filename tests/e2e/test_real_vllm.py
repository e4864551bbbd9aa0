"""The command line on a real vLLM with the real embedded model: runs, interrupts, a killed engine.

Who wins is never asserted: that is what the instrument is for.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
import yaml

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {
    "model": "smollm2-135m",
    "variants": ["vanilla"],
    "loads": [{"concurrency": 1, "requests": 2}, {"concurrency": 4, "requests": 8}],
    "workload": "builtin",
    "output_tokens": 32,
    "ignore_eos": True,
    "prefix_cache": "reset",
}


def until(what: Callable[[], Any], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.1)
    return False


class RealRun:
    """``specgauge run`` of a small experiment in this checkout, results in a folder of its own."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.mark = f"e2e-{os.getpid()}-{time.monotonic_ns()}"
        self.env = {
            **os.environ,
            "SPECGAUGE_RESULTS": str(folder / "results"),
            "SPECGAUGE_TEST": self.mark,
        }

    def start(self, **changes: Any) -> subprocess.Popen[str]:
        path = self.folder / "small.yaml"
        path.write_text(yaml.safe_dump({"name": "small", **SMALL, **changes}))
        words = ["run", "-e", str(path), "-v", "all", "--port", str(self.port)]
        return subprocess.Popen(
            [sys.executable, "-m", "specgauge.cli", *words],
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def run(self, **changes: Any) -> tuple[int, str]:
        process = self.start(**changes)
        out, err = process.communicate(timeout=400)
        return process.returncode, out + err

    @property
    def latest(self) -> Path:
        return (self.folder / "results" / "latest").resolve()

    def launch(self, start: str) -> dict[str, Any]:
        found = list(self.folder.glob(f"results/small/*/{start}/launch.json"))
        return json.loads(found[0].read_text()) if found else {}

    def cells(self) -> dict[tuple[str, int, str], dict[str, Any]]:
        summary = json.loads((self.latest / "analysis" / "summary.json").read_text())
        return {(c["variant"], c["start"], c["load"]): c for c in summary["cells"]}

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("SPECGAUGE_TEST") == self.mark:
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture
def real(tmp_path: Path, free_port: int) -> Iterator[RealRun]:
    if not (ROOT / ".venv-vllm" / "specgauge-stamp.json").exists():
        pytest.skip("no .venv-vllm in this checkout: 'make setup' makes it")
    made = RealRun(tmp_path, free_port)
    yield made
    left = made.processes()
    for process in left:
        process.kill()
    assert not left, f"left running: {left}"


def test_counts_agree_between_client_and_server(real: RealRun) -> None:
    code, text = real.run(variants=["vanilla", "ngram"])
    assert code in (0, 3), text
    for (variant, start, load), cell in real.cells().items():
        asked = {"c1": 2, "c4": 8}[load] * 32
        assert cell["observed"]["output_tokens"] == asked
        codes = {reason["code"] for reason in cell["reasons"]}
        assert not codes & {"INCOMPLETE", "TOKEN_MISMATCH", "FOREIGN_TRAFFIC"}, (variant, start)
    sent = pd.read_parquet(real.latest / "vanilla/start-0/c4/repeat-0/chunks.parquet")
    assert (sent.groupby("request")["tokens"].sum() == 32).all()


def test_an_interrupt_while_loading_then_in_a_cell_then_to_the_end(real: RealRun) -> None:
    process = real.start()
    assert until(lambda: real.launch("vanilla/start-0").get("pid"), 60)
    time.sleep(5)  # somewhere in the imports
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert not real.processes()

    process = real.start()
    assert until(lambda: real.launch("vanilla/start-1").get("ready_at"), 180)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "Traceback" not in out + err
    assert not real.processes()

    code, text = real.run()
    assert code in (0, 3), text
    assert ("vanilla", 2, "c4") in real.cells()
    assert not real.cells()["vanilla", 2, "c4"]["excluded"] or code == 3


def test_a_killed_engine_makes_the_cell_invalid_and_keeps_its_records(real: RealRun) -> None:
    process = real.start(output_tokens=400)
    assert until(lambda: real.launch("vanilla/start-0").get("ready_at"), 180)
    assert until(lambda: any("locustfile" in " ".join(p.cmdline()) for p in real.processes()), 60)
    time.sleep(4)
    server = psutil.Process(real.launch("vanilla/start-0")["pid"])
    engine = max(server.children(recursive=True), key=lambda p: p.memory_info().rss)
    engine.kill()
    out, err = process.communicate(timeout=200)
    assert process.returncode == 4, out + err
    assert 'Traceback (most recent call last):\n  File "' not in out
    cell = real.cells()["vanilla", 0, "c1"]
    assert cell["verdict"] == "INVALID"
    chunks = pd.read_parquet(real.latest / "vanilla/start-0/c1/repeat-0/chunks.parquet")
    assert len(chunks) > 0
    assert not real.processes()


def test_the_embedded_drafter_is_accepted(real: RealRun) -> None:
    """A random drafter would give an acceptance length of 1.0."""
    code, text = real.run(
        variants=["eagle3"], loads=[{"concurrency": 1, "requests": 3}], output_tokens=96
    )
    assert code in (0, 3), text
    observed = real.cells()["eagle3", 0, "c1"]["observed"]
    assert observed["acceptance_length"] > 1.5
    assert observed["tokens_per_step"] > 1.5
