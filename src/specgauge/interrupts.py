"""Ctrl-C, TERM and HUP: one way to stop in order, and a shield while stopping."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

_Handler = Callable[[int, FrameType | None], None]


@contextlib.contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """TERM and HUP raise KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold signals back while things are stopped: that is bounded in time and must be finished.

    Raises:
        KeyboardInterrupt: after that, if one came meanwhile.
    """
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)
        sys.stderr.write("stopping, a moment: what runs must end and be recorded first\n")

    with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), hold):
        yield
    if held:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handled(numbers: tuple[signal.Signals, ...], handler: _Handler) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
