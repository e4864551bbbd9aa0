"""``specgauge run --runtime compose``: the host's side, in a checkout of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from compose_checkout import command, plant, run
from compose_stack import Stack, is_loaded

from specgauge.stack.env import put

pytestmark = pytest.mark.docker


def test_rounds_are_interleaved_in_one_run_and_the_code_is_exact(
    stack: Stack, checkout: Path
) -> None:
    small = [{"concurrency": 1, "requests": 2}]
    plant(stack, checkout, {}, rounds=2, loads=small)

    done = run(stack, checkout, "-v", "all", "--runtime", "auto")

    assert done.returncode == 0, done.stdout
    assert "runtime: compose" in done.stdout
    starts = sorted(
        (json.loads(path.read_text())["started_at"], path.parts[-3])
        for path in stack.run_folder().glob("*/start-*/launch.json")
    )
    assert [variant for _, variant in starts] == ["vanilla", "ngram", "vanilla", "ngram"]
    assert (stack.run_folder() / "analysis" / "report.md").is_file()
    stack.assert_stopped()
    # All measured: nothing is started again in the run that is named.
    again = run(
        stack, checkout, "-v", "all", "--runtime", "compose", "--run", stack.run_folder().name
    )
    assert again.returncode == 0, again.stdout
    assert len(list(stack.run_folder().glob("*/start-*"))) == 4


def test_dead_server_is_incomplete_and_the_other_variant_is_measured(
    stack: Stack, checkout: Path
) -> None:
    truth = {"die": {"after_requests": 2, "variants": ["ngram"]}}
    plant(stack, checkout, truth, loads=[{"concurrency": 1, "requests": 4}])

    done = run(stack, checkout, "-v", "all", "--runtime", "compose")

    assert done.returncode == 4, done.stdout
    assert "not measured: ngram" in done.stdout
    verdicts = {c["variant"]: c["verdict"] for c in stack.summary()["cells"]}
    assert verdicts == {"vanilla": "VALID", "ngram": "INVALID"}
    stack.assert_stopped()


def test_ctrl_c_ends_with_130(stack: Stack, checkout: Path) -> None:
    plant(stack, checkout, {"step_ms": {1: 200.0}})
    env = {**os.environ, "SPECGAUGE_RESULTS": str(stack.results)}
    process = subprocess.Popen(
        command("-v", "ngram", "--runtime", "compose"),
        cwd=checkout,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    deadline = time.monotonic() + 60
    while not is_loaded(stack):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    stack.assert_stopped()


def test_missing_images_name_the_remedy_and_auto_goes_on_as_processes(
    stack: Stack, checkout: Path
) -> None:
    put(checkout / ".env", {"LOADGEN_IMAGE": "no-such-image"})

    wished = run(stack, checkout, "-v", "ngram", "--runtime", "compose")
    auto = run(stack, checkout, "-v", "ngram", "--runtime", "auto")

    assert wished.returncode == 5
    assert "make build CPU=1" in wished.stdout
    assert "runtime: process (Compose cannot be used: images are missing" in auto.stdout


def test_strangers_with_our_name_are_left_alone(stack: Stack, checkout: Path) -> None:
    other = stack.folder / "other"
    other.mkdir()
    label = "com.docker.compose.project"
    made = subprocess.run(
        [
            *("docker", "create", "--label", f"{label}={stack.name}"),
            *("--label", f"{label}.working_dir={other}", stack.env["LOADGEN_IMAGE"]),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    try:
        done = run(stack, checkout, "-v", "ngram", "--runtime", "compose")
        assert done.returncode == 5
        assert str(other) in done.stdout
        subprocess.run(["docker", "inspect", made], capture_output=True, check=True)
    finally:
        subprocess.run(["docker", "rm", made], capture_output=True, check=True)
