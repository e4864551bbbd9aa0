"""A stream of completion events as an ASGI response that stamps each chunk as it leaves."""

from __future__ import annotations

import asyncio
import time

from starlette.types import Receive, Scope, Send

from specgauge.simulate.completions import DONE, EventWriter, error_event
from specgauge.simulate.driver import Driver
from specgauge.simulate.outbox import Outbox, Piece
from specgauge.simulate.truth_log import TruthLog

ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class CompletionStream:
    """Sends what an outbox gets, one event per piece, then usage and ``[DONE]``.

    Args:
        driver: told when the client goes away.
        outbox: the request's outputs.
        writer: the events' form.
        truth_log: gets a line just before each chunk is written.
        include_usage: send a usage event.
        prompt_details: with cached tokens in it.
    """

    def __init__(
        self,
        driver: Driver,
        outbox: Outbox,
        writer: EventWriter,
        truth_log: TruthLog,
        *,
        include_usage: bool,
        prompt_details: bool,
    ) -> None:
        self._driver = driver
        self._outbox = outbox
        self._writer = writer
        self._truth_log = truth_log
        self._include_usage = include_usage
        self._details = prompt_details
        self._sent = 0
        self._chunks = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application of this one response."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        watcher = asyncio.create_task(self._watch(receive))
        try:
            await self._stream(send)
        finally:
            watcher.cancel()
            self._driver.abort(self._outbox)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._driver.abort(self._outbox)

    async def _stream(self, send: Send) -> None:
        fault = self._outbox.fault
        kind = fault.kind if fault is not None else None
        while True:
            if kind in ("cut", "error_event") and fault and self._sent >= fault.after_tokens:
                if kind == "error_event":
                    await self._send(send, error_event("Simulated failure of this request."))
                    await self._end(send)
                return  # "cut": an unfinished response, so the server breaks the connection
            piece = await self._outbox.take()
            if piece is None:
                if self._driver.dead:
                    await self._send(send, error_event(ENGINE_DEAD))
                    await self._end(send)
                return
            await self._piece(send, piece)
            if piece.finished is not None:
                await self._finish(send, piece, fault.usage_error if fault else 0)
                return

    async def _piece(self, send: Send, piece: Piece) -> None:
        request = self._outbox.request
        body = self._writer.tokens(
            piece.token_ids,
            piece.finished,
            request.prompt if self._chunks == 0 else None,
            fingerprint=piece.finished is not None and not self._include_usage,
        )
        self._truth_log.chunk(
            request.arrival, self._chunks, len(piece.token_ids), piece.steps, time.monotonic()
        )
        await self._send(send, body)
        self._chunks += 1
        self._sent += len(piece.token_ids)

    async def _finish(self, send: Send, piece: Piece, usage_error: int) -> None:
        request = self._outbox.request
        if self._outbox.fault is None or self._outbox.fault.kind != "usage":
            usage_error = 0
        if self._include_usage:
            cached = request.cached if self._details else None
            usage = self._writer.usage(len(request.prompt), self._sent + usage_error, cached)
            await self._send(send, usage)
        self._truth_log.write(
            "done",
            request=request.arrival,
            tokens=self._sent,
            finish_reason=piece.finished,
            cached_tokens=request.cached,
        )
        await self._end(send)

    async def _end(self, send: Send) -> None:
        await self._send(send, DONE)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @staticmethod
    async def _send(send: Send, body: bytes) -> None:
        await send({"type": "http.response.body", "body": body, "more_body": True})
