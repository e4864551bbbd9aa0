"""The telemetry process as the harness sees it: started and stopped.  (Compare scrape/process.py.)

What it cannot record is told, not raised: a measurement without telemetry is still one, with
CO_TENANT unknown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specgauge.side_process import SideProcess

STOP_LIMIT_S = 60.0
"""To write: an hour of samples takes a second.  A driver that hangs is not waited for longer."""


class Recorder:
    """Watches the GPU ``uuid`` and writes ``out`` (schema.TELEMETRY) when stopped."""

    def __init__(self, out: Path, uuid: str, spec: dict[str, Any]) -> None:
        """``spec``: see ``gpu/telemetry.py``."""
        self._out = out
        words = [str(out.absolute()), uuid, json.dumps(spec)]
        self._process = SideProcess("specgauge.gpu.telemetry", words)

    def start(self) -> None:
        """Start watching."""
        self._process.start()

    def stop(self) -> str | None:
        """Have it write; returns what went wrong, for people.  May be repeated."""
        why = self._process.stop(STOP_LIMIT_S)
        return None if why is None else f"{self._out}: no telemetry of the GPU: {why}"
