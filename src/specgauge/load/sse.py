"""Server-sent events in a complete body, each with the place where it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r)")


class Event(NamedTuple):
    """One dispatched event."""

    end: int
    """Offset in the body just after the blank line that ended it: its last byte's place + 1."""
    data: bytes
    """Its ``data`` lines, joined by a newline."""


def events(body: bytes) -> Iterator[Event]:
    """The events of ``body`` that were ended by a blank line and have data, in order.

    Comments (lines that begin with a colon: keep-alives) and other fields are passed over; an
    event that the body's end cut off is not an event (WHATWG HTML, 9.2.6).
    """
    data: list[bytes] = []
    for match in _LINE.finditer(body):
        line = match[1]
        if not line:
            if data:
                yield Event(match.end(), b"\n".join(data))
                data = []
        elif line.startswith(b"data:"):
            data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line == b"data":
            data.append(b"")
