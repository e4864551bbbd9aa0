"""Child processes of the server: those that end with it, and one that does not."""

from __future__ import annotations

import ctypes
import signal
import subprocess

_PR_SET_PDEATHSIG = 1
_LIFE_S = "600"  # nothing that a test forgets lives longer


def ordinary() -> subprocess.Popen[bytes]:
    """A child that ends with TERM, and when its parent dies."""
    libc = ctypes.CDLL(None)

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return subprocess.Popen(["sleep", _LIFE_S], preexec_fn=die_with_parent)  # noqa: PLW1509


def stubborn() -> subprocess.Popen[bytes]:
    """A grandchild's kind: it ignores TERM and outlives the server."""
    return subprocess.Popen(["sh", "-c", f"trap '' TERM; exec sleep {_LIFE_S}"])
