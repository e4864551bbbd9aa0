"""Whose is a process on the GPU?  Judges for the way without containers.  Stdlib only.

(For the Compose way: ``occupancy.in_containers``.)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from specgauge.gpu.occupancy import Owner
from specgauge.serve.tree import START_MARK, descendants

Judge = Callable[[int], Owner]


def of_server(root: int, start_id: str, proc: Path = Path("/proc")) -> Judge:
    """A judge: ours are ``root``, its descendants, and what carries the mark of ``start_id``.

    The family is looked up again for a PID that it does not know: a server makes its processes
    while it starts.  A PID that is not in ``proc`` is unknown: it has just ended, or counts in
    another PID namespace.  Another user's environment cannot be read: it is not ours.
    """
    mark = f"{START_MARK}={start_id}".encode()
    family = {root, *descendants(root)}

    def judge(pid: int) -> Owner:
        if not (proc / str(pid)).exists():
            return "unknown"
        if pid in family:
            return "ours"
        family.clear()
        family.update({root, *descendants(root)})
        if pid in family:
            return "ours"
        try:
            words = (proc / str(pid) / "environ").read_bytes().split(b"\0")
        except FileNotFoundError:  # ended just now
            return "unknown"
        except OSError:
            return "other"
        return "ours" if mark in words else "other"

    return judge


def nobody(pid: int) -> Owner:
    """A judge that cannot tell: the driver's numbers are not those of this system."""
    return "unknown"
