"""The planted machine as a fixture."""

import sys
from pathlib import Path

import pytest

from specgauge.gpu import choose

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "run"))

from planted import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE", "GPU_PCI_BUS_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("SPECGAUGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPECGAUGE_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("SPECGAUGE_RESULTS", str(tmp_path / "results"))
    made = Machine(tmp_path)
    monkeypatch.setattr(choose, "open_nvml", made.nvml)
    return made
