"""State of compile cache folders, to tell a cold start from a warm one.  Stdlib only."""

from __future__ import annotations

import contextlib
import os
from typing import Any

_CACHE_FILES_AT_MOST = 200_000
_TIMES_AT_MOST = 5_000
"""A start that compiles everything writes some thousand files."""


def cache_state(folder: str, since: float = float("inf")) -> dict[str, Any]:
    """Files, bytes and newest change (epoch seconds, null when empty) below ``folder``.

    ``written``: when each file was that changed after ``since``, rising; the newest ones of many.
    """
    files = size = 0
    newest: float | None = None
    written: list[float] = []
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.stat(os.path.join(base, name))
                files += 1
                size += status.st_size
                newest = max(newest or 0.0, status.st_mtime)
                if status.st_mtime >= since:
                    written.append(status.st_mtime)
        if files > _CACHE_FILES_AT_MOST:
            break
    times = sorted(written)[-_TIMES_AT_MOST:]
    return {"path": folder, "files": files, "bytes": size, "newest": newest, "written": times}
