"""What a run's manifest says and keeps to itself, from the configuration as it was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from project import SimulatedProject

from specgauge.config.project import Project
from specgauge.config.resolve import resolve
from specgauge.errors import EnvironmentFault
from specgauge.record.documents import Outcome
from specgauge.record.layout import RunPaths
from specgauge.record.manifest import Manifest, write_manifest
from specgauge.record.runs import completed
from specgauge.run import executor
from specgauge.run.runtime import ProcessRuntime


def made(project: SimulatedProject, **server: Any) -> Manifest:
    experiment = {**project.experiment, "server": {**project.experiment["server"], **server}}
    project.write("experiments", "x", experiment)
    here = Project(project.root)
    request = executor.Request(["vanilla"])
    return executor._manifest(resolve(here, "x"), here, request, ProcessRuntime())


def test_secrets_are_in_no_place_of_the_manifest(project: SimulatedProject) -> None:
    project.write(
        "models",
        "m",
        {
            "path": "some/model",
            "server_env": {"HF_TOKEN": "planted"},
            "server_args": {"hf-token": "planted", "max-num-batched-tokens": 512},
        },
    )
    secrets = {
        "server_env": {"AWS_SECRET_ACCESS_KEY": "planted"},
        "server_args": {"api_key": ["planted"]},
    }
    project.write("variants", "vanilla", secrets)
    manifest = made(
        project,
        env={"HTTPS_PROXY": "http://me:planted@proxy:1", "TOKENIZERS_PARALLELISM": "false"},
        args={"kv-transfer-config": {"extra": {"password": "planted"}}},
    )
    text = manifest.model_dump_json()
    assert "planted" not in text
    assert manifest.model["server_args"]["max-num-batched-tokens"] == 512
    assert manifest.experiment["server"]["env"]["TOKENIZERS_PARALLELISM"] == "false"
    assert manifest.variants["ngram"]["speculative_config"]["num_speculative_tokens"] == 4


def test_the_fingerprint_is_over_the_secret_itself(project: SimulatedProject) -> None:
    one, other = (made(project, env={"HF_TOKEN": value}) for value in ("a", "b"))
    assert one.experiment == other.experiment
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    "change",
    [{"port": 9999}, {"host": "localhost"}, {"ready_timeout_s": 9}, {"stop_grace_s": 9}],
)
def test_where_the_server_listens_is_no_other_measurement(
    project: SimulatedProject, change: dict[str, Any]
) -> None:
    assert made(project).fingerprint == made(project, **change).fingerprint


def test_what_the_server_is_given_is_another_measurement(project: SimulatedProject) -> None:
    assert made(project).fingerprint != made(project, args={"enforce-eager": True}).fingerprint


def test_other_packages_are_refused_before_anything_starts(
    project: SimulatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = made(project).model_copy(
        update={"vllm": {"version": "1", "packages": {"torch": "2.9", "gone": "1"}}}
    )
    here = Project(project.root)
    held = (manifest, resolve(here, "x"), here, ProcessRuntime())
    monkeypatch.setattr(executor, "packages_of", lambda _: {"torch": "2.9", "new": "1"})
    executor._hold_to_packages(*held)
    monkeypatch.setattr(executor, "packages_of", lambda _: {"torch": "3.0"})
    with pytest.raises(EnvironmentFault, match=r"torch 2\.9, now 3\.0"):
        executor._hold_to_packages(*held)


def test_a_start_on_another_vllm_does_not_count(project: SimulatedProject, tmp_path: Path) -> None:
    manifest = made(project).model_copy(update={"vllm": {"version": "1"}})
    run = RunPaths(tmp_path / "run")
    write_manifest(run.manifest, manifest)
    plan = executor.StartPlan("vanilla", 0)
    path = run.start("vanilla", 0).outcome
    path.parent.mkdir(parents=True)
    done = Outcome(variant="vanilla", start=0, round=0, state="complete")
    path.write_text(done.model_dump_json())
    assert completed(run) == {plan: 0}
    result = executor.StartResult("complete", vllm_version="2")
    here = Project(project.root)
    with pytest.raises(EnvironmentFault, match="begun with vLLM 1"):
        executor._note_version(run, plan, 0, result, resolve(here, "x"), here, ProcessRuntime())
    assert completed(run) == {}
    assert "vLLM 1" in json.loads(path.read_text())["error"]
