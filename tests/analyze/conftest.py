"""Fixtures of the analysis tests."""

from __future__ import annotations

from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def samples() -> Path:
    """Captured vLLM output that lies beside the project."""
    folder = PROJECT.parent / "shared" / "vllm" / "samples"
    if not folder.is_dir():
        pytest.skip(f"captured samples are not at {folder}")
    return folder
