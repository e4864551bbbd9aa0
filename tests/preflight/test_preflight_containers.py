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
from specgauge.preflight.containers import Containers
from specgauge.stack.choose import Stack

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


def test_engine_that_does_not_answer_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    stack = Stack(tmp_path, "p", {}, True, None)  # type: ignore[arg-type]
    assert Containers(stack, tmp_path).sweep() == []


def test_two_preflights_have_two_labels(tmp_path: Path) -> None:
    stack = Stack(tmp_path, "p", {}, True, None)  # type: ignore[arg-type]
    first, second = (Containers(stack, tmp_path).python for _ in range(2))
    assert first[-1] == second[-1] == "preflight"
    assert first != second
