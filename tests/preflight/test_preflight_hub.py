"""The hub's own client, in the server's environment, against a hub on loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import FakeHub
from planted import QWEN3_32B, Machine

from specgauge.preflight.checks import models
from specgauge.preflight.context import Context

PYTHON = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"


def has_client() -> bool:
    if not PYTHON.exists():
        return False
    code = [str(PYTHON), "-c", "import huggingface_hub"]
    return subprocess.run(code, capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not has_client(), reason="no .venv-vllm with huggingface_hub"),
]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    made = FakeHub()
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
    made.models["some/model"] = {
        "config.json": json.dumps(QWEN3_32B).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
        "m-1.safetensors": b"1" * 5000,
        "m-2.safetensors": b"2" * 7000,
        "pytorch_model.bin": b"3" * 90_000,
        "original/weights.pth": b"4" * 90_000,
    }
    monkeypatch.setenv("HF_ENDPOINT", made.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield made
    made.close()


def context(machine: Machine, fetch: bool = False) -> Context:
    made = machine.context(fetch=fetch)
    made.found.python = [str(PYTHON)]
    return made


def test_reachable_and_authorised(machine: Machine, hub: FakeHub) -> None:
    made = context(machine)
    result = models.weights(made)
    assert result.status == "warn", result.seen
    assert hub.url in result.seen
    assert made.found.files["some/model"].config == QWEN3_32B
    assert hub.got == ["config.json"]  # nothing large


def test_gated_until_a_token_is_given(
    machine: Machine, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.gated.add("some/model")
    result = models.weights(context(machine))
    assert result.status == "fail"
    assert "Gated" in result.seen
    assert "ask for access" in (result.remedy or "")
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert models.weights(context(machine)).status == "warn"
    assert hub.token in hub.tokens_seen


def test_unknown_name(machine: Machine, hub: FakeHub) -> None:
    machine.model["path"] = "some/modle"
    result = models.weights(context(machine))
    assert result.status == "fail"
    assert "is the name right" in (result.remedy or "")


def test_hub_that_is_gone(machine: Machine, hub: FakeHub) -> None:
    hub.close()
    result = models.weights(context(machine))
    assert result.status == "fail"
    assert "internet" in (result.remedy or "")


def test_fetch_goes_on_where_it_stopped(machine: Machine, hub: FakeHub) -> None:
    hub.broken.add("m-2.safetensors")
    made = context(machine, fetch=True)
    assert models.weights(made).status == "ok"
    result = models.fetch(made)
    assert result.status == "fail"
    assert "goes on" in (result.remedy or "")
    hub.broken.clear()
    hub.got.clear()
    said: list[str] = []
    made = context(machine, fetch=True)
    made.say = said.append
    assert models.weights(made).status == "ok"
    result = models.fetch(made)
    assert result.status == "ok", result.seen
    assert "m-2.safetensors" in hub.got
    assert "m-1.safetensors" not in hub.got  # it was here already
    assert any("fetching some/model" in line for line in said)
    after = context(machine)
    assert models.weights(after).status == "ok"
    assert after.found.files["some/model"].size == 12_000
    # Other packings of the same weights were left where they are.
    assert not {"pytorch_model.bin", "original/weights.pth"} & set(hub.got)
