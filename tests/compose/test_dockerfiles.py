"""The Dockerfiles begin alike: Docker has no include, so here is what holds them together."""

from pathlib import Path

import pytest

IMAGES = Path(__file__).resolve().parents[2] / "images"
FILES = sorted(IMAGES.glob("*/Dockerfile*"))


def beginning(path: Path) -> list[str]:
    """From the first stage's certificates to the last of pip's arguments."""
    lines = path.read_text().splitlines()
    return lines[lines.index("COPY images/certs/ /usr/local/share/ca-certificates/") :][:8]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_certificates_and_pip_are_set_up_alike(path: Path) -> None:
    assert beginning(path) == beginning(IMAGES / "loadgen" / "Dockerfile")
    assert beginning(path)[-1] == "ARG PIP_TRUSTED_HOST"
    assert "ARG PYTHON_BASE=python:3.11-slim-bookworm" in path.read_text().splitlines()


def test_all_images_are_looked_at() -> None:
    assert {path.parent.name for path in FILES} == {"vllm", "loadgen", "analysis"}
    assert len(FILES) == 4
