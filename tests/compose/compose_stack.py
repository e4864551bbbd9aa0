"""A stack of its own for each test: project name, folders, experiment; the simulator as server.

Needs an engine and the images that ``.ci/docker.sh`` builds, named by ``SPECGAUGE_TEST_IMAGES``
(a prefix): without them these tests are skipped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
UID = "12345"
"""Not the user who runs the tests, and in no base image's passwd."""


class Stack:
    """One Compose project over temporary folders."""

    def __init__(self, folder: Path, prefix: str, name: str) -> None:
        self.folder = folder
        self.name = name
        self.results = folder / "results"
        self.override: dict[str, Any] = {}
        self.env = {
            **os.environ,
            "SPECGAUGE_PROJECT": name,
            "SPECGAUGE_UID": UID,
            "SPECGAUGE_GID": UID,
            "CONFIG_FOLDER": str(folder / "config"),
            "SPECGAUGE_RESULTS": str(self.results),
            "STACK_FOLDER": str(folder / "stack"),
            "LOCK_FOLDER": str(folder / "locks"),
            "MODEL_CACHE": str(folder / "models"),
            "HF_CACHE": str(folder / "hf"),
            "LOADGEN_IMAGE": f"{prefix}-loadgen",
            "ANALYSIS_IMAGE": f"{prefix}-analysis",
            "VLLM_IMAGE": f"{prefix}-simulator",
            "PROMETHEUS_PORT": "0",
            "EXPERIMENT": "planted",
        }
        for part in ("results", "stack/control", "stack/cache", "stack/prometheus", "locks"):
            (folder / part).mkdir(parents=True)
        for part in ("models", "hf"):
            (folder / part).mkdir()
        subprocess.run(["cp", "-r", str(ROOT / "config"), str(folder / "config")], check=True)
        subprocess.run(["chown", "-R", f"{UID}:{UID}", str(folder)], check=True)
        self.experiment({})

    def experiment(self, truth: dict[str, Any], **changes: Any) -> None:
        """Write the experiment ``planted``: a simulated server that behaves as ``truth`` says."""
        (self.folder / "config" / "models" / "sim.yaml").write_text("path: example/sim\n")
        server = {
            "command": ["python3", "-m", "specgauge.simulate"],
            "ready_timeout_s": 30,
            "stop_grace_s": 5,
            "env": {"SPECGAUGE_SIM_TRUTH": json.dumps(truth)},
        }
        experiment = {
            "model": "sim",
            "variants": ["vanilla", "ngram"],
            "loads": [
                {"concurrency": 1, "requests": 4},
                {"concurrency": 4, "requests": 8},
            ],
            # Long enough that a few milliseconds of a busy machine are not one percent of a cell.
            "output_tokens": 64,
            "server": {**server, **changes.pop("server", {})},
            **changes,
        }
        path = self.folder / "config" / "experiments" / "planted.yaml"
        path.write_text(yaml.safe_dump(experiment))

    def command(self, *words: str) -> list[str]:
        """``docker compose`` with this project's files."""
        files = ["-f", str(ROOT / "compose.yaml"), "-f", str(ROOT / "compose.cpu.yaml")]
        if self.override:
            path = self.folder / "override.yaml"
            path.write_text(yaml.safe_dump(self.override))
            files += ["-f", str(path)]
        return ["docker", "compose", "--env-file", "/dev/null", *files, *words]

    def compose(
        self, *words: str, timeout: float = 120, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end; both streams in ``stdout``."""
        return subprocess.run(
            self.command(*words),
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    def up(self, *variants: str, **env: str) -> subprocess.CompletedProcess[str]:
        """``docker compose --profile V up``."""
        profiles = [word for variant in variants for word in ("--profile", variant)]
        return self.compose(*profiles, "up", **env)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Run it in the background."""
        return subprocess.Popen(
            self.command(*words),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def states(self) -> dict[str, dict[str, Any]]:
        """Engine's state of each container, by service."""
        listed = subprocess.run(
            ["docker", "ps", "-aq", "--filter", f"label=com.docker.compose.project={self.name}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        if not listed:
            return {}
        raw = subprocess.run(
            ["docker", "inspect", *listed], capture_output=True, text=True, check=True
        ).stdout
        return {
            c["Config"]["Labels"]["com.docker.compose.service"]: c["State"] for c in json.loads(raw)
        }

    def assert_stopped(self) -> None:
        """All but those for viewing have ended, and nobody holds the machine's lock."""
        running = {name for name, state in self.states().items() if state["Running"]}
        assert running <= {"prometheus", "gpu-exporter"}
        for lock in (self.folder / "locks").glob("*.lock"):
            subprocess.run(["flock", "--nonblock", str(lock), "true"], check=True)

    def run_folder(self) -> Path:
        """The one run in the results."""
        (manifest,) = self.results.glob("planted/*/manifest.json")
        return manifest.parent

    def summary(self) -> dict[str, Any]:
        """What the analysis wrote."""
        text = (self.run_folder() / "analysis" / "summary.json").read_text()
        return dict(json.loads(text))

    def verdicts(self) -> dict[str, str]:
        """Verdict of each cell by load, of the newest start."""
        return {cell["load"]: cell["verdict"] for cell in self.summary()["cells"]}

    def down(self) -> None:
        """Remove everything of this project."""
        profiles = [w for p in ("vanilla", "ngram", "observe") for w in ("--profile", p)]
        self.compose(*profiles, "down", "--volumes", "--timeout", "5")


@pytest.fixture
def stack(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A stack that is taken down afterwards."""
    prefix = os.environ.get("SPECGAUGE_TEST_IMAGES")
    if not prefix:
        pytest.skip("SPECGAUGE_TEST_IMAGES names no images (.ci/docker.sh builds them)")
    # pytest's folders are the user's own; the containers run as somebody else.
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    made = Stack(tmp_path, prefix, f"specgauge-test-{os.getpid()}")
    try:
        yield made
    finally:
        made.down()


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C at the terminal: to the whole foreground group."""
    os.killpg(process.pid, signal.SIGINT)


def is_loaded(stack: Stack) -> bool:
    """Whether a request of the load (or warm-up) has reached ngram's server: a cell has begun."""
    logs = stack.results.glob("planted/*/ngram/start-0/server.log")
    return any("POST /v1/completions" in log.read_text() for log in logs)
