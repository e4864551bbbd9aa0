"""A load generator that is killed, a server that stops answering: said, bounded, nothing left."""

import signal

import pandas as pd
import pytest
from project import FAST, SimulatedProject, until

pytestmark = pytest.mark.system

SLOW = {"step_ms": {"1": 100.0, "16": 120.0}}


def test_a_killed_load_generator_is_named_and_the_run_goes_on(project: SimulatedProject) -> None:
    project.experiment["loads"] = [{"concurrency": 2, "requests": 4}]
    project.truth["variants"] = {"vanilla": SLOW}
    process = project.start("run", "-e", "x", "-v", "all")
    assert project.reaches("vanilla", ready=True)
    assert project.loads()
    project.called("locustfile")[0].send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 4, out + err
    assert "Traceback" not in err
    assert "exit code -9" in out + err
    assert project.document("vanilla/start-0/outcome.json")["state"] == "failed"
    assert project.document("ngram/start-0/outcome.json")["state"] == "complete"
    assert project.nothing_runs(1.0)
    project.truth = dict(FAST)
    assert project.run().returncode in (0, 3)
    assert project.document("vanilla/start-1/outcome.json")["state"] == "complete"


def test_a_server_that_hangs_ends_by_the_request_time_limit(project: SimulatedProject) -> None:
    project.experiment |= {
        "variants": ["vanilla"],
        "loads": [{"concurrency": 2, "requests": 4}],
        "request_timeout_s": 4.0,
    }
    project.truth["variants"] = {"vanilla": SLOW}
    process = project.start("run", "-e", "x", "-v", "all")
    assert project.reaches("vanilla", ready=True)
    assert project.loads()
    assert until(lambda: bool(project.processes()))
    project.called("specgauge.simulate")[0].suspend()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 4, out + err
    assert "Traceback" not in err
    sent = pd.read_parquet(project.latest / "vanilla/start-0/c2/repeat-0/requests.parquet")
    failed = sent[sent["state"] != "ok"]
    assert len(failed) >= 1
    assert failed["error"].str.contains("4 s").any(), set(failed["error"])
    assert project.nothing_runs(1.0)
