"""pip's command line, its lines of progress, and its errors.  Standard library only."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from specgauge.embedded.command import CommandFailed
from specgauge.errors import EnvironmentFault


def python_of(folder: Path) -> Path:
    """The Python of the virtual environment ``folder``."""
    return folder / "bin" / "python"


def install(folder: Path, *words: str) -> list[str]:
    """The command that installs exactly ``words`` into ``folder``: the locks are complete."""
    pip = [str(python_of(folder)), "-m", "pip", "--disable-pip-version-check"]
    return [*pip, "install", "--no-deps", "--progress-bar", "off", *words]


def what_pip_does(line: str) -> str:
    """pip's line in short: ``Collecting x==1 (from …)`` → ``collecting x==1``.

    Of a path or an address only the file's name is left; unknown lines give an empty text.
    """
    match = re.match(r"\s*(Collecting|Downloading|Processing|Using cached) (\S+)", line)
    if match:
        return f"{match[1].lower()} {match[2].rsplit('/', 1)[-1]}"
    return "unpacking" if line.startswith("Installing collected") else ""


def progress_in(folder: Path, total: int) -> Callable[[str], str]:
    """For ``command.run``: what pip does, or how many of ``total`` packages it has unpacked.

    pip says nothing while it unpacks, so packages are counted where they arrive.
    """
    before = _packages(folder)

    def progress(line: str) -> str:
        unpacked = _packages(folder) - before
        return f"{unpacked} of {total} packages unpacked" if unpacked else what_pip_does(line)

    return progress


def _packages(folder: Path) -> int:
    return len(list(folder.glob("lib/python*/site-packages/*.dist-info")))


def fault(what: str, failed: CommandFailed) -> EnvironmentFault:
    """``what`` went wrong, followed by the program's own errors or its last lines."""
    errors = [line for line in failed.output if line.startswith(("ERROR", "error", "Error"))]
    shown = errors[-3:] or failed.output[-5:]
    return EnvironmentFault("\n".join([f"{what}:", *(f"  {line}" for line in shown)]))
