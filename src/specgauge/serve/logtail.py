"""The last lines of a ``server.log``, as the server printed them.  Stdlib only."""

from __future__ import annotations

import os
from pathlib import Path

_BYTES = 2**18
"""Hundreds of lines: below a server's last traceback lies the one that matters."""
_STAMP = len("2026-11-29T20:41:00.000Z O ")


def last_lines(path: Path) -> list[str]:
    """Lines without their stamps, oldest first; none where there is no log."""
    try:
        with path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _BYTES))
            text = log.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line[_STAMP:] for line in text.splitlines() if line[_STAMP:].strip()]
