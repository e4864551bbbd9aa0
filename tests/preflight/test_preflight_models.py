"""Where models are: folders and the hub's cache, whole or not, and what the hub would say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from planted import QWEN3_32B, Machine

from specgauge.preflight.checks import models
from specgauge.preflight.model_files import hub_cache, is_hub_name, look, offline


def cached(cache: Path, name: str, shards: int, present: int) -> Path:
    """A model in the hub's cache, laid out as huggingface_hub does: ``present`` of ``shards``."""
    root = cache / f"models--{name.replace('/', '--')}"
    folder = root / "snapshots" / "abc123"
    folder.mkdir(parents=True)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("abc123")
    files = [f"model-{n:05d}-of-{shards:05d}.safetensors" for n in range(1, shards + 1)]
    index = {"metadata": {"total_size": 1000 * shards}, "weight_map": dict(enumerate(files))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(QWEN3_32B))
    (root / "blobs").mkdir()
    for number, file in enumerate(files[:present]):
        blob = root / "blobs" / str(number)
        blob.write_bytes(b"0" * 1000)
        (folder / file).symlink_to(blob)
    return folder


def test_whole_model_in_the_cache(tmp_path: Path) -> None:
    folder = cached(tmp_path, "some/model", 3, 3)
    found = look("some/model", None, tmp_path)
    assert found.complete
    assert (found.folder, found.size, found.indexed) == (folder, 3000, 3000)
    assert found.config == QWEN3_32B


def test_fetch_that_was_cut_off(tmp_path: Path) -> None:
    cached(tmp_path, "some/model", 3, 2)
    found = look("some/model", None, tmp_path)
    assert not found.complete
    assert found.missing == ("model-00003-of-00003.safetensors",)
    assert found.indexed == 3000


def test_link_to_a_blob_that_is_gone_is_a_missing_file(tmp_path: Path) -> None:
    cached(tmp_path, "some/model", 1, 1)
    (tmp_path / "models--some--model" / "blobs" / "0").unlink()
    assert not look("some/model", None, tmp_path).complete


def test_another_revision_is_not_here(tmp_path: Path) -> None:
    cached(tmp_path, "some/model", 1, 1)
    assert look("some/model", "v2", tmp_path).folder is None
    assert look("some/model", "abc123", tmp_path).complete  # a commit is a revision


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/huggingface/hub"),
        ({"HOME": "/h"}, "/h/.cache/huggingface/hub"),
    ],
)
def test_cache_s_place(env: dict[str, str], folder: str) -> None:
    assert hub_cache(env) == Path(folder)


def test_offline_variables() -> None:
    assert offline({"HF_HUB_OFFLINE": "1"}) == "HF_HUB_OFFLINE"
    assert offline({"TRANSFORMERS_OFFLINE": "true"}) == "TRANSFORMERS_OFFLINE"
    assert offline({"HF_HUB_OFFLINE": "0"}) is None


def test_hub_names(tmp_path: Path) -> None:
    assert is_hub_name("Qwen/Qwen3-32B")
    assert not is_hub_name("/models/x")
    assert not is_hub_name("./x")
    assert not is_hub_name(str(tmp_path))


def told(**more: Any) -> dict[str, Any]:
    files = {
        "config.json": 700,
        "a.safetensors": 40,
        "b.safetensors": 60,
        "d.bin": 100,
        "original/c.pth": 100,
    }
    return {"error": None, "kind": None, "files": files, "config": QWEN3_32B, "commit": "c", **more}


def test_folder_that_is_whole(machine: Machine) -> None:
    machine.model["path"] = str(machine.model_folder(QWEN3_32B, 2))
    assert models.weights(machine.context()).status == "ok"


def test_folder_without_weights(machine: Machine) -> None:
    machine.model["path"] = str(machine.model_folder(QWEN3_32B))
    result = models.weights(machine.context())
    assert result.status == "fail"
    machine.model["server_args"]["load-format"] = "dummy"  # vLLM then makes some up
    assert models.weights(machine.context()).status == "ok"


def test_folder_that_is_not_there(machine: Machine) -> None:
    machine.model["path"] = "/nowhere/model"
    result = models.weights(machine.context())
    assert result.status == "fail"
    assert "/nowhere/model" in result.seen


def test_missing_drafter_is_named(machine: Machine) -> None:
    machine.model |= {
        "path": str(machine.model_folder(QWEN3_32B, 1)),
        "drafters": {"eagle3": "./drafter"},
    }
    machine.write("variants", "eagle3", {
        "drafter": "eagle3", "speculative_config": {"method": "eagle3"}})  # fmt: skip
    machine.experiment["variants"] = ["vanilla", "eagle3"]
    result = models.weights(machine.context())
    assert result.status == "fail"
    assert "./drafter" in result.seen


def test_offline_is_respected(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = models.weights(machine.context())
    assert result.status == "fail"
    assert "HF_HUB_OFFLINE" in result.seen


def test_hub_may_give_it(machine: Machine) -> None:
    machine.answers["hub"] = [told()]
    context = machine.context()
    result = models.weights(context)
    assert result.status == "warn"
    assert "--fetch" in (result.remedy or "")
    assert context.found.files["some/model"].on_hub == 100
    assert context.found.files["some/model"].config == QWEN3_32B  # for the memory check
    assert models.weights(machine.context(fetch=True)).status == "ok"


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ({"a.safetensors": 5, "b.safetensors": 6, "c.bin": 100, "original/d.pth": 100}, 11),
        ({"a.safetensors": 5, "consolidated.safetensors": 100}, 5),
        ({"pytorch_model-1.bin": 5, "pytorch_model-2.bin": 6, "tokenizer.json": 100}, 11),
        ({"config.json": 1}, 0),
    ],
)
def test_bytes_that_vllm_reads(files: dict[str, int], size: int) -> None:
    assert models.read_bytes(files) == size


@pytest.mark.parametrize(
    ("kind", "error", "remedy"),
    [
        ("GatedRepoError", "403 Client Error", "ask for access"),
        ("HfHubHTTPError", "401 Client Error: Unauthorized", "hf auth login"),
        ("RepositoryNotFoundError", "404 Client Error", "is the name right"),
        ("RevisionNotFoundError", "404 Client Error", "'revision:'"),
        ("ConnectionError", "Connection refused", "HTTPS_PROXY"),
    ],
)
def test_hub_s_refusals(machine: Machine, kind: str, error: str, remedy: str) -> None:
    machine.answers["hub"] = [told(error=error, kind=kind)]
    result = models.weights(machine.context())
    assert result.status == "fail"
    assert error in result.seen
    assert remedy in (result.remedy or "")


def test_hub_that_never_answers(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "HUB_LIMIT_S", 0.5)
    result = models.weights(machine.context())
    assert result.status == "fail"
    assert "no answer within" in result.seen


def test_fetch(machine: Machine) -> None:
    machine.answers |= {"hub": [told()], "fetch": {"folders": ["x"], "error": None, "kind": None}}
    context = machine.context(fetch=True)
    models.weights(context)
    assert models.fetch(context).status == "fail"  # it says so, but nothing is there
    cached(hub_cache(context.server_env()), "some/model", 2, 2)
    result = models.fetch(context)
    assert result.status == "skipped" or "fetched" in result.seen
    assert models.fetch(machine.context()).status == "skipped"


def test_fetch_s_error(machine: Machine) -> None:
    error = "Not enough free disk space"
    machine.answers |= {
        "hub": [told()],
        "fetch": {"folders": [], "error": error, "kind": "OSError"},
    }
    context = machine.context(fetch=True)
    models.weights(context)
    result = models.fetch(context)
    assert result.status == "fail"
    assert error in result.seen
    assert "goes on" in (result.remedy or "")
