"""One user's connection: kept alive, renewed between requests, its failures put into words."""

from __future__ import annotations

import gevent
import httptools

from specgauge.load.connection import Connection
from specgauge.load.exchange import Exchange


class Slot:
    """A user's number and connection; made anew before a request where the server closed it."""

    def __init__(self, number: int, host: str, port: int, timeout_s: float) -> None:
        self.number = number
        self.refused: str | None = None
        """Why the server took no connection, the last time it did not."""
        self.kernel = True
        """Every connection so far had kernel stamps."""
        self._host, self._port, self._timeout_s = host, port, timeout_s
        self._connection: Connection | None = None

    def connect(self) -> str | None:
        """Have a live connection; returns why there is none, in words."""
        if self._connection is not None and self._connection.is_alive():
            return None
        self.close()
        try:
            self._connection = Connection(self._host, self._port)
        except OSError as error:
            why = error.strerror or error
            self.refused = f"cannot connect to {self._host}:{self._port}: {why}"
            return self.refused
        self.refused = None
        self.kernel = self.kernel and self._connection.kernel
        return None

    def perform(self, exchange: Exchange, message: bytes) -> str | None:
        """Send and read one exchange; returns what went wrong, in words."""
        if reason := self.connect():
            return reason
        assert self._connection is not None
        reusable = False
        try:
            with gevent.Timeout(self._timeout_s):
                reusable = self._connection.perform(message, exchange)
        except gevent.Timeout:
            return f"no complete response within {self._timeout_s:g} s (request_timeout_s)"
        except EOFError:
            return f"the server closed the connection {_where(exchange)}"
        except OSError as error:
            return f"the connection broke {_where(exchange)}: {error.strerror or error}"
        except httptools.HttpParserError as error:
            return f"malformed HTTP response: {error}"
        finally:
            if not reusable:
                self.close()
        return None

    def close(self) -> None:
        """Drop the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _where(exchange: Exchange) -> str:
    if exchange.sent is None:
        return "while the request was being sent"
    return "in the middle of the response" if exchange.reads else "before any response"
