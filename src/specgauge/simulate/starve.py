"""A slow client: processes that get no CPU for a while, again and again.

They are stopped and continued by signals, so that the kernel goes on receiving (and stamping)
what the server sends, as it does for a client that waits for a busy CPU.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def starved(
    pids: Sequence[int], stop_s: float, every_s: float
) -> Iterator[list[tuple[float, float]]]:
    """Stop the processes for ``stop_s`` out of every ``every_s`` seconds while the block runs.

    Args:
        pids: processes that the caller started; one that has ended is left out.
        stop_s: length of each stop.
        every_s: from the begin of one stop to the next, more than ``stop_s``.

    Yields:
        The spans so far, monotonic seconds; complete after the block.

    Raises:
        ValueError: ``stop_s`` does not fit into ``every_s``.
    """
    if not 0 < stop_s < every_s:
        raise ValueError(f"needs 0 < stop_s < every_s, found {stop_s} and {every_s}")
    spans: list[tuple[float, float]] = []
    ended = threading.Event()

    def run() -> None:
        due = time.monotonic()
        while not ended.is_set():
            begin = time.monotonic()
            _send(pids, signal.SIGSTOP)
            ended.wait(stop_s)
            _send(pids, signal.SIGCONT)
            spans.append((begin, time.monotonic()))
            due += every_s
            ended.wait(max(due - time.monotonic(), 0))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield spans
    finally:
        ended.set()
        thread.join()
        _send(pids, signal.SIGCONT)


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
