"""The load generator's entry: whatever happens, the server's container is let go and told why."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specgauge.errors import UsageError
from specgauge.serve.control import Control, hold, is_held
from specgauge.stack import loadgen


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Control:
    monkeypatch.setenv("SPECGAUGE_CONTROL", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["loadgen", "ngram"])
    return Control(tmp_path / "ngram")


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (UsageError("no such experiment"), 2, "no such experiment"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ModuleNotFoundError("No module named 'pandas'"), 5, "pandas"),
    ],
)
def test_every_end_is_told(
    control: Control,
    monkeypatch: pytest.MonkeyPatch,
    raised: BaseException,
    code: int,
    words: str,
) -> None:
    def fail(given: Control) -> int:
        assert is_held(control.client_lock)
        raise raised

    monkeypatch.setattr(loadgen, "_generate", fail)

    assert loadgen.main() == code
    told = control.result()
    assert told is not None
    assert (told["run"], told["code"]) == (None, code)
    assert words in told["error"]
    assert control.quits()
    assert not is_held(control.client_lock)


def test_second_load_generator_leaves_the_first_alone(control: Control) -> None:
    lock = hold(control.client_lock)
    assert lock is not None
    assert loadgen.main() == 5
    assert not control.quits()
    assert control.result() is None


def test_term_is_heard_before_anything_is_measured(control: Control) -> None:
    code = (
        "import sys, time; from specgauge.stack import loadgen\n"
        "sys.argv = ['loadgen', 'ngram']\n"
        "loadgen._generate = lambda control: time.sleep(60)\n"
        "sys.exit(loadgen.main())"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 10
    while control.result() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 130
    told = control.result()
    assert told is not None
    assert told["error"] == "interrupted"
