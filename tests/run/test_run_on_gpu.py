"""Whole runs in the process way on planted GPUs: pinning, manners, telemetry, verdicts."""

import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from project import SimulatedProject, until

from specgauge.gpu import throttle

pytestmark = pytest.mark.system
GIB = 2**30
BUS_A, BUS_B = "00000000:41:00.0", "00000000:c1:00.0"
UUID_A, UUID_B = f"GPU-{os.getpid()}-a", f"GPU-{os.getpid()}-b"
"""Planted cards see the servers of all tests on this machine that are given the same UUID."""
A = {"uuid": UUID_A, "pci_bus_id": BUS_A, "name": "Planted A", "power_w": 500.0}
B = {"uuid": UUID_B, "pci_bus_id": BUS_B, "name": "Planted B"}
INTRUDER = {"pid": os.getpid(), "memory": 20 * GIB}
"""Not below the run's servers: somebody else's."""


class Machine:
    """A simulated project on a machine with planted GPUs; the plant may change while it runs."""

    def __init__(self, project: SimulatedProject, root: Path) -> None:
        self.project = project
        self.file = root / "gpus.json"
        self.env = {
            "SPECGAUGE_FAKE_NVML": str(self.file),
            "SPECGAUGE_LOCKS": str(root / "locks"),
            "GPU_PCI_BUS_ID": "",
        }
        project.write("models", "m", {"path": "some/model", "platform": "cuda"})
        project.experiment["variants"] = ["vanilla"]
        project.experiment["loads"] = [{"concurrency": 2, "requests": 4}]
        self.plant(A)

    def plant(self, *gpus: dict[str, Any]) -> None:
        whole = self.file.with_suffix(".new")
        whole.write_text(json.dumps({"gpus": gpus}))
        whole.replace(self.file)

    def run(self, *words: str, **env: str):
        return self.project.run(*words, **{**self.env, **env})

    def start(self, *words: str):
        return self.project.start("run", "-e", "x", "-v", "all", *words, **self.env)

    def launch(self, variant: str = "vanilla") -> dict[str, Any]:
        found: dict[str, Any] = self.project.document(f"{variant}/start-0/launch.json")
        return found

    def codes(self, load: str, severity: str) -> set[str]:
        cells = [c for c in self.project.summary()["cells"] if c["load"] == load]
        return {r["code"] for c in cells for r in c["reasons"] if r["severity"] == severity}


@pytest.fixture
def machine(project: SimulatedProject, tmp_path: Path) -> Machine:
    return Machine(project, tmp_path)


def no_trace(done) -> bool:
    return "Traceback (most recent call last)" not in done.stderr + done.stdout


def test_a_good_run_knows_its_gpu_and_its_joules(machine: Machine) -> None:
    done = machine.run()
    assert done.returncode in (0, 3), done.stderr  # 3: this machine starved the client
    assert no_trace(done)
    assert f"GPU Planted A at {BUS_A} (the only one here), {UUID_A}" in done.stdout
    assert "can be reached by every user of this machine" in done.stdout
    manifest = machine.project.document("manifest.json")
    assert (manifest["gpu"]["uuid"], manifest["gpu"]["driver"]) == (UUID_A, "999.99")
    launch = machine.launch()
    assert launch["env"]["CUDA_VISIBLE_DEVICES"] == UUID_A
    assert launch["env"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert launch["gpu"]["pids_visible"] is True
    assert launch["gpu"]["memory_ready"] == launch["gpu"]["memory_before"] + 10 * GIB
    assert launch["gpu"]["memory_after"] == launch["gpu"]["memory_before"]
    assert launch["gpu"]["release_s"] is not None
    rows = pd.read_parquet(machine.project.latest / "vanilla/start-0/telemetry.parquet")
    looks = rows[rows["other"].notna()]
    assert (looks["ours"] >= 1).all()
    assert (looks["other"] == 0).all()
    (cell,) = machine.project.summary()["cells"]
    seen = cell["observed"]
    assert seen["gpu"]["energy_from"] == "energy counter"
    assert seen["joules_per_token"] == pytest.approx(
        500 * seen["duration_s"] / seen["output_tokens"], rel=0.02
    )
    assert not machine.codes("c2", "unknown") & {"CO_TENANT", "THROTTLED"}
    assert "### Energy and clocks" in (machine.project.latest / "analysis/report.md").read_text()


def test_somebody_else_in_a_cell_makes_that_cell_invalid(machine: Machine) -> None:
    project = machine.project
    project.truth["step_ms"] = {"1": 120.0, "16": 120.0}
    project.experiment["loads"] = [{"concurrency": c, "requests": 2 * c} for c in (1, 2)]
    process = machine.start()
    first = "x/*/vanilla/start-0/c1/repeat-0/cell.json"
    assert until(lambda: list((project.root / "results").glob(first)))
    machine.plant({**A, "processes": [INTRUDER]})
    out, err = process.communicate(timeout=240)
    assert process.returncode == 3, out + err
    assert "CO_TENANT" in machine.codes("c2", "invalid")
    assert "CO_TENANT" not in machine.codes("c1", "invalid")
    (cell,) = [c for c in project.summary()["cells"] if c["load"] == "c2"]
    (seen,) = [r for r in cell["reasons"] if r["code"] == "CO_TENANT"]
    assert f"pid {os.getpid()}" in seen["detail"]
    # Its memory is its own: ours was given back.
    assert machine.launch()["gpu"]["release_s"] is not None
    assert f"somebody else, left alone: pid {os.getpid()}" in out


def test_a_hot_card_is_suspect(machine: Machine) -> None:
    machine.plant({**A, "throttle_reasons": throttle.HW_THERMAL})
    assert machine.run("--strict").returncode in (3, 6)
    assert "THROTTLED" in machine.codes("c2", "suspect")


def test_a_busy_card_is_left_alone(machine: Machine) -> None:
    machine.plant({**A, "processes": [INTRUDER]})
    done = machine.run()
    assert done.returncode == 5
    assert f"pid {os.getpid()}" in done.stderr
    assert "--wait-gpu MINUTES" in done.stderr
    assert no_trace(done)
    assert not list((machine.project.root / "results").glob("x/*/"))
    os.kill(os.getpid(), 0)


def test_waiting_for_a_busy_card_says_for_whom_and_then_runs(machine: Machine) -> None:
    machine.plant({**A, "processes": [INTRUDER]})
    process = machine.start("--wait-gpu", "3")
    assert process.stdout is not None
    said = ""
    while "waiting for the GPU" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    assert f"pid {os.getpid()}" in said
    assert "of at most 3 min" in said
    machine.plant(A)
    process.communicate(timeout=240)
    assert process.returncode in (0, 3)
    assert machine.launch()["ready_at"] is not None


def test_interrupted_while_it_waits(machine: Machine) -> None:
    machine.plant({**A, "processes": [INTRUDER]})
    process = machine.start("--wait-gpu", "3")
    assert process.stdout is not None
    while "waiting for the GPU" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert not list((machine.project.root / "results").glob("x/*/"))


def test_the_next_server_waits_until_the_last_one_s_memory_is_back(machine: Machine) -> None:
    machine.plant({**A, "server_release_s": 5.0})
    machine.project.experiment["variants"] = ["vanilla", "ngram"]
    assert machine.run().returncode in (0, 3)
    first, second = machine.launch(), machine.launch("ngram")
    # The driver is asked twice a second, and the plant looks at living servers 0.3 s apart.
    assert first["gpu"]["release_s"] > 3.5
    assert second["started_at"] - first["ended_at"] > 3.5
    assert second["gpu"]["memory_before"] == first["gpu"]["memory_before"]


def test_who_waits_for_the_card_and_the_port_of_another_run_gets_both(machine: Machine) -> None:
    project = machine.project
    project.truth["step_ms"] = {"1": 120.0, "16": 120.0}
    first = machine.start()
    assert project.reaches("vanilla", ready=True)
    running = project.latest
    second = machine.start("--new", "--wait-gpu", "4")
    assert second.stdout is not None
    while "held by" not in (line := second.stdout.readline()):
        assert line
    assert project.latest == running  # the one to look at is the one that runs
    first.communicate(timeout=240)
    _out, err = second.communicate(timeout=240)
    assert (first.returncode, second.returncode) in itertools.product((0, 3), repeat=2), err
    assert project.latest != running
    assert len(list((project.root / "results").glob("x/*/manifest.json"))) == 2


def test_two_runs_never_share_a_card(machine: Machine) -> None:
    machine.project.truth["step_ms"] = {"1": 120.0, "16": 120.0}
    first = machine.start()
    assert machine.project.reaches("vanilla", ready=True)
    second = machine.run("--new", "--port", str(machine.project.port + 1))
    assert second.returncode == 5
    assert "held by another specgauge" in second.stderr
    first.communicate(timeout=240)
    assert first.returncode in (0, 3)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ([], 2, "several GPUs are here and none is named"),
        (["--gpu", "0"], 2, "an index is not trusted"),
        (["--gpu", "00000000:05:00.0"], 2, "no GPU at 00000000:05:00.0"),
    ],
)
def test_of_two_cards_one_must_be_named(
    machine: Machine, words: list[str], code: int, expected: str
) -> None:
    machine.plant(A, B)
    done = machine.run(*words)
    assert done.returncode == code
    assert expected in done.stderr
    assert f"{BUS_B}  {UUID_B}  Planted B" in done.stderr
    assert no_trace(done)
    assert not (machine.project.root / "results").exists()


def test_the_card_that_env_names(machine: Machine) -> None:
    machine.plant(A, B)
    (machine.project.root / ".env").write_text(f"GPU_PCI_BUS_ID={BUS_B}\nGPU_UUID={UUID_B}\n")
    done = machine.run()
    assert done.returncode in (0, 3), done.stderr
    assert "GPU_PCI_BUS_ID in .env" in done.stdout
    assert machine.launch()["gpu"]["uuid"] == UUID_B


def test_a_server_on_another_card_ends_the_run(machine: Machine) -> None:
    machine.plant({**A, "serves": "nobody"}, {**B, "serves": UUID_A})
    done = machine.run("--gpu", BUS_A)
    assert done.returncode == 5
    for part in (f"Planted A at {BUS_A}", f"Planted B at {BUS_B}"):
        assert part in done.stderr
    assert no_trace(done)
    assert machine.project.nothing_runs()


def test_a_server_that_uses_no_card_ends_the_run(machine: Machine) -> None:
    machine.plant({**A, "serves": "nobody"})
    done = machine.run()
    assert done.returncode == 5
    assert "CPU build of vLLM" in done.stderr


def test_where_numbers_are_hidden_memory_tells_and_tenants_are_unknown(machine: Machine) -> None:
    machine.plant({**A, "hide_pids": 10_000_000})
    done = machine.run()
    assert done.returncode in (0, 3), done.stderr
    assert "is told by the memory used there, 10.0 GiB more" in done.stdout
    assert machine.launch()["gpu"]["pids_visible"] is False
    assert "CO_TENANT" in machine.codes("c2", "unknown")


def test_no_nvml_where_a_gpu_is_needed(machine: Machine) -> None:
    machine.file.write_text('{"unavailable": "no driver"}')
    done = machine.run()
    assert done.returncode == 5
    assert "no GPU can be found: no driver" in done.stderr
    assert no_trace(done)


def test_a_card_that_is_lost_leaves_the_measurement_and_an_unknown(machine: Machine) -> None:
    machine.project.truth["step_ms"] = {"1": 120.0, "16": 120.0}
    process = machine.start()
    assert machine.project.loads()
    machine.plant({**A, "fault": "GPU is lost"})
    out, err = process.communicate(timeout=240)
    assert process.returncode in (0, 3), out + err
    assert "does not answer any more: GPU is lost" in out
    assert "CO_TENANT" in machine.codes("c2", "unknown")


def test_a_model_for_the_cpu_neither_needs_nor_takes_a_gpu(machine: Machine) -> None:
    machine.project.write("models", "m", {"path": "some/model", "platform": "cpu"})
    machine.plant({**A, "processes": [INTRUDER]}, B)
    (machine.project.root / ".env").write_text(f"GPU_PCI_BUS_ID={BUS_A}\n")
    done = machine.run()
    assert done.returncode in (0, 3), done.stderr
    assert machine.project.document("manifest.json")["gpu"] is None
    assert "CUDA_VISIBLE_DEVICES" not in machine.launch()["env"]
    assert not (machine.project.latest / "vanilla/start-0/telemetry.parquet").exists()
    for severity in ("invalid", "suspect", "unknown", "info"):
        assert not machine.codes("c2", severity) & {"CO_TENANT", "THROTTLED"}
    assert not list(Path(machine.env["SPECGAUGE_LOCKS"]).glob("GPU*"))
