"""The real thing: the embedded model on this machine's own vLLM, all checks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from specgauge.config.project import cache_folder

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]


def test_this_machine_is_fit_for_the_embedded_model(free_port: int) -> None:
    if not (ROOT / ".venv-vllm" / "bin" / "python").exists():
        pytest.skip("no .venv-vllm: make setup")
    if not list((cache_folder() / "models").glob("smollm2-135m-*/model.safetensors")):
        pytest.skip("the embedded model is not in the cache: make setup")
    done = subprocess.run(
        [sys.executable, "-m", "specgauge.cli", "preflight", "--json", "--port", str(free_port)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    for name in ("server", "python", "weights", "memory", "torch", "flags", "smoke"):
        assert found[name]["status"] == "ok", found[name]
