"""The stack with the simulator as its server: return code, report, stopped containers."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from compose_stack import Stack, interrupt, is_loaded

pytestmark = pytest.mark.docker


def launch(stack: Stack, start: int = 0) -> dict[str, object]:
    path = stack.run_folder() / "ngram" / f"start-{start}" / "launch.json"
    return dict(json.loads(path.read_text()))


def wait_for(what: str, condition: Callable[[], object], limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.1)


def test_good_run_returns_0_with_a_report(stack: Stack) -> None:
    done = stack.up("ngram")

    assert done.returncode == 0, done.stdout
    assert set(stack.verdicts()) == {"c1", "c4"}
    assert "INVALID" not in stack.verdicts().values()
    assert (stack.run_folder() / "analysis" / "report.md").is_file()
    stack.assert_stopped()
    assert {s["ExitCode"] for n, s in stack.states().items() if not s["Running"]} == {0}
    assert launch(stack)["exit_code"] == 0
    manifest = json.loads((stack.run_folder() / "manifest.json").read_text())
    assert manifest["runtime"] == "compose"
    log = (stack.run_folder() / "ngram" / "start-0" / "server.log").read_text()
    assert "Application startup complete" in log


def test_second_profile_fills_the_same_open_run(stack: Stack) -> None:
    stack.up("vanilla")
    done = stack.up("ngram")

    assert done.returncode == 0, done.stdout
    assert {c["variant"] for c in stack.summary()["cells"]} == {"vanilla", "ngram"}
    # Complete now: the same profile again is a new run.
    assert stack.up("ngram").returncode == 0
    assert len(list(stack.results.glob("planted/*/manifest.json"))) == 2


def test_two_profiles_at_once_do_not_overlap(stack: Stack) -> None:
    # Whatever the verdict: on 2 cores the second's own start may starve the first's client.
    done = stack.up("vanilla", "ngram")

    assert {c["variant"] for c in stack.summary()["cells"]} == {"vanilla", "ngram"}, done.stdout
    (a, b) = sorted(
        (launch["started_at"], launch["ended_at"])
        for path in stack.run_folder().glob("*/start-0/launch.json")
        for launch in [json.loads(path.read_text())]
    )
    assert a[1] <= b[0]


def test_bad_verdict_fails_up_and_analysis_gives_the_exact_code(stack: Stack) -> None:
    # The server lies about its token counts: measured completely, but not to be believed.
    stack.experiment({"faults": [{"every": 2, "kind": "usage", "usage_error": 3}]})

    done = stack.up("ngram")
    again = stack.compose("run", "--rm", "--no-deps", "analysis")

    assert done.returncode == 1, done.stdout
    assert again.returncode == 3, again.stdout
    assert "INVALID" in stack.verdicts().values()
    stack.assert_stopped()


def test_death_while_loading_is_recorded(stack: Stack) -> None:
    stack.experiment({"die": {"while_loading": "ValueError: no kernel image is available"}})

    done = stack.up("ngram")

    assert done.returncode == 1
    assert "no kernel image is available" in done.stdout
    assert stack.verdicts() == {"c1": "INVALID", "c4": "INVALID"}
    assert stack.states()["loadgen-ngram"]["ExitCode"] == 0
    assert stack.states()["vllm-ngram"]["ExitCode"] == 1
    stack.assert_stopped()


def test_death_mid_cell_keeps_what_was_measured(stack: Stack) -> None:
    stack.experiment({"die": {"after_requests": 8, "how": "signal", "signal": 11}})

    done = stack.up("ngram")

    assert done.returncode == 1
    verdicts = stack.verdicts()
    assert verdicts["c4"] == "INVALID"
    assert launch(stack)["exit_code"] == -11
    assert (stack.run_folder() / "ngram/start-0/c4/repeat-0/requests.parquet").is_file()
    stack.assert_stopped()


def test_out_of_memory_is_named(stack: Stack) -> None:
    grab = "b = []\nwhile True: b.append(bytearray(10**7))"
    stack.experiment({}, server={"command": ["python3", "-c", grab]})
    stack.override = {"services": {"vllm-ngram": {"mem_limit": "96m", "memswap_limit": "96m"}}}

    done = stack.up("ngram")

    assert done.returncode == 1
    assert "want of memory" in done.stdout
    state = stack.states()["vllm-ngram"]
    assert (state["OOMKilled"], state["ExitCode"]) == (True, 1)
    assert launch(stack)["oom_killed"] is True
    assert launch(stack)["exit_code"] == -9
    stack.assert_stopped()


def test_never_ready_is_recorded(stack: Stack) -> None:
    stack.experiment({"loading": {"never_ready": "refused"}}, server={"ready_timeout_s": 3})

    done = stack.up("ngram")

    assert done.returncode == 1
    assert "not ready within 3 s" in done.stdout
    assert set(stack.verdicts().values()) == {"INVALID"}
    stack.assert_stopped()


def test_ctrl_c_stops_everything_and_keeps_the_record(stack: Stack) -> None:
    stack.experiment({"step_ms": {1: 200.0}})
    process = stack.start("--profile", "ngram", "up")
    wait_for("the first request", lambda: is_loaded(stack))

    interrupt(process)
    output, _ = process.communicate(timeout=100)

    assert process.returncode != 0
    stack.assert_stopped()
    outcome = json.loads((stack.run_folder() / "ngram/start-0/outcome.json").read_text())
    assert outcome["state"] == "interrupted", output
    cell = json.loads((stack.run_folder() / "ngram/start-0/c1/repeat-0/cell.json").read_text())
    assert cell["state"] == "incomplete"
    assert launch(stack)["ended_at"] is not None


def test_killed_load_generator_takes_the_server_with_it(stack: Stack) -> None:
    stack.experiment({"step_ms": {1: 200.0}})
    process = stack.start("--profile", "ngram", "up")
    wait_for("the first request", lambda: is_loaded(stack))

    stack.compose("kill", "loadgen-ngram")
    process.communicate(timeout=100)

    assert process.returncode == 1
    stack.assert_stopped()
    assert launch(stack)["ended_at"] is not None


def gpu(processes: list[dict[str, object]]) -> dict[str, object]:
    return {"uuid": "GPU-a", "pci_bus_id": "00000000:41:00.0", "processes": processes}


def with_gpu(stack: Stack, *gpus: dict[str, object], wait_s: int = 2) -> None:
    environment = {
        "GPU_UUID": "GPU-a",
        "GPU_PCI_BUS_ID": "00000000:41:00.0",
        "SPECGAUGE_FAKE_NVML": json.dumps({"gpus": gpus}),
        "SPECGAUGE_GPU_WAIT_S": str(wait_s),
    }
    exporter = {"profiles": ["ngram"], "environment": environment}
    stack.override = {
        "services": {"vllm-ngram": {"environment": environment}, "gpu-exporter": exporter}
    }


def test_busy_gpu_is_not_measured_on(stack: Stack) -> None:
    with_gpu(stack, gpu([{"pid": 4711, "memory": 70 * 2**30}]))

    done = stack.up("ngram")

    assert done.returncode == 1
    assert "GPU-a is in use" in done.stdout
    assert "pid 4711" in done.stdout
    assert stack.states()["loadgen-ngram"]["ExitCode"] == 5
    assert not (stack.run_folder() / "analysis").exists()
    stack.assert_stopped()


def test_slow_release_is_waited_for(stack: Stack) -> None:
    with_gpu(stack, gpu([{"pid": 4711, "ends_s": 1, "release_s": 2}]), wait_s=30)

    done = stack.up("ngram")

    assert done.returncode == 0, done.stdout
    assert "waiting: the GPU is in use" in done.stdout


def test_another_gpu_than_the_pinned_one_is_refused(stack: Stack) -> None:
    with_gpu(stack, {"uuid": "GPU-b", "pci_bus_id": "00000000:c1:00.0"})

    done = stack.up("ngram")

    assert done.returncode == 1
    assert "wanted exactly the GPU GPU-a" in done.stdout
    assert "GPU-b" in done.stdout


def test_a_failed_load_generator_never_passes_off_an_older_run(stack: Stack) -> None:
    assert stack.up("ngram").returncode == 0

    done = stack.up("ngram", MODEL="no-such-model")

    assert done.returncode == 1
    assert "nothing to analyse" in done.stdout


def test_secrets_are_nowhere(stack: Stack, tmp_path: Path) -> None:
    token, password = "hf_planted_token_4711", "planted-password-4711"
    (tmp_path / "token").write_text(token)
    settings = tmp_path / "docker"
    settings.mkdir()
    proxy = f"http://ann:{password}@127.0.0.1:9"
    (settings / "config.json").write_text(
        json.dumps({"proxies": {"default": {"httpProxy": proxy, "httpsProxy": proxy}}})
    )
    usual = os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"
    plugins = Path(usual) / "cli-plugins"
    if plugins.is_dir():
        (settings / "cli-plugins").symlink_to(plugins)
    secret = {"HF_TOKEN": token, "HF_TOKEN_FILE": str(tmp_path / "token")}

    done = stack.up("ngram", DOCKER_CONFIG=str(settings), **secret)

    # Measured and analysed; whatever the verdict.
    assert (stack.run_folder() / "analysis" / "report.md").is_file(), done.stdout
    ids = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label=com.docker.compose.project={stack.name}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    seen = done.stdout
    seen += subprocess.run(
        ["docker", "inspect", *ids], capture_output=True, text=True, check=True
    ).stdout
    for kind in ("LOADGEN_IMAGE", "ANALYSIS_IMAGE", "VLLM_IMAGE"):
        seen += subprocess.run(
            ["docker", "history", "--no-trunc", stack.env[kind]],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    for path in stack.folder.rglob("*"):
        if path.is_file() and tmp_path / "docker" not in path.parents and path.name != "token":
            seen += path.read_bytes().decode(errors="replace")
    assert token not in seen
    assert password not in seen
