"""Side processes: told to end by the end of their stdin; what went wrong is their last line."""

from pathlib import Path

import pytest

from specgauge.side_process import SideProcess


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes ``code`` a module that a side process can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def made(code: str) -> SideProcess:
        (tmp_path / "planted_side.py").write_text(f"import os, signal, sys, time\n{code}\n")
        return SideProcess("planted_side", [str(tmp_path / "out")])

    return made


def test_it_writes_once_its_stdin_ends_and_stopping_again_is_nothing(module, tmp_path) -> None:
    process = module("sys.stdin.read(); open(sys.argv[1], 'w').write('all')")
    assert process.stop(60) is None  # never started
    process.start()
    assert not (tmp_path / "out").exists()
    assert process.stop(60) is None
    assert (tmp_path / "out").read_text() == "all"
    assert process.stop(60) is None


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("sys.exit('first\\nlast line')", "last line"),
        ("sys.exit(7)", "exit status 7"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended by signal 9"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_went_wrong_is_told(module, code: str, told: str) -> None:
    process = module(f"sys.stdin.read(); {code}")
    process.start()
    assert process.stop(60) == told


def test_one_that_hangs_is_killed(module) -> None:
    process = module("time.sleep(600)")
    process.start()
    child = process._process
    assert process.stop(0.5) == "not done within 0.5 s"
    assert child.poll() == -9
