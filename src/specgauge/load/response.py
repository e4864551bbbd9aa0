"""Collects one HTTP response from httptools' callbacks."""

from __future__ import annotations

import httptools

from specgauge.load.exchange import Exchange


class Response:
    """One response being parsed into an exchange; a callback runs for every piece: it does little.

    ``headers``: the head is complete; ``complete``: all of it is; ``at_chunk``: the next byte is
    the first of an HTTP chunk; ``single``: so few waiting bytes cannot be two events; ``reusable``:
    the connection may take another request (known when complete).
    """

    __slots__ = (
        *("_framed", "at_chunk", "complete", "exchange"),
        *("headers", "parser", "reusable", "single"),
    )

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.parser = httptools.HttpResponseParser(self)
        self.headers = False
        self.complete = False
        self.at_chunk = False
        self.reusable = False
        self.single = 0
        self._framed = False

    @property
    def ends_with_connection(self) -> bool:
        """Its end cannot be told from its bytes: neither a length nor chunks (HTTP/1.0)."""
        return self.headers and not self._framed

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._framed = True

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
        self.reusable = self.parser.should_keep_alive()  # afterwards it always says no
