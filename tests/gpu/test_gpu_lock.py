"""The host-wide lock."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from specgauge.errors import EnvironmentFault
from specgauge.gpu.lock import DeviceLock


def test_second_waits_and_is_told_by_whom(tmp_path: Path) -> None:
    first, second = DeviceLock("GPU-a", tmp_path), DeviceLock("GPU-a", tmp_path)
    assert first.acquire(0, lambda by: True, "ann, pid 1")
    told: list[str] = []
    assert not second.acquire(0.3, lambda by: told.append(by) or True)
    assert set(told) == {"ann, pid 1"}
    first.release()
    assert second.acquire(0, lambda by: True)
    second.release()
    second.release()


def test_each_gpu_has_its_own(tmp_path: Path) -> None:
    a, b = DeviceLock("GPU-a", tmp_path), DeviceLock("MIG-b/1", tmp_path)
    assert a.acquire(0, lambda by: True)
    assert b.acquire(0, lambda by: True)
    a.release()
    b.release()


def test_waiting_ends_when_told(tmp_path: Path) -> None:
    first, second = DeviceLock("GPU-a", tmp_path), DeviceLock("GPU-a", tmp_path)
    first.acquire(0, lambda by: True)
    began = time.monotonic()
    assert not second.acquire(60, lambda by: False)
    assert time.monotonic() - began < 5
    first.release()


def test_killed_holder_leaves_nothing_behind(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from specgauge.gpu.lock import DeviceLock\n"
        f"DeviceLock('GPU-a', Path({str(tmp_path)!r})).acquire(0, lambda by: True)\n"
        "print('held', flush=True); time.sleep(60)"
    )
    # The lock object is not kept: held by the descriptor alone, as after an exec.
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    lock = DeviceLock("GPU-a", tmp_path)
    assert not lock.acquire(0, lambda by: True)
    holder.kill()
    holder.wait()
    assert lock.acquire(2, lambda by: True)
    lock.release()


def test_all_users_may_lock(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    lock = DeviceLock("GPU-a", folder)
    lock.acquire(0, lambda by: True)
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert (folder / "GPU-a.lock").stat().st_mode & 0o777 == 0o666
    lock.release()


def test_unusable_folder_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match="SPECGAUGE_LOCKS"):
        DeviceLock("GPU-a", tmp_path / "file").acquire(0, lambda by: True)
