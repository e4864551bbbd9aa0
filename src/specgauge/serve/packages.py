"""Versions of the packages that decide speed.  Stdlib only: runs in the server's environment."""

from __future__ import annotations

import importlib.metadata

TELLING = ("vllm", "torch", "transformers", "triton", "flashinfer-python", "numba")


def versions() -> dict[str, str]:
    """Those of this interpreter's environment that are there."""
    found = {}
    for name in TELLING:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
