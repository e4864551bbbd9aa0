"""Sleeping until an exact moment: asyncio's own timers are late by up to a millisecond.

The event loop waits with epoll, whose time-out is in whole milliseconds, rounded up; a timerfd
is a file that becomes readable to the nanosecond.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time

_CLOCK_MONOTONIC = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Itimerspec(ctypes.Structure):
    _fields_ = [("interval", _Timespec), ("value", _Timespec)]


class ExactSleeper:
    """One sleeper at a time; needs a running event loop and Linux.

    Raises:
        OSError: no timerfd to be had.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self._loop.add_reader(self._fd, self._fired)

    async def until(self, deadline: float) -> None:
        """Sleep to a time of ``time.monotonic``; at least one turn of the event loop."""
        if deadline <= time.monotonic():
            await asyncio.sleep(0)
            return
        whole = int(deadline)
        at = _Timespec(whole, int((deadline - whole) * 1e9))
        self._future = self._loop.create_future()
        self._libc.timerfd_settime(
            self._fd, _ABSOLUTE, ctypes.byref(_Itimerspec(_Timespec(0, 0), at)), None
        )
        try:
            await self._future
        finally:
            self._future = None

    def _fired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def close(self) -> None:
        """Give the timer back."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
