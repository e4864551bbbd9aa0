"""Interrupts, at any moment and again and again: nothing stays running, nothing is lost."""

import signal
import time

import pandas as pd
import pytest
from project import FAST, SLOW, SimulatedProject, quiet, until

pytestmark = pytest.mark.system


def test_an_interrupt_while_stopping_ends_the_run_there(project: SimulatedProject) -> None:
    project.truth["stopping"] = {"delay_s": 3.0}
    project.experiment["loads"] = [{"concurrency": 1, "requests": 1}]
    process = project.start("run", "-e", "x", "-v", "all")
    log = "vanilla/start-0/server.log"

    def stopping() -> bool:
        found = list((project.root / "results").glob(f"x/*/{log}"))
        return bool(found) and "hutting down" in found[0].read_text()

    assert until(stopping)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, out + err
    assert project.document("vanilla/start-0/outcome.json")["state"] == "complete"
    assert not (project.latest / "ngram").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("where", ["loading", "cell"])
def test_an_interrupt_leaves_no_process_and_the_next_run_goes_on(
    project: SimulatedProject, number: signal.Signals, where: str
) -> None:
    project.experiment["loads"] = [{"concurrency": 2, "requests": 4}]
    slow = {"loading": {"load_s": 20.0}} if where == "loading" else {"variants": {"ngram": SLOW}}
    if where == "loading":
        assert quiet(project, project.specgauge("run", "-e", "x", "-v", "vanilla"))
    project.truth |= slow
    process = project.start("run", "-e", "x", "-v", "all")
    assert project.reaches("ngram", ready=where == "cell")
    if where == "cell":
        assert project.loads()
    process.send_signal(number)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert project.nothing_runs(1.0)
    first = project.latest
    assert project.document("ngram/start-0/outcome.json")["state"] == "interrupted"
    assert project.document("vanilla/start-0/outcome.json")["state"] == "complete"
    if where == "cell":
        sent = pd.read_parquet(first / "ngram/start-0/c2/repeat-0/requests.parquet")
        assert "cut" in set(sent["state"])
    project.truth = dict(FAST)
    done = project.run()
    assert quiet(project, done), done.stderr
    assert project.latest == first
    assert project.document("ngram/start-1/outcome.json")["state"] == "complete"
    assert not (first / "vanilla/start-1").exists()
    kept = {(c["variant"], c["start"]): c for c in project.summary()["cells"]}
    assert set(kept) == {("vanilla", 0), ("ngram", 1)} | {("ngram", 0)} & set(kept)
    assert ("ngram", 0) not in kept or kept["ngram", 0]["excluded"]


def test_a_killed_harness_leaves_no_process(project: SimulatedProject) -> None:
    project.truth["variants"] = {"vanilla": SLOW}
    process = project.start("run", "-e", "x", "-v", "all")
    assert project.reaches("vanilla", ready=True)
    assert project.loads()
    process.kill()
    process.communicate(timeout=30)
    assert project.nothing_runs(30.0)


def test_a_second_interrupt_while_stopping_does_not_break_the_stopping(
    project: SimulatedProject,
) -> None:
    project.truth["variants"] = {"vanilla": SLOW}
    project.truth["stopping"] = {"delay_s": 1.5}
    process = project.start("run", "-e", "x", "-v", "all")
    assert project.reaches("vanilla", ready=True)
    assert project.loads()
    process.send_signal(signal.SIGINT)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert project.nothing_runs(1.0)
    assert project.document("vanilla/start-0/outcome.json")["state"] == "interrupted"


def test_impatience_does_not_cost_the_records(project: SimulatedProject) -> None:
    project.truth["variants"] = {"vanilla": SLOW}
    process = project.start("run", "-e", "x", "-v", "all")
    assert project.reaches("vanilla", ready=True)
    assert project.loads()
    for _ in range(8):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.15)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert project.nothing_runs(1.0)
    assert project.document("vanilla/start-0/c1/repeat-0/cell.json")["error"] == "interrupted"
    sent = pd.read_parquet(project.latest / "vanilla/start-0/c1/repeat-0/requests.parquet")
    assert "cut" in set(sent["state"])
