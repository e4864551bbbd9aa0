"""State of compile cache folders, to tell a cold start from a warm one.  Stdlib only."""

from __future__ import annotations

import contextlib
import os
from typing import Any

_CACHE_FILES_AT_MOST = 200_000


def cache_state(folder: str) -> dict[str, Any]:
    """Files, bytes and newest change (epoch seconds, null when empty) below ``folder``."""
    files = size = 0
    newest: float | None = None
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.stat(os.path.join(base, name))
                files += 1
                size += status.st_size
                newest = max(newest or 0.0, status.st_mtime)
        if files > _CACHE_FILES_AT_MOST:
            break
    return {"path": folder, "files": files, "bytes": size, "newest": newest}
