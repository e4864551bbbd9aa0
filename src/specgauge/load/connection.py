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
import httptools
from gevent import socket

from specgauge.load.exchange import Exchange

_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; not in the socket module
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY = 128
_BIGGEST_READ = 1 << 18
_HEAD = 4096
_CHUNK_LINE = 24  # bytes that surely hold a chunk's size line
CONNECT_TIMEOUT_S = 10.0


class Response:
    """Collects one response for httptools; its callbacks run for every piece, so they do little."""

    __slots__ = ("at_chunk", "complete", "exchange", "framed", "headers", "parser", "single")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.parser = httptools.HttpResponseParser(self)
        self.headers = False
        """The head is complete."""
        self.framed = False
        """Its end can be told from its bytes; else it ends with the connection."""
        self.complete = False
        self.at_chunk = False
        """The next byte is the first of an HTTP chunk."""
        self.single = 0
        """So few waiting bytes cannot be two events."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self.framed = True

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self.exchange.status = self.parser.get_status_code()
        self.headers = True
        self.at_chunk = True

    def on_body(self, piece: bytes) -> None:
        """Called by the parser."""
        exchange = self.exchange
        exchange.body.append(piece)
        exchange.length += len(piece)
        self.at_chunk = False

    def on_chunk_complete(self) -> None:
        """Called by the parser."""
        self.exchange.events += 1
        self.at_chunk = True

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self.complete = True


class Connection:
    """One keep-alive connection.

    Raises (constructor):
        OSError: it cannot be made within ``CONNECT_TIMEOUT_S``.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        self._socket.setsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY, 1)
        self.kernel = _ask_for_stamps(self._socket)
        self._socket.settimeout(0.0)  # reads never block: readiness is waited for separately
        self._fd = self._socket.fileno()
        self._hub = gevent.get_hub()
        self._readable = self._hub.loop.io(self._fd, 1)
        self._count = array.array("i", [0])

    def close(self) -> None:
        """Close it; may be called twice."""
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
        while not response.complete:
            self._hub.wait(self._readable)
            if not self._read_what_waits(response):
                if response.headers and not response.framed:
                    break
                raise EOFError
        exchange.done = time.monotonic_ns()
        return response.complete and bool(response.parser.should_keep_alive())

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
            feed(data)
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
