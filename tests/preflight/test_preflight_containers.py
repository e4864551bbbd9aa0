"""No container of a preflight is left behind, and one that cannot be removed is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest
from planted import Machine
from rich.console import Console

from specgauge.preflight import command, containers
from specgauge.preflight.checks import docker
from specgauge.preflight.containers import Containers
from specgauge.stack.choose import Stack
from specgauge.stack.engine import Seen

DOCKER = """#!{python}
import sys
from pathlib import Path
there = Path({there!r})
if sys.argv[1] == "ps":
    assert sys.argv[-1].startswith("label=specgauge.preflight=")
    print(there.read_text() if there.exists() else "")
elif {removes!r}:
    assert sys.argv[1:4] == ["rm", "--force", "--volumes"]
    assert sys.argv[4:] == there.read_text().split()
    there.unlink()
"""


def made(root: Path, monkeypatch: pytest.MonkeyPatch, removes: bool) -> Containers:
    """Containers of an engine that has two of them and removes them, or does not."""
    (root / "bin").mkdir()
    docker = root / "bin" / "docker"
    there = root / "there"
    there.write_text("abc\ndef\n")
    docker.write_text(DOCKER.format(python=sys.executable, there=str(there), removes=removes))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(root / "bin"), prepend=":")
    return Containers(Stack(root, "p", {}, True, None), root)  # type: ignore[arg-type]


def test_what_is_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(tmp_path, monkeypatch, removes=True).sweep() == []
    assert not (tmp_path / "there").exists()


def test_container_that_came_late_is_removed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = made(tmp_path, monkeypatch, removes=True)
    # Its client was killed while the engine made it.
    answers: Iterator[list[str]] = chain([[], ["abc"]], repeat([]))
    monkeypatch.setattr(mine, "_listed", lambda: next(answers))
    (tmp_path / "there").write_text("abc")
    assert mine.sweep() == []
    assert not (tmp_path / "there").exists()


def test_what_cannot_be_removed_is_named_at_the_end(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(containers, "_SWEEP_LIMIT_S", 0.5)
    monkeypatch.setattr(command, "CHECKS", ())
    context = machine.context(way="compose")
    context.found.containers = made(machine.root, monkeypatch, removes=False)
    command.preflight(context, Console(quiet=True), as_json=False)
    assert "docker rm --force abc def" in capsys.readouterr().err


@pytest.mark.parametrize("script", [None, "echo no daemon >&2; exit 1"])
def test_engine_that_does_not_answer_holds_nobody_up_and_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    if script is not None:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(containers, "_SWEEP_LIMIT_S", float("inf"))
    stack = Stack(tmp_path, "p", {}, True, None)  # type: ignore[arg-type]
    (words,) = Containers(stack, tmp_path).sweep()
    assert words.startswith("$(docker ps -aq --filter label=specgauge.preflight=")


class AtWork:
    """An engine with one container of ``service``."""

    def __init__(self, service: str, running: bool) -> None:
        self.seen = [Seen(service, f"p-{service}-1", "", running, 0, False, None)]

    def project(self, name: str) -> list[Seen]:
        return self.seen


@pytest.mark.parametrize(
    ("service", "running", "status"),
    [("vllm-ngram", True, "fail"), ("vllm-ngram", False, "ok"), ("prometheus", True, "ok")],
)
def test_measurement_of_this_checkout_is_not_disturbed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, service: str, running: bool, status: str
) -> None:
    stack = Stack(machine.root, "p", {}, True, AtWork(service, running))  # type: ignore[arg-type]
    monkeypatch.setattr(docker, "examine", lambda root: [])
    monkeypatch.setattr(docker, "ready_stack", lambda root, model: stack)
    context = machine.context(way="compose")
    result = docker.docker(context)
    assert result.status == status
    assert ("p-vllm-ngram-1 is running" in result.seen) is (status == "fail")
    assert (context.found.containers is None) is (status == "fail")


def test_two_preflights_have_two_labels(tmp_path: Path) -> None:
    stack = Stack(tmp_path, "p", {}, True, None)  # type: ignore[arg-type]
    first, second = (Containers(stack, tmp_path).python for _ in range(2))
    assert first[-1] == second[-1] == "preflight"
    assert first != second
