"""Making .venv, with a fake runner that only keeps the commands."""

from pathlib import Path

import pytest

from specgauge.embedded import harness
from specgauge.embedded.command import CommandFailed
from specgauge.errors import EnvironmentFault


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "a checkout"
    (root / "requirements").mkdir(parents=True)
    (root / "requirements" / "harness.txt").write_text("# pins\nx==1\n")
    return root


def make(root, run):
    harness.make(root, lambda text: None, run)


def test_the_pins_first_then_this_checkout_and_nothing_beyond(checkout):
    commands = []
    make(checkout, lambda command, *_, **__: commands.append(list(command)))
    created, *installs = commands
    assert created[-1] == checkout / ".venv"
    assert [words[-2:] for words in installs] == [
        ["-r", str(checkout / "requirements" / "harness.txt")],
        ["-e", str(checkout)],
    ]
    assert all("--no-deps" in words for words in installs)


def test_pips_own_words_are_in_the_message(checkout):
    def no_network(command, *_, **__):
        if "install" in command:
            raise CommandFailed(1, ["Collecting x", "ERROR: No matching distribution found for x"])

    with pytest.raises(EnvironmentFault, match=r"could not install harness\.txt"):
        make(checkout, no_network)


def test_pins_are_exact_and_cover_what_the_project_asks_for():
    """A requirement added to pyproject.toml must be pinned too: the lock is used without deps."""
    import re
    import tomllib

    root = Path(__file__).parents[2]
    pins = {}
    for name in ("harness", "dev"):
        for line in (root / "requirements" / f"{name}.txt").read_text().splitlines():
            if not line.startswith("#"):
                package, version = line.split("==")
                pins[re.sub(r"[-_.]+", "-", package).lower()] = version
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    asked = {
        re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", text)[0]).lower()
        for text in [*project["dependencies"], *(x for words in optional.values() for x in words)]
    }
    assert asked - {"specgauge"} <= set(pins)
