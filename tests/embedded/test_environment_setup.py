"""Making .venv-vllm, with a fake runner that does what `venv` and pip would leave behind."""

import importlib.metadata
import shutil
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from specgauge.embedded import environment
from specgauge.embedded.command import CommandFailed
from specgauge.errors import EnvironmentFault

LOCK = "# a lock\ngguf==0.19.0\ntorch==2.13.0+cpu\nvllm-cpu==0.32.0\n"
NO_TORCH = "ERROR: No matching distribution found for torch==2.13.0+cpu"


class FakeRunner:
    """Stands in for ``command.run``: keeps the commands; ``fails`` maps a word to what is said."""

    def __init__(self):
        self.commands = []
        self.fails = {}

    def __call__(self, command, doing, say, **_):
        words = [str(word) for word in command]
        self.commands.append(words)
        for word, lines in self.fails.items():
            if word in words and environment.PYTORCH_CPU_INDEX not in words:
                if isinstance(lines, BaseException):
                    raise lines
                raise CommandFailed(1, lines)
        if "venv" in words:
            if "--clear" in words:
                shutil.rmtree(words[-1], ignore_errors=True)
            python = Path(words[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True, exist_ok=True)
            python.symlink_to(sys.executable)
            site = environment._site_packages(Path(words[-1]))
            site.mkdir(parents=True, exist_ok=True)
        return []


@pytest.fixture
def root(tmp_path):
    (tmp_path / "requirements").mkdir()
    (tmp_path / environment.LOCK).write_text(LOCK)
    return tmp_path


@pytest.fixture
def fake():
    return FakeRunner()


def ensure(root, fake):
    return environment.ensure(root, lambda text: None, fake)


def test_made_once(root, fake):
    python = ensure(root, fake)
    assert python == root / ".venv-vllm" / "bin" / "python"
    done = len(fake.commands)
    assert ensure(root, fake) == python
    assert len(fake.commands) == done


def test_nothing_is_installed_beyond_the_lock(root, fake):
    ensure(root, fake)
    installs = [words for words in fake.commands if "install" in words]
    assert len(installs) == 2
    assert all("--no-deps" in words for words in installs)
    assert not any(environment.PYTORCH_CPU_INDEX in words for words in installs)


def test_pytorchs_index_is_asked_only_where_pip_has_no_cpu_build(root, fake):
    fake.fails["torch==2.13.0+cpu"] = [NO_TORCH]
    ensure(root, fake)
    asked = [words for words in fake.commands if environment.PYTORCH_CPU_INDEX in words]
    assert len(asked) == 1
    assert asked[0][-1] == "torch==2.13.0+cpu"


def test_another_failure_of_pip_is_told_and_nothing_else_is_tried(root, fake):
    fake.fails["torch==2.13.0+cpu"] = ["Collecting torch", "ERROR: No space left on device"]
    with pytest.raises(EnvironmentFault, match="No space left on device"):
        ensure(root, fake)
    assert not any(environment.PYTORCH_CPU_INDEX in words for words in fake.commands)


@pytest.mark.parametrize("word", ["venv", "torch==2.13.0+cpu", "-r", "-c"])
def test_an_interrupted_installation_is_done_again(root, fake, word):
    fake.fails[word] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        ensure(root, fake)
    fake.fails.clear()
    fake.commands.clear()
    ensure(root, fake)
    assert "--clear" in fake.commands[0]
    assert len(fake.commands) == 4


def test_another_lock_makes_it_anew(root, fake):
    ensure(root, fake)
    with (root / environment.LOCK).open("a") as lock:
        lock.write("pandas==3.1.1\n")
    fake.commands.clear()
    ensure(root, fake)
    assert "--clear" in fake.commands[0]


def test_a_python_that_was_removed_makes_it_anew(root, fake):
    ensure(root, fake).unlink()
    fake.commands.clear()
    ensure(root, fake)
    assert fake.commands


def test_the_name_vllm_and_a_cpu_version_are_found(root, fake):
    ensure(root, fake)
    site = environment._site_packages(root / ".venv-vllm")
    found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions(path=[site])}
    assert found == {"vllm": "0.32.0+cpu"}


def test_cheap_checks_come_before_any_command(root, fake, monkeypatch):
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 0, 10**9))
        with pytest.raises(EnvironmentFault, match=r"1\.0 GB free, .* needs 5 GB"):
            ensure(root, fake)
    with monkeypatch.context() as patch:
        patch.setattr(environment, "NEWEST", (3, 10))
        with pytest.raises(EnvironmentFault, match=r"needs Python 3\.11 to 3\.10"):
            ensure(root, fake)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        with pytest.raises(EnvironmentFault, match="Linux only"):
            ensure(root, fake)
    assert fake.commands == []


def test_a_folder_that_is_something_else_is_not_removed(root, fake):
    (root / ".venv-vllm").mkdir()
    (root / ".venv-vllm" / "thesis.txt").write_text("years of work")
    with pytest.raises(EnvironmentFault, match="move it away"):
        ensure(root, fake)
    assert (root / ".venv-vllm" / "thesis.txt").exists()


@pytest.mark.parametrize(("name", "noted"), [("plain", False), ("two words", True)])
def test_a_path_that_ld_preload_cannot_hold_is_pointed_out(root, fake, name, noted):
    moved = root / name
    shutil.copytree(root / "requirements", moved / "requirements")
    said = []
    environment.ensure(moved, said.append, fake)
    assert any("cannot be preloaded" in text for text in said) == noted
