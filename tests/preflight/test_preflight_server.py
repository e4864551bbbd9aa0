"""Checks of the server's environment, port, disk and flags, each with its fault planted."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from planted import CARD, ENVIRONMENT, GIB, MATMUL, TORCH, Machine

from specgauge.config.model import Model
from specgauge.errors import EnvironmentFault
from specgauge.preflight.checks import flags, place, server, toolchain, torch
from specgauge.preflight.checks import torch as torch_check
from specgauge.preflight.result import Result
from specgauge.preflight.small import process


def packages(**more: str) -> dict[str, Any]:
    return ENVIRONMENT | {"packages": ENVIRONMENT["packages"] | more}


def program(machine: Machine, command: list[str]) -> Result:
    machine.experiment["server"] = {"command": command}
    context = machine.context()
    context.found.program = context.found.python = None
    return server.program(context)


def test_server_and_its_version(machine: Machine) -> None:
    result = program(machine, [str(machine.python()), "-m", "vllm.entrypoints.cli.main", "serve"])
    assert result.status == "ok"
    assert "vLLM 0.32.0" in result.seen


def test_vllm_s_own_script_leads_to_its_python(machine: Machine) -> None:
    script = machine.root / "vllm"
    script.write_text(f"#!{machine.python()}\n")
    script.chmod(0o755)
    result = program(machine, [str(script), "serve"])
    assert result.status == "ok"
    assert "vLLM 0.32.0" in result.seen


def test_wrong_path(machine: Machine) -> None:
    with pytest.raises(EnvironmentFault, match="no server program"):
        program(machine, ["/nowhere/bin/python", "-m", "vllm", "serve"])


def test_python_that_cannot_run(machine: Machine) -> None:
    broken = machine.root / "bin" / "python"
    broken.parent.mkdir()
    broken.write_text("#!/nowhere/python\n")
    broken.chmod(0o755)
    result = program(machine, [str(broken), "-m", "vllm.x", "serve"])
    assert result.status == "fail"
    assert "does not answer" in result.seen


def test_environment_without_vllm(machine: Machine) -> None:
    machine.answers["environment"] = ENVIRONMENT | {"packages": {}}
    result = program(machine, [str(machine.python()), "-m", "vllm.entrypoints.cli.main", "serve"])
    assert result.status == "fail"
    assert "no vLLM" in result.seen


def test_another_version_than_the_experiment_s(machine: Machine) -> None:
    command = [str(machine.python()), "-m", "vllm.entrypoints.cli.main", "serve"]
    machine.experiment["server"] = {"command": command, "vllm_version": "0.27.1"}
    context = machine.context()
    result = server.program(context)
    assert result.status == "fail"
    assert "0.27.1" in result.seen


TRAP = {"array_subscript": "type 'array.array' is not subscriptable", "python": "3.11.7"}


@pytest.mark.parametrize(
    ("environment", "status"),
    [
        (ENVIRONMENT, "ok"),
        (ENVIRONMENT | TRAP, "ok"),  # nothing evaluates it
        (ENVIRONMENT | TRAP | {"evaluates_array_subscript": "flashinfer/comm/x.py"}, "fail"),
        (ENVIRONMENT | {"evaluates_array_subscript": "flashinfer/comm/x.py"}, "ok"),  # 3.12
    ],
)
def test_python_trap(machine: Machine, environment: dict[str, Any], status: str) -> None:
    machine.answers["environment"] = environment
    result = server.traps(machine.context())
    assert result.status == status
    if status == "fail":
        assert "3.12" in (result.remedy or "")


def test_python_trap_really_evaluated(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed's regression test, in this very Python, with flashinfer's module planted."""
    folder = machine.root / "site" / "flashinfer" / "comm"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder / "fd_exchange.py").write_text("import array\ndef f() -> array.array[int]: ...\n")
    monkeypatch.setenv("PYTHONPATH", str(machine.root / "site"))
    machine.experiment["server"] = {"command": [sys.executable, "-m", "x"]}
    context = machine.context()
    context.found.python = None
    assert server.program(context).status == "ok"
    expected = "ok" if sys.version_info >= (3, 12) else "fail"
    assert server.traps(context).status == expected


@pytest.mark.parametrize(("size", "status"), [(64 * 2**20, "fail"), (GIB, "ok"), (None, "skipped")])
def test_shared_memory(machine: Machine, size: int | None, status: str) -> None:
    machine.answers["environment"] = ENVIRONMENT | {"shm_bytes": size}
    assert server.shared_memory(machine.context()).status == status


@pytest.mark.parametrize(
    ("environment", "status", "word"),
    [
        (ENVIRONMENT, "ok", "gcc"),
        (ENVIRONMENT | {"compiler": None}, "fail", "C compiler"),
        (ENVIRONMENT | {"ninja": None}, "warn", "ninja"),
        (ENVIRONMENT | {"ninja": None, "ninja_beside": "/env/bin/ninja"}, "warn", "not on PATH"),
        (ENVIRONMENT | {"nvcc": None}, "warn", "nvcc"),
        (ENVIRONMENT | {"python_h": False}, "warn", "Python.h"),
        (packages(**{"flashinfer-jit-cache": "0.6.16"}) | {"ninja": None, "nvcc": None}, "ok", ""),
        (
            ENVIRONMENT | {"packages": {"vllm": "0.32.0"}, "ninja": None, "nvcc": None},
            "ok",
            "not needed",
        ),
    ],
)
def test_toolchain(machine: Machine, environment: dict[str, Any], status: str, word: str) -> None:
    machine.answers["environment"] = environment
    result = toolchain.toolchain(machine.context())
    assert result.status == status
    assert word in result.seen


def test_toolchain_of_a_cpu(machine: Machine) -> None:
    machine.model["platform"] = "cpu"
    machine.answers["environment"] = ENVIRONMENT | {"cxx": None}
    assert toolchain.toolchain(machine.context()).status == "fail"
    machine.model["server_args"] = {"enforce_eager": True}
    assert toolchain.toolchain(machine.context()).status == "skipped"


def test_smoke_model_is_served_with_its_own_arguments_and_the_real_model_s_kernels(
    machine: Machine,
) -> None:
    small = Model.model_validate(
        {"name": "s", "path": "/s", "server_args": {"load-format": "dummy", "enforce-eager": True}}
    )
    machine.model["server_args"] |= {"block-size": 32}
    context = machine.context()
    context.found.program = ["python3", "-m", "serve"]
    argv = process.spec(context, small, "/s", machine.root).argv
    assert argv[argv.index("--load-format") + 1] == "dummy"
    assert argv[argv.index("--block-size") + 1] == "32"
    assert argv[argv.index("--gpu-memory-utilization") + 1] == "0.15"
    assert "--enforce-eager" not in argv


@pytest.mark.parametrize(
    ("told", "status", "word"),
    [
        (TORCH, "ok", "sm_120"),
        (TORCH | {"arch_list": ["sm_90", "sm_100"]}, "fail", "no kernels for sm_120"),
        (TORCH | {"arch_list": ["sm_90", "compute_90"]}, "warn", "compute_90"),
        (TORCH | {"cuda": None}, "fail", "without CUDA"),
        (TORCH | {"error": "The NVIDIA driver on your system is too old"}, "fail", "too old"),
        (TORCH | {"devices": 2}, "fail", "2 GPUs"),
    ],
)
def test_torch_s_build(machine: Machine, told: dict[str, Any], status: str, word: str) -> None:
    machine.answers["torch_build"] = told
    result = torch.build(machine.on_card())
    assert result.status == status
    assert word in result.seen


@pytest.mark.parametrize(
    ("told", "status", "word"),
    [
        (MATMUL, "ok", "right"),
        (MATMUL | {"uuid": "preflight-a"}, "ok", "right"),
        (MATMUL | {"uuid": "GPU-preflight-b"}, "fail", "GPU-preflight-b"),
        (MATMUL | {"right": False}, "fail", "wrong"),
        (
            MATMUL | {"error": "CUDA error: no kernel image is available for execution"},
            "fail",
            "no kernel image",
        ),
    ],
)
def test_matmul(machine: Machine, told: dict[str, Any], status: str, word: str) -> None:
    machine.answers["matmul"] = told
    result = torch.matmul(machine.on_card())
    assert result.status == status
    assert word in result.seen


def test_hung_gpu_is_bounded(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    del machine.answers["matmul"]  # the planted Python then never answers
    monkeypatch.setattr(torch_check, "MATMUL_LIMIT_S", 0.5)
    result = torch.matmul(machine.on_card())
    assert result.status == "fail"
    assert "no answer within" in result.seen


def test_questions_go_to_the_card_by_uuid(machine: Machine) -> None:
    env = machine.on_card().server_env()
    assert env["CUDA_VISIBLE_DEVICES"] == CARD
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_port(machine: Machine, free_port: int) -> None:
    machine.experiment["server"] = {"port": free_port}
    assert place.port(machine.context()).status == "ok"
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_port))
        other.listen()
        with pytest.raises(EnvironmentFault, match=f"pid {os.getpid()}"):
            place.port(machine.context())
    machine.experiment["server"] = {"port": free_port, "host": "0.0.0.0"}
    result = place.port(machine.context())
    assert result.status == "warn"
    assert "network" in result.seen


def test_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    for free, status in ((20 * GIB, "ok"), (5 * GIB, "fail")):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: usage(0, 0, free))
        assert place.disk(machine.context()).status == status


def fake_vllm(machine: Machine, said: str, status: int = 2) -> Path:
    """A program that ends as vLLM's parser does, whatever it is given."""
    path = machine.root / "vllm"
    path.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"print({said!r}.replace('ALL', ' '.join(sys.argv[1:])), file=sys.stderr)\n"
        f"sys.exit({status})\n"
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "status", "word", "remedy"),
    [
        # As vLLM 0.32 says it, captured.
        (f"main.py: error: unrecognized arguments: {flags.UNKNOWN}", "ok", "knows all", ""),
        (
            f"main.py: error: unrecognized arguments: --disable-log-requests {flags.UNKNOWN}",
            "fail",
            "--disable-log-requests",
            "'server_args:' of variant 'vanilla'",
        ),
        (
            "main.py serve: error: argument --max-model-len: invalid "
            "human_readable_int_or_auto value: 'abc'",
            "fail",
            "'abc'",
            "'server_args:' of model 'm'",
        ),
        ("ModuleNotFoundError: No module named 'vllm'", "warn", "No module named", "smoke"),
    ],
)
def test_flags(machine: Machine, said: str, status: str, word: str, remedy: str) -> None:
    machine.write("variants", "vanilla", {"server_args": {"disable-log-requests": True}})
    context = machine.context()
    context.found.program = [str(fake_vllm(machine, said)), "serve"]
    result = flags.flags(context)
    assert result.status == status
    assert word in result.seen
    assert remedy in (result.remedy or "")


def test_flags_of_all_variants_are_tried_at_once(machine: Machine) -> None:
    machine.write("variants", "other", {
        "server_args": {"only-here": 1}, "speculative_config": {"method": "ngram"}})  # fmt: skip
    machine.experiment["variants"] = ["vanilla", "other"]
    context = machine.context()
    said = "error: unrecognized arguments: ALL"
    context.found.program = [str(fake_vllm(machine, said)), "serve"]
    seen = flags.flags(context).seen
    for flag in ("--max-model-len", "--only-here", "--speculative-config"):
        assert flag in seen


def test_flags_in_the_stack_are_asked_of_the_image(machine: Machine) -> None:
    context = machine.context(way="compose")
    context.found.program = ["vllm", "serve"]
    context.found.python = [str(fake_vllm(machine, "error: unrecognized arguments: ALL"))]
    seen = flags.flags(context).seen
    assert "--max-model-len" in seen


def test_program_that_is_not_vllm_is_not_asked_for_its_flags(machine: Machine) -> None:
    context = machine.context()
    context.found.program = [sys.executable, "-m", "specgauge.simulate"]
    assert flags.flags(context).status == "skipped"
