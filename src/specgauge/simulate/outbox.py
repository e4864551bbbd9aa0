"""What the engine has for one HTTP request, until its stream takes it.

As in vLLM, outputs that the stream has not taken yet are merged into one: a slow reader sees
fewer, larger chunks.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from specgauge.simulate.planted import RequestFault
from specgauge.simulate.request import FinishReason, Request


@dataclass
class Piece:
    """Tokens of one or more request-steps."""

    token_ids: tuple[int, ...]
    steps: int
    finished: FinishReason | None


class Outbox:
    """Outputs of one request.

    Args:
        request: whose.
        merge_probability: that a request-step's tokens wait for the next ones.
        fault: what goes wrong with this request.
    """

    def __init__(
        self, request: Request, merge_probability: float, fault: RequestFault | None
    ) -> None:
        self.request = request
        self.fault = fault
        self.closed = False
        self._merge = merge_probability
        self._rng = random.Random(f"merge:{request.arrival}:{request.output.key}")
        self._held: Piece | None = None
        self._ready = asyncio.Event()

    def put(self, token_ids: tuple[int, ...], finished: FinishReason | None) -> None:
        """One request-step's tokens."""
        held = self._held
        if held is not None:
            token_ids = held.token_ids + token_ids
        self._held = Piece(token_ids, (held.steps if held else 0) + 1, finished)
        if finished is None and self._merge and self._rng.random() < self._merge:
            return
        self._ready.set()

    def close(self) -> None:
        """The client is gone, or the engine: nothing more comes."""
        self.closed = True
        self._ready.set()

    async def take(self) -> Piece | None:
        """All tokens there are, as soon as there are some; None once closed."""
        await self._ready.wait()
        if self.closed:
            return None
        self._ready.clear()
        piece, self._held = self._held, None
        return piece
