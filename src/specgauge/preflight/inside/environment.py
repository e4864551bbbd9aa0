"""What the server's environment is, and the traps that are known.  No heavy import: 0.1 s."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "vllm", "torch", "triton", "flashinfer-python", "flashinfer-jit-cache", "flashinfer-cubin",
    "huggingface-hub", "transformers",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of what matters, where installed."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def array_subscript() -> str | None:
    """None if ``array.array[int]`` can be evaluated, else the error."""
    import array

    try:
        array.array[int]
    except TypeError as error:
        return str(error)
    return None


def evaluates_array_subscript() -> str | None:
    """A file of flashinfer's that evaluates ``array.array[...]`` while it is imported, or None.

    An annotation is evaluated unless the module has ``from __future__ import annotations``.
    """
    try:
        spec = importlib.util.find_spec("flashinfer")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    for path in sorted((Path(spec.origin).parent / "comm").glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        code = "\n".join(line.partition("#")[0] for line in text.splitlines())
        if re.search(r"array\.array\[", code) and "import annotations" not in code:
            return "flashinfer/comm/" + path.name
    return None


def nvcc() -> str | None:
    """The CUDA compiler as FlashInfer looks for it: CUDA_HOME, PATH, the usual folder."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home and os.access(os.path.join(home, "bin", "nvcc"), os.X_OK):
        return os.path.join(home, "bin", "nvcc")
    usual = "/usr/local/cuda/bin/nvcc"
    return shutil.which("nvcc") or (usual if os.access(usual, os.X_OK) else None)


def compiler() -> str | None:
    """The C compiler as Triton looks for it."""
    named = os.environ.get("CC")
    return shutil.which(named) if named else shutil.which("gcc") or shutil.which("clang")


def main() -> None:
    """Print it all."""
    beside = Path(sys.executable).parent / "ninja"
    found = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "packages": versions(),
        "array_subscript": array_subscript(),
        "evaluates_array_subscript": evaluates_array_subscript(),
        "compiler": compiler(),
        "cxx": shutil.which(os.environ.get("CXX") or "g++") or shutil.which("clang++"),
        "ninja": shutil.which("ninja"),
        "ninja_beside": str(beside) if os.access(str(beside), os.X_OK) else None,
        "nvcc": nvcc(),
        "python_h": os.path.isfile(os.path.join(sysconfig.get_paths()["include"], "Python.h")),
        "shm_bytes": shm_bytes(),
    }
    print("SPECGAUGE " + json.dumps(found))


def shm_bytes() -> int | None:
    """Size of /dev/shm, or None where there is none."""
    try:
        info = os.statvfs("/dev/shm")
    except OSError:
        return None
    return info.f_blocks * info.f_frsize


main()
