"""``server.log``: each line of a server's output, stamped when it arrived.  Stdlib only."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from specgauge.serve.redact import STRUCK

_POLLING = re.compile(rb'"GET /(metrics|health) HTTP/1\.\d" 200 OK$')
"""The server's access lines of our own looking, six a second: for the file, not for a terminal."""


class LineLog:
    """Appends ``<UTC, ms> <O|E> <line>``; the time is that of the read that ended the line.

    vLLM prints its arguments and environment: ``secrets`` are struck out of every line.
    """

    def __init__(self, path: Path, tee: bool, secrets: list[bytes] | None = None) -> None:
        self._secrets = secrets or []
        self._file = path.open("ab", buffering=0)
        self.error: str | None = None
        self._tee = tee
        self._partial: dict[str, bytes] = {"O": b"", "E": b""}

    def feed(self, stream: str, data: bytes) -> None:
        """Add bytes of stream ``O`` (stdout) or ``E`` (stderr); a carriage return ends a line."""
        *lines, rest = re.split(rb"\r\n|\n|\r", self._partial[stream] + data)
        self._partial[stream] = rest
        self._write(stream, lines)

    def finish(self) -> None:
        """Write what had no line end, and close."""
        for stream, rest in self._partial.items():
            if rest:
                self._write(stream, [rest])
        self._file.close()

    def _write(self, stream: str, lines: list[bytes]) -> None:
        for secret in self._secrets:
            lines = [line.replace(secret, STRUCK.encode()) for line in lines]
        now = datetime.now(UTC)
        stamp = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z {stream} ".encode()
        try:
            self._file.write(b"".join(stamp + line + b"\n" for line in lines))
        except OSError as error:
            # A full disk must not block the server's output, nor end the one who can stop it.
            self.error = str(error)
        if self._tee:
            shown = [line for line in lines if not _POLLING.search(line)]
            sys.stdout.buffer.write(b"".join(line + b"\n" for line in shown))
            sys.stdout.buffer.flush()
