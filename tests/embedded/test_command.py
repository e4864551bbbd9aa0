"""Running a program with a line of progress, and stopping it when interrupted."""

import os
import signal
import sys
import time

import pytest

from specgauge.embedded.command import CommandFailed, run


def test_output_comes_back_without_pips_noise():
    program = "print('WARNING: Location x is ignored'); print('one'); print(); print('two')"
    assert run([sys.executable, "-c", program], "trying", print) == ["one", "two"]


def test_a_line_of_progress_while_it_runs():
    said = []
    program = "import time; print('half way', flush=True); time.sleep(0.5)"
    run([sys.executable, "-c", program], "trying", said.append, progress=str.upper, every_s=0.1)
    assert len(said) >= 2
    assert said[-1].startswith("  trying: ")
    assert said[-1].endswith("HALF WAY")


def test_failure_has_the_code_and_the_last_lines():
    with pytest.raises(CommandFailed) as failed:
        run([sys.executable, "-c", "print('why'); raise SystemExit(7)"], "trying", print)
    assert failed.value.code == 7
    assert failed.value.output == ["why"]


def test_an_interrupt_stops_the_program_before_it_is_passed_on():
    pids = []

    def interrupt(text):
        pids.append(int(text.rsplit(" ", 1)[-1]))
        raise KeyboardInterrupt

    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run([sys.executable, "-c", program], "trying", interrupt, progress=str, every_s=0.3)
    assert time.monotonic() - begin < 30
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], signal.SIGCONT)
