"""The simulated project as a fixture; it fails a test that leaves a process running."""

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from project import SimulatedProject


@pytest.fixture
def project(tmp_path: Path, free_port: int) -> Iterator[SimulatedProject]:
    made = SimulatedProject(tmp_path, free_port)
    yield made
    left = made.processes()
    for process in left:
        try:
            process.kill()
        except psutil.Error:
            continue
    assert not left, f"left running: {left}"
