"""What ``launch.json`` and ``server.log`` tell of a running server, whichever way it runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import Any

from specgauge.record.documents import Launch
from specgauge.serve.protocol import ServerSpec

_LAST_LINES = 15


class LaunchFile:
    """Reads the two files that the process runner writes for the start ``spec``."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec

    def launch(self) -> Launch | None:
        """The runner's record, or None while it has not written one for this start."""
        value = self._raw()
        return Launch.model_validate(value) if value.get("id") == self._spec.id else None

    def death(self) -> str | None:
        """How the server ended, with its last lines; None while it is not known to have ended."""
        value = self._raw()
        if value.get("id") != self._spec.id or value.get("ended_at") is None:
            return None
        words = exit_words(value.get("exit_code"))
        if value.get("oom_killed"):
            words += ": the kernel killed it for want of memory (the container's memory limit)"
        return f"{words}.{self.tail()}"

    def refusal(self) -> str | None:
        """Why the runner did not even start the server (GPU busy or another one), or None."""
        value = self._raw()
        refused = value.get("refused") if value.get("id") == self._spec.id else None
        return None if refused is None else str(refused)

    def newest_line(self) -> str:
        """The last line the server printed."""
        lines = self._lines()
        return lines[-1] if lines else ""

    def tail(self) -> str:
        """Its last lines, for an error message."""
        lines = self._lines()[-_LAST_LINES:]
        if not lines:
            return " It printed nothing."
        listed = "\n".join(f"  | {line[:200]}" for line in lines)
        return f" Its last lines ({self._spec.paths.server_log}):\n{listed}"

    def _raw(self) -> dict[str, Any]:
        try:
            value = json.loads(self._spec.paths.launch.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return value if isinstance(value, dict) else {}

    def _lines(self) -> list[str]:
        """The newest lines of the log without their stamps."""
        with contextlib.suppress(FileNotFoundError), self._spec.paths.server_log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 8192))
            text = log.read().decode(errors="replace")
            return [line[27:] for line in text.splitlines()[-40:] if line[27:].strip()]
        return []


def exit_words(code: int | None) -> str:
    """An exit code for people: negative = ended by that signal."""
    if code is None:
        return "it ended"
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = str(-code)
        return f"ended by signal {name}"
    return f"exit code {code}"
