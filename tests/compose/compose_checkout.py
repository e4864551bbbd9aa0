"""A checkout of its own for a test's stack, and ``specgauge`` typed in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compose_stack import ROOT, UID, Stack

from specgauge.stack.env import put


@pytest.fixture
def checkout(stack: Stack) -> Path:
    root = stack.folder / "checkout"
    root.mkdir()
    for name in ("compose.yaml", "compose.cpu.yaml"):
        shutil.copy(ROOT / name, root / name)
    (stack.folder / "config").rename(root / "config")
    (root / "config" / "models" / "sim.yaml").write_text("path: example/sim\nplatform: cpu\n")
    kept = ("SPECGAUGE_", "_IMAGE", "_FOLDER", "_CACHE")
    values = {k: v for k, v in stack.env.items() if any(part in k for part in kept)}
    values = {k: v for k, v in values.items() if k not in os.environ}
    values["CONFIG_FOLDER"] = str(root / "config")
    values["PROMETHEUS_PORT"] = "0"
    put(root / ".env", values)
    (root / "models").mkdir()
    stack.env["CONFIG_FOLDER"] = str(root / "config")
    subprocess.run(["chown", "-R", f"{UID}:{UID}", str(root)], check=True)
    return root


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "specgauge.cli", "run", "-e", "planted", *words]


def run(stack: Stack, checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "SPECGAUGE_RESULTS": str(stack.results)}
    return subprocess.run(
        command(*words),
        cwd=checkout,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


def plant(stack: Stack, checkout: Path, truth: dict[str, object], **changes: object) -> None:
    config = stack.folder / "config"
    config.symlink_to(checkout / "config")
    stack.experiment(truth, **changes)
    (checkout / "config" / "models" / "sim.yaml").write_text("path: example/sim\nplatform: cpu\n")
    config.unlink()
