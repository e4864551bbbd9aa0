"""Makes ``.venv``, the harness's own environment.  Standard library only.

    PYTHONPATH=src python3 -m specgauge.embedded.harness        the harness
    PYTHONPATH=src python3 -m specgauge.embedded.harness dev    and the tools for its tests

``make`` decides when: it calls this whenever the pins are newer than its stamp.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from specgauge.embedded.command import CommandFailed, Say, run
from specgauge.embedded.installer import fault, install, progress_in, python_of, what_pip_does
from specgauge.errors import SpecgaugeError

FOLDER = ".venv"

Run = Callable[..., list[str]]
"""``command.run``, or a stand-in."""


def make(root: Path, say: Say, run: Run = run) -> None:
    """Create or bring up to date ``root/.venv``: the pinned packages and this checkout.

    Raises:
        EnvironmentFault: Python or pip could not; the message has its words.
    """
    folder = root / FOLDER
    say(f"making {folder}: the harness …")
    clear = [] if _is_of_this_python(folder) else ["--clear"]
    try:
        run([sys.executable, "-m", "venv", *clear, folder], "making the environment", say)
    except CommandFailed as failed:
        raise fault("Python cannot make a virtual environment", failed) from None
    _install_pins(folder, root / "requirements" / "harness.txt", say, run)
    say("  installing specgauge …")
    _install(folder, ["-e", str(root)], "specgauge", say, run, what_pip_does)


def add_tools(root: Path, say: Say, run: Run = run) -> None:
    """Add linters, types and test tools to ``root/.venv``.  Raises EnvironmentFault."""
    _install_pins(root / FOLDER, root / "requirements" / "dev.txt", say, run)


def _install_pins(folder: Path, pins: Path, say: Say, run: Run) -> None:
    lines = pins.read_text().splitlines()
    total = sum(not line.startswith("#") for line in lines)
    say(f"  installing {total} packages of {pins.name} …")
    progress = progress_in(folder, total)
    _install(folder, ["-r", str(pins)], pins.name, say, run, progress)


def _install(
    folder: Path, words: list[str], what: str, say: Say, run: Run, progress: Callable[[str], str]
) -> None:
    try:
        run(install(folder, *words), f"installing {what}", say, progress=progress)
    except CommandFailed as failed:
        raise fault(f"pip could not install {what}", failed) from None


def _is_of_this_python(folder: Path) -> bool:
    """Whether ``folder`` is an environment of the running Python's version (3.11, say)."""
    version = ".".join(str(part) for part in sys.version_info[:2])
    return (folder / "lib" / f"python{version}").is_dir() and os.access(python_of(folder), os.X_OK)


def main(words: Sequence[str]) -> int:
    """Make the environment (``dev``: add the tools) of the checkout that holds this file."""
    root = Path(__file__).resolve().parents[3]

    def say(text: str) -> None:
        print(text, flush=True)

    try:
        if words and words[0] == "dev":
            add_tools(root, say)
        else:
            make(root, say)
    except SpecgaugeError as error:
        print(f"specgauge: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("\ninterrupted; the same command begins this step again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
