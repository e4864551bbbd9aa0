"""A package's wheel by exact hash: from the cache, else through pip, once."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from specgauge.embedded.command import CommandFailed, Say, run
from specgauge.errors import EnvironmentFault

PIP: tuple[str, ...] = (sys.executable, "-m", "pip")


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch_wheel(
    requirement: str,
    wheel: str,
    expected_sha256: str,
    folder: Path,
    say: Say,
    *,
    pip: Sequence[str] = PIP,
) -> Path:
    """The file ``wheel`` of ``requirement`` (``name==version``), verified, in ``folder``.

    A file that is there with the right hash is used; another one is replaced.  pip looks wherever
    it is configured to look.

    Raises:
        EnvironmentFault: pip cannot get it, or what it got is not what is meant.
    """
    kept = folder / wheel
    if kept.is_file():
        if sha256(kept) == expected_sha256:
            return kept
        say(f"{kept} is damaged; fetching it again")
        kept.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    say(f"fetching {requirement} …")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as name:
        options = ["--no-deps", "--only-binary", ":all:", "--progress-bar", "off"]
        command = [*pip, "download", *options, "--dest", name, requirement]
        try:
            run(command, f"fetching {requirement}", say)
        except CommandFailed as failed:
            raise EnvironmentFault(_no_package(requirement, failed.output)) from None
        found = Path(name) / wheel
        if not found.is_file():
            got = ", ".join(sorted(p.name for p in Path(name).iterdir())) or "nothing"
            raise EnvironmentFault(f"{requirement}: expected the file {wheel}, pip brought {got}")
        actual = sha256(found)
        if actual != expected_sha256:
            raise EnvironmentFault(
                f"{requirement}: {wheel} has SHA-256 {actual}, expected {expected_sha256}; "
                "it is not the published file and is not used"
            )
        found.replace(kept)
    return kept


def _no_package(requirement: str, output: list[str]) -> str:
    errors = [line for line in output if "ERROR" in line] or output[-1:]
    return "\n".join(
        [
            f"{requirement} is not in the cache and pip could not fetch it. It is needed once: "
            "connect this machine to the package index that pip is set up for (`pip config list`) "
            "and run the same command again.",
            *(f"  pip: {line}" for line in errors[-3:]),
        ]
    )
