"""``specgauge preflight --runtime compose``: the small model is served by the vLLM image."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from compose_checkout import plant
from compose_stack import Stack
from project import CAPTURE

from specgauge.config.model import Model
from specgauge.config.project import cache_folder
from specgauge.preflight.containers import Containers
from specgauge.stack.choose import ready_stack
from specgauge.stack.env import put

pytestmark = pytest.mark.docker

MODEL = "smollm2-135m"
TINY = {
    "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32,
    "vocab_size": 100, "torch_dtype": "bfloat16", "max_position_embeddings": 4096,
}  # fmt: skip


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "specgauge.cli", "preflight", "--runtime", "compose", *words]


def preflight(checkout: Path, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and what each check found; fails if it leaves anything with the engine."""
    before = engine()
    done = subprocess.run(
        command("--json", *words),
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert engine() == before
    assert done.stdout, done.stderr
    return done.returncode, {c["name"]: c for c in json.loads(done.stdout)["checks"]}


def engine() -> dict[str, set[str]]:
    """Containers, networks and volumes that the engine has."""
    listed = {
        "containers": ("ps", "--all", "--quiet", "--no-trunc"),
        "networks": ("network", "ls", "--quiet", "--no-trunc"),
        "volumes": ("volume", "ls", "--quiet"),
    }
    return {
        what: set(
            subprocess.run(
                ["docker", *words], capture_output=True, text=True, check=True
            ).stdout.split()
        )
        for what, words in listed.items()
    }


@pytest.fixture
def fit(stack: Stack, checkout: Path) -> Path:
    """A checkout whose engine, images and model preflight has nothing to say against."""
    put(checkout / ".env", {"GRAFANA_PORT": "0"})
    tiny = checkout / "models" / "tiny"
    tiny.mkdir()
    (tiny / "config.json").write_text(json.dumps(TINY))
    (tiny / "model.safetensors").write_bytes(b"0" * 1000)
    return checkout


def planted(stack: Stack, fit: Path, truth: dict[str, Any], **server: Any) -> tuple[str, ...]:
    """The words that name the simulator behaving as ``truth`` says."""
    plant(stack, fit, truth, server=server)
    # (Eager: the image has no compiler.)
    tiny = {"path": "models/tiny", "platform": "cpu", "server_args": {"enforce-eager": True}}
    (fit / "config" / "models" / "sim.yaml").write_text(json.dumps(tiny))
    return "-e", "planted", "--smoke-model", "sim"


def test_small_model_is_served_in_the_vllm_image_and_nothing_is_left(
    stack: Stack, fit: Path
) -> None:
    code, found = preflight(fit, *planted(stack, fit, {}))

    assert code == 0, found
    assert found["smoke"]["status"] == "ok"
    assert f"in a container of {stack.env['VLLM_IMAGE']}" in found["smoke"]["seen"]
    assert not list(stack.results.iterdir())  # it measures nothing


@pytest.mark.parametrize(
    ("truth", "server", "word", "remedy"),
    [
        # A CPU captures no graphs: the log of it is planted.
        ({"die": {"while_loading": CAPTURE}}, {}, "Capturing CUDA graphs failed", "eager_for_all"),
        (
            {"loading": {"never_ready": "refused"}},
            {"ready_timeout_s": 3},
            "not ready within 3 s",
            "its last lines",
        ),
    ],
)
def test_server_that_does_not_start_is_told_as_in_the_process_way(
    stack: Stack,
    fit: Path,
    truth: dict[str, Any],
    server: dict[str, Any],
    word: str,
    remedy: str,
) -> None:
    code, found = preflight(fit, *planted(stack, fit, truth, **server))

    assert code == 5
    assert found["smoke"]["status"] == "fail"
    assert word in found["smoke"]["seen"]
    assert remedy in found["smoke"]["remedy"]


def test_missing_image_is_named_with_the_remedy(stack: Stack, fit: Path) -> None:
    put(fit / ".env", {"VLLM_IMAGE": "no-such-image"})

    code, found = preflight(fit, *planted(stack, fit, {}))

    assert code == 5
    assert "no-such-image" in found["docker"]["seen"]
    assert "make build CPU=1" in found["docker"]["seen"]
    assert found["smoke"]["blocked_by"] == "docker"


def test_interrupted_smoke_run_leaves_nothing(stack: Stack, fit: Path) -> None:
    words = planted(stack, fit, {"loading": {"load_s": 600}}, ready_timeout_s=600)
    before = engine()
    process = subprocess.Popen(
        command(*words), cwd=fit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 120
    while not _serves():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)

    assert process.returncode == 130
    assert engine() == before


def _serves() -> bool:
    """Whether the simulator runs in a container."""
    for container in engine()["containers"]:
        words = ["docker", "top", container, "-eo", "pid,args"]
        seen = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        if "specgauge.simulate models" in seen or "specgauge.simulate /app" in seen:
            return True
    return False


def test_container_whose_client_was_killed_is_removed_and_no_other(stack: Stack, fit: Path) -> None:
    planted(stack, fit, {})
    model = Model(name="sim", path="models/tiny", platform="cpu")
    ours, other = (Containers(ready_stack(fit, model), fit) for _ in range(2))
    before = engine()
    sleep = [*ours.python, "-c", "import time; print('there', flush=True); time.sleep(600)"]
    client = subprocess.Popen(sleep, cwd=fit, stdout=subprocess.PIPE, text=True, process_group=0)
    assert client.stdout is not None
    assert client.stdout.readline() == "there\n"
    os.killpg(client.pid, signal.SIGKILL)
    client.communicate()
    assert len(engine()["containers"] - before["containers"]) == 1

    assert other.sweep() == []
    assert len(engine()["containers"] - before["containers"]) == 1
    assert ours.sweep() == []
    assert engine() == before


def test_real_vllm_image_is_fit_for_the_embedded_model(stack: Stack, fit: Path) -> None:
    if not list((cache_folder() / "models").glob(f"{MODEL}-*/model.safetensors")):
        pytest.skip("the embedded model is not in the cache: make setup")
    image = f"{os.environ['SPECGAUGE_TEST_IMAGES']}-vllm-cpu"
    put(fit / ".env", {"VLLM_IMAGE": image, "MODEL_CACHE": str(cache_folder())})

    code, found = preflight(fit, "-v", "ngram")

    assert code == 0, found
    for name in ("docker", "server", "python", "shm", "weights", "torch", "flags", "smoke"):
        assert found[name]["status"] == "ok", found[name]
    assert f"in a container of {image}" in found["smoke"]["seen"]
