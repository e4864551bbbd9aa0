"""The telemetry process as the harness sees it: started and stopped.  (Compare scrape/process.py.)

What it cannot record is told, not raised: a measurement without telemetry is still one, with
CO_TENANT unknown.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

STOP_LIMIT_S = 60.0
"""To write: an hour of samples takes a second.  A driver that hangs is not waited for longer."""


class Recorder:
    """Watches the GPU ``uuid`` and writes ``out`` (schema.TELEMETRY) when stopped."""

    def __init__(self, out: Path, uuid: str, spec: dict[str, Any]) -> None:
        """``spec``: see ``gpu/telemetry.py``."""
        self._out = out
        self._words = [str(out.absolute()), uuid, json.dumps(spec)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start watching."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "specgauge.gpu.telemetry", *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
        )

    def stop(self) -> str | None:
        """Have it write; returns what went wrong, for people.  May be repeated."""
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            _out, complaint = process.communicate(timeout=STOP_LIMIT_S)  # closes its stdin
        except subprocess.TimeoutExpired:
            complaint = f"not done within {STOP_LIMIT_S:g} s".encode()
        finally:
            process.kill()
            process.wait()
        if process.returncode == 0:
            return None
        text = complaint.decode("utf-8", "replace").strip().splitlines()
        why = text[-1] if text else f"exit status {process.returncode}"
        return f"{self._out}: no telemetry of the GPU: {why}"
