"""One request and its response as they happened: raw bytes and stamps, nothing derived."""

from __future__ import annotations

from dataclasses import dataclass, field

from specgauge.load.plan import PlannedRequest


@dataclass(slots=True)
class Exchange:
    """Filled while a request runs; all times in nanoseconds of the monotonic clock."""

    request: PlannedRequest
    worker: int
    slot: int
    scheduled: int | None = None
    ready: int | None = None
    send: int | None = None
    sent: int | None = None
    done: int | None = None
    """Response complete, or known to have failed; null while it runs."""
    status: int | None = None
    failure: str | None = None
    body: list[bytes] = field(default_factory=list)
    """Decoded body, in the pieces in which it came."""
    length: int = 0
    """Bytes in ``body``."""
    events: int = 0
    """HTTP chunks so far: about one an event."""
    reads: list[tuple[int, int, int]] = field(default_factory=list)
    """One a read: (``length`` after it, user-space time, kernel time on the *epoch* clock or 0)."""
