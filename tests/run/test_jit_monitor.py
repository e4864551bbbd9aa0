"""The compile monitor's flag goes only to a vLLM that knows it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from specgauge.config.experiment import Server
from specgauge.run import jit_monitor


@pytest.mark.parametrize(
    ("version", "takes_it"),
    [("0.32.0", True), ("0.26.0", True), ("v0.27.1+cpu", True), ("0.25.1", False), ("dev", False)],
)
def test_by_the_version_that_the_experiment_names(version: str, takes_it: bool) -> None:
    assert jit_monitor.supported(Server(vllm_version=version), ["vllm"]) is takes_it


def environment(folder: Path, version: str) -> Path:
    """A Python that finds a distribution called vllm of this version."""
    metadata = folder / "site" / f"vllm-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder / "site"} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_by_what_is_installed_beside_the_program(tmp_path: Path) -> None:
    new = environment(tmp_path / "new", "0.32.0")
    old = environment(tmp_path / "old", "0.20.0")
    assert jit_monitor.supported(Server(), [str(new), "-m", "vllm.entrypoints.cli.main"])
    assert not jit_monitor.supported(Server(), [str(old)])
    script = tmp_path / "vllm"
    script.write_text(f"#!{new}\n")
    assert jit_monitor.supported(Server(), [str(script), "serve"])


def test_by_the_image_s_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGAUGE_VLLM_IMAGE", "vllm/vllm-openai:v0.32.0")
    assert jit_monitor.supported(Server(), ["vllm", "serve"])
    monkeypatch.setenv("SPECGAUGE_VLLM_IMAGE", "specgauge-vllm:latest")
    assert not jit_monitor.supported(Server(), ["vllm", "serve"])
