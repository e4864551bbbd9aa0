"""Finds a server's processes by kinship or by mark, never by name.  Stdlib only."""

from __future__ import annotations

import contextlib
import os

START_MARK = "SPECGAUGE_START_ID"
"""Environment variable every process of a server inherits; its value is unique per start."""


def descendants(root: int) -> list[int]:
    """Living processes below ``root``, zombies left out; empty where there is no ``/proc``."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                # The name, in brackets, may itself hold brackets and blanks.
                state, parent = stat.read().rsplit(")", 1)[1].split()[:2]
            if state != "Z":
                parents[int(entry)] = int(parent)
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found.extend(frontier)
    return found


def leftovers(start_id: str) -> list[int]:
    """Own living processes that carry the mark of ``start_id``, whoever their parent is now."""
    wanted = f"{START_MARK}={start_id}".encode()
    found = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{entry}").st_uid != os.getuid():
                continue
            with open(f"/proc/{entry}/environ", "rb") as environ:
                if wanted in environ.read().split(b"\0"):
                    found.append(int(entry))
    return found
