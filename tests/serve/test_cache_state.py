"""What is noted of a compile cache folder."""

import os
from pathlib import Path

import pytest

from specgauge.serve import caches
from specgauge.serve.caches import cache_state


def written(folder: Path, *times: float) -> None:
    for number, t in enumerate(times):
        path = folder / f"k{number}" / "kernel.cubin"
        path.parent.mkdir()
        path.write_bytes(b"12345")
        os.utime(path, (t, t))


def test_counts_and_the_times_since_a_start(tmp_path: Path) -> None:
    written(tmp_path, 300.5, 100.0, 200.25)
    state = cache_state(str(tmp_path), since=200.0)
    assert (state["files"], state["bytes"], state["newest"]) == (3, 15, 300.5)
    assert state["written"] == [200.25, 300.5]
    assert cache_state(str(tmp_path))["written"] == []


def test_of_very_many_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_TIMES_AT_MOST", 2)
    written(tmp_path, 1.0, 3.0, 2.0)
    assert cache_state(str(tmp_path), since=0.0)["written"] == [2.0, 3.0]


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    state = cache_state(str(tmp_path / "none"), since=0.0)
    assert (state["files"], state["newest"], state["written"]) == (0, None, [])
