"""A small project whose server is the simulator, and the command line run on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

SLOW: dict[str, Any] = {"step_ms": {"1": 400.0, "16": 400.0}}
FAST = {"step_ms": {"1": 8.0, "16": 10.0}}
SIMULATOR = [sys.executable, "-m", "specgauge.simulate"]
CAPTURE = (
    "EngineCore failed to start.\n"
    "Traceback (most recent call last):\n"
    '  File "/env/vllm/v1/worker/gpu_model_runner.py", line 5337, in capture_model\n'
    "    self._capture_cudagraphs(\n"
    '  File "/env/torch/cuda/graphs.py", line 130, in capture_end\n'
    "    super().capture_end()\n"
    "torch.AcceleratorError: CUDA error: operation failed due to a previous error during capture"
)
"""Frames and words as in vllm-project/vllm#36634 and #11587."""


class SimulatedProject:
    """``root`` holds config/ and results/; every server is a simulator with ``truth`` planted."""

    def __init__(self, root: Path, port: int) -> None:
        self.root = root
        self.port = port
        self.mark = f"sim-{os.getpid()}-{time.monotonic_ns()}"
        self.truth: dict[str, Any] = dict(FAST)
        self.experiment: dict[str, Any] = {
            "model": "m",
            "variants": ["vanilla", "ngram"],
            "loads": [{"concurrency": 1, "requests": 2}, {"concurrency": 4, "requests": 8}],
            "workload": "w",
            "output_tokens": 24,
            "ignore_eos": True,
            "settle_s": 0.4,
            "server": {"command": SIMULATOR, "port": port, "stop_grace_s": 2},
        }
        self.write("variants", "vanilla", {})
        self.write("variants", "ngram", {"speculative_config": {
            "method": "ngram", "num_speculative_tokens": 4,
            "prompt_lookup_min": 2, "prompt_lookup_max": 4}})  # fmt: skip
        self.write("models", "m", {"path": "some/model"})
        self.write("workloads", "w", {"path": "w.jsonl"})
        prompts = [{"id": f"p{i}", "prompt": f"question {i} " * 6} for i in range(16)]
        self.prompts_file.write_text("".join(json.dumps(p) + "\n" for p in prompts))

    @property
    def prompts_file(self) -> Path:
        return self.root / "config" / "workloads" / "w.jsonl"

    def write(self, kind: str, name: str, value: dict[str, Any]) -> None:
        folder = self.root / "config" / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **value}))

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """``specgauge …`` in its own process group, as a shell would have it."""
        self.write("experiments", "x", self.experiment)
        planted = {"SPECGAUGE_SIM_TRUTH": json.dumps(self.truth), "SPECGAUGE_TEST": self.mark}
        return subprocess.Popen(
            [sys.executable, "-m", "specgauge.cli", *words],
            cwd=self.root,
            env={**os.environ, "COLUMNS": "200", **planted, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def specgauge(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=240)
        return subprocess.CompletedProcess(list(words), process.returncode, out, err)

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.specgauge("run", "-e", "x", "-v", "all", *words, **env)

    @property
    def latest(self) -> Path:
        return (self.root / "results" / "latest").resolve()

    def document(self, relative: str) -> Any:
        return json.loads((self.latest / relative).read_text())

    def summary(self) -> Any:
        return self.document("analysis/summary.json")

    def processes(self) -> list[psutil.Process]:
        """Every living process that descends from a command of this project."""
        found = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get("SPECGAUGE_TEST") == self.mark
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def called(self, word: str) -> list[psutil.Process]:
        """Those whose command line holds ``word``; any may end while one looks."""
        found = []
        for process in self.processes():
            try:
                if word in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def reaches(self, variant: str, ready: bool) -> bool:
        """Wait until ``variant``'s first server runs (and is ready)."""

        def there() -> bool:
            for path in (self.root / "results").glob(f"x/*/{variant}/start-0/launch.json"):
                launch = json.loads(path.read_text())
                if launch["pid"] and (launch["ready_at"] or not ready):
                    return True
            return False

        return until(there)

    def loads(self) -> bool:
        """Wait until requests are being answered."""

        started = until(lambda: self.called("locustfile"))
        time.sleep(2.0)  # more than Locust's own start, less than the slowest truth's cell
        return started

    def nothing_runs(self, within_s: float = 15.0) -> bool:
        return until(lambda: not self.processes(), within_s)


def until(what: Callable[[], Any], seconds: float = 90.0) -> bool:
    """Whether ``what`` becomes true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.05)
    return False


def quiet(project: SimulatedProject, done: subprocess.CompletedProcess[str]) -> bool:
    """Whether all went well, but for a client that this machine itself did not let run."""
    if done.returncode == 0:
        return True
    cells = [c for c in project.summary()["cells"] if c["verdict"] == "INVALID"]
    bad = [c for c in cells if c["excluded_because"] in (None, "INVALID")]
    codes = {r["code"] for c in bad for r in c["reasons"] if r["severity"] == "invalid"}
    return done.returncode == 3 and codes == {"CLIENT_STARVED"}


def no_trace(done: subprocess.CompletedProcess[str]) -> bool:
    return "Traceback (most recent call last)" not in done.stderr + done.stdout
