"""What ``docker compose config`` makes of our files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = ("vanilla", "ngram", "ngram_improved", "eagle3")
ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": str(Path.home()),
    "SPECGAUGE_PROJECT": "specgauge-test",
    "SPECGAUGE_UID": "12345",
    "SPECGAUGE_GID": "12345",
    "MODEL_CACHE": "/nowhere/models",
    "HF_CACHE": "/nowhere/hf",
}


def compose(*words: str, cpu: bool = False, env: dict[str, str] | None = None):
    files = ["-f", "compose.yaml", *(["-f", "compose.cpu.yaml"] if cpu else [])]
    command = ["docker", "compose", "--env-file", "/dev/null", *files, *words]
    try:
        return subprocess.run(
            command,
            cwd=ROOT,
            env=ENV if env is None else env,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no docker program")


def services(*profiles: str, cpu: bool = False, **env: str) -> dict[str, dict[str, Any]]:
    words = [word for profile in profiles for word in ("--profile", profile)]
    done = compose(*words, "config", "--format", "json", cpu=cpu, env={**ENV, **env})
    if "is not a docker command" in done.stderr or "unknown flag: --env-file" in done.stderr:
        pytest.skip("there is no Compose plugin")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout)["services"])


def pinned(service: dict[str, Any]) -> list[str]:
    reserved = service.get("deploy", {}).get("resources", {}).get("reservations", {})
    return [uuid for d in reserved.get("devices", []) for uuid in d.get("device_ids") or []]


def devices(service: dict[str, Any]) -> list[Any]:
    reserved = service.get("deploy", {}).get("resources", {}).get("reservations", {})
    return list(reserved.get("devices", []))


def test_only_servers_and_the_exporter_ask_for_a_gpu() -> None:
    every = (*VARIANTS, "observe", "fetch", "preflight")
    found = services(*every)
    servers = {f"vllm-{variant}" for variant in VARIANTS}
    assert {n for n, s in found.items() if devices(s)} == {*servers, "gpu-exporter", "preflight"}
    assert not any(devices(s) for s in services(*every, cpu=True).values())


@pytest.mark.parametrize("variant", VARIANTS)
def test_exactly_one_service_of_a_profile_gets_the_gpu_by_uuid(variant: str) -> None:
    found = services(variant, GPU_UUID="GPU-a")
    assert {n: pinned(s) for n, s in found.items() if pinned(s)} == {f"vllm-{variant}": ["GPU-a"]}


def test_without_a_pin_the_gpu_is_an_invalid_one_and_the_rest_works() -> None:
    assert pinned(services("ngram")["vllm-ngram"]) == ["GPU-unset-run-make-pin"]


def test_without_env_there_is_one_instruction() -> None:
    bare = {k: v for k, v in ENV.items() if k in ("PATH", "HOME")}
    done = compose("--profile", "ngram", "up", env=bare)
    if "required variable" not in done.stderr:
        pytest.skip("there is no Compose plugin")
    assert done.returncode != 0
    assert "type 'make env'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_cpu_stack_has_no_device_and_no_exporter() -> None:
    found = services(*VARIANTS, cpu=True)
    assert "gpu-exporter" not in found
    assert all("deploy" not in service for service in found.values())
    assert found["vllm-ngram"]["environment"]["GPU_UUID"] == ""


def test_every_service_is_hardened_and_none_sees_the_engine() -> None:
    for name, service in services(*VARIANTS, "observe", "fetch", "preflight").items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["user"] == "12345:12345", name
        assert service["pids_limit"] > 0, name
        assert service["logging"]["options"]["max-size"], name
        assert any(mount.startswith("/tmp:exec") for mount in service["tmpfs"]), name
        assert "privileged" not in service, name
        assert "docker.sock" not in json.dumps(service), name


def test_only_fetch_sees_the_token_and_only_loopback_is_published() -> None:
    found = services(*VARIANTS, "observe", "fetch")
    assert [name for name, s in found.items() if s.get("secrets")] == ["fetch"]
    for name, service in found.items():
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1", name
    published = {name for name, s in found.items() if s.get("ports")}
    assert published == {"prometheus", "grafana"}


def test_vllm_is_offline_inside_and_writes_only_where_it_may() -> None:
    service = services("eagle3")["vllm-eagle3"]
    assert list(service["networks"]) == ["inside"]
    environment = service["environment"]
    assert environment["HF_HUB_OFFLINE"] == "1"
    caches = [n for n in environment if n.endswith(("_CACHE_DIR", "_CACHE_ROOT", "_CACHE_PATH"))]
    assert len(caches) >= 5
    for name in (*caches, "FLASHINFER_WORKSPACE_BASE", "XDG_CACHE_HOME", "HF_HOME", "HOME"):
        assert environment[name].startswith("/cache"), name
    writable = {v["target"] for v in service["volumes"] if not v.get("read_only")}
    assert writable == {"/app/results", "/control", "/cache", "/locks"}
    assert service["stop_grace_period"] == "1m0s"
    assert service["healthcheck"]["start_period"] == "45m0s"


@pytest.mark.parametrize("cpu", [False, True])
def test_preflight_asks_the_servers_own_image_and_makes_no_network(cpu: bool) -> None:
    found = services("vanilla", "preflight", cpu=cpu, GPU_UUID="GPU-a")
    mine, server = found["preflight"], found["vllm-vanilla"]
    assert mine["image"] == server["image"]
    assert mine["environment"] == server["environment"]
    assert mine["shm_size"] == server["shm_size"]
    assert pinned(mine) == pinned(server) == ([] if cpu else ["GPU-a"])
    assert mine["network_mode"] == "none"
    assert "networks" not in mine
    writable = {v["target"] for v in mine["volumes"] if not v.get("read_only")}
    assert writable == {"/cache"}  # no results, no orders


def test_order_of_a_run() -> None:
    found = services("ngram")
    assert found["loadgen-ngram"]["depends_on"]["vllm-ngram"]["condition"] == "service_started"
    waits = found["analysis"]["depends_on"]
    assert set(waits) >= {"loadgen-ngram"}
    assert all(name.startswith("loadgen-") for name in waits)
    condition = found["verdict"]["depends_on"]["analysis"]["condition"]
    assert condition == "service_completed_successfully"
    assert found["prometheus"]["attach"] is False


def test_every_variant_has_its_profile_and_prometheus_target() -> None:
    import yaml

    config = yaml.safe_load((ROOT / "config" / "prometheus" / "prometheus.yml").read_text())
    jobs = {job["job_name"]: job["static_configs"] for job in config["scrape_configs"]}
    targets = {c["labels"]["variant"]: c["targets"] for c in jobs["vllm"]}
    assert targets == {v: [f"vllm-{v}:8000"] for v in VARIANTS}
    for variant in VARIANTS:
        assert (ROOT / "config" / "variants" / f"{variant}.yaml").is_file()
        assert {f"vllm-{variant}", f"loadgen-{variant}"} <= set(services(variant))
        assert f"loadgen-{variant}:9100" in jobs["loadgen"][0]["targets"]


@pytest.mark.parametrize("image", ["loadgen", "analysis"])
def test_image_pins_are_the_harness_s(image: str) -> None:
    def pins(path: Path) -> set[str]:
        lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
        return {line for line in lines if line}

    mine = pins(ROOT / "images" / image / "requirements.txt")
    assert mine
    assert mine <= pins(ROOT / "requirements" / "harness.txt")
