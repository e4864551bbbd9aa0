"""A TCP connection whose reads carry the kernel's receive time, for gevent.

Kernel stamps: ``SO_TIMESTAMPNS`` gives, with each ``recvmsg``, the epoch time at which the last
segment of what was read had arrived.  Where segments wait, they are read one HTTP chunk at a time
so that each gets its own stamp - unless the kernel has merged them in its receive queue, where
only the newest stamp survives: those come out with one and the same stamp.
"""

from __future__ import annotations

import array
import fcntl
import socket as plain
import struct
import sys
import termios
import time
from typing import Any

import gevent
from gevent import socket
from gevent.hub import Waiter

from specgauge.load.exchange import Exchange
from specgauge.load.response import Response

_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; not in the socket module
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY = 128
_BIGGEST_READ = 1 << 18
_HEAD = 4096
_CHUNK_LINE = 24  # bytes that surely hold a chunk's size line
CONNECT_TIMEOUT_S = 10.0


class Connection:
    """One keep-alive connection.

    What arrives is read in the event loop's own callback, before any greenlet runs: a chunk's
    stamp does not wait for a switch.

    Raises (constructor):
        OSError: it cannot be made within ``CONNECT_TIMEOUT_S``.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        self._socket.setsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY, 1)
        self.kernel = _ask_for_stamps(self._socket)
        self._socket.settimeout(0.0)  # reads never block: the loop says when there is something
        self._fd = self._socket.fileno()
        self._readable = gevent.get_hub().loop.io(self._fd, 1)
        self._count = array.array("i", [0])

    def close(self) -> None:
        """Close it; may be called twice."""
        self._readable.stop()
        self._readable.close()
        self._socket.close()

    def is_alive(self) -> bool:
        """Whether it can take another request: not closed by the server, nothing left unread."""
        try:
            self._socket.recv(1, plain.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def perform(self, message: bytes, exchange: Exchange) -> bool:
        """Send ``message`` and read its response into ``exchange``, up to ``exchange.done``.

        Returns whether the connection can be used again.

        Raises:
            OSError: the connection broke (what was read is in ``exchange``).
            EOFError: the server closed it before the response was complete.
            httptools.HttpParserError: what came is not HTTP.
        """
        response = Response(exchange)
        exchange.send = time.monotonic_ns()
        self._send(message)
        exchange.sent = time.monotonic_ns()
        ended = Waiter()
        self._readable.start(self._on_readable, response, ended)
        try:
            fault = ended.get()
        finally:
            self._readable.stop()
        if fault is not None:
            raise fault
        return response.reusable

    def _on_readable(self, response: Response, ended: Any) -> None:
        """In the event loop: read; wake the user when the response has ended, well or not."""
        fault: Exception | None = None
        try:
            more = self._read_what_waits(response)
        except Exception as error:  # goes on in the user's greenlet
            more, fault = False, error
        if more and not response.complete:
            return
        response.exchange.done = time.monotonic_ns()
        self._readable.stop()
        if fault is None and not response.complete and not response.ends_with_connection:
            fault = EOFError()
        ended.switch(fault)

    def _read_what_waits(self, response: Response) -> bool:
        """Read, stamp and parse until nothing waits; False at the end of the stream."""
        exchange, feed = response.exchange, response.parser.feed_data
        waiting = self._waiting()
        while True:
            size = self._piece(waiting, response) if waiting else _BIGGEST_READ
            try:
                data, ancillary, _flags, _address = self._socket.recvmsg(size, _ANCILLARY)
            except BlockingIOError:  # woken for nothing
                return True
            user = time.monotonic_ns()
            if not data:
                return False
            try:
                feed(data)
            finally:  # also what came before a fault has its time
                exchange.reads.append((exchange.length, user, _stamp(ancillary)))
            waiting -= len(data)
            if waiting <= 0 or response.complete:
                return True

    def _send(self, message: bytes) -> None:
        sent = self._socket.send(message)
        if sent < len(message):  # a prompt larger than the socket's buffer
            self._socket.settimeout(None)
            self._socket.sendall(memoryview(message)[sent:])
            self._socket.settimeout(0.0)

    def _waiting(self) -> int:
        """Bytes that can be read now; 0 also at the end of the stream."""
        fcntl.ioctl(self._fd, termios.FIONREAD, self._count, True)
        return self._count[0]

    def _piece(self, waiting: int, response: Response) -> int:
        """How much of the ``waiting`` bytes to read so that one event alone gets the stamp."""
        if not response.headers:
            end = self._socket.recv(_HEAD, plain.MSG_PEEK).find(b"\r\n\r\n")
            return waiting if end < 0 else end + 4
        if waiting <= response.single or not response.at_chunk:
            return waiting
        size = first_chunk(self._socket.recv(_CHUNK_LINE, plain.MSG_PEEK), waiting)
        if not response.single or size * 3 // 2 < response.single:
            response.single = size * 3 // 2
        return size


def first_chunk(head: bytes, waiting: int) -> int:
    """Length of the HTTP chunk (RFC 9112, 7.1) that ``head`` begins, its framing included.

    ``waiting`` if it is not all there, is the last chunk, or is no chunk at all.
    """
    line, found, _rest = head.partition(b"\r\n")
    try:
        size = int(line.split(b";")[0], 16)
    except ValueError:
        return waiting
    if not found or size <= 0:
        return waiting
    return min(waiting, len(line) + 2 + size + 2)


def _ask_for_stamps(connection: Any) -> bool:
    """Turn kernel stamps on; False where there are none (macOS)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        connection.setsockopt(plain.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def _stamp(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The kernel's epoch time in nanoseconds; 0 if it gave none."""
    for _level, kind, data in ancillary:
        if kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return 0
