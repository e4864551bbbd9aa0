"""Somebody else's requests: planted traffic that no client of ours sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from specgauge.simulate.engine import Engine
from specgauge.simulate.planted import Foreign
from specgauge.simulate.request import Request, new_request
from specgauge.simulate.tokens import output_token
from specgauge.simulate.truth_log import TruthLog


async def send_foreign(
    foreign: Foreign, engine: Engine, submit: Callable[[Request], None], truth_log: TruthLog
) -> None:
    """Submit requests at equal distances, from readiness on, each with a prompt of its own."""
    number = 0
    while True:
        at = foreign.from_s + number / foreign.rate
        if foreign.until_s is not None and at > foreign.until_s:
            return
        await asyncio.sleep(max(engine.t_ready + at - time.monotonic(), 0))
        number += 1
        vocabulary = engine.truth.vocabulary
        prompt = [output_token(number, i, vocabulary) for i in range(foreign.prompt_tokens)]
        now = time.monotonic()
        truth_log.write(
            "foreign", t=now, tokens=foreign.tokens, prompt_tokens=foreign.prompt_tokens
        )
        submit(
            new_request(
                engine.truth,
                engine.section,
                prompt,
                foreign.tokens,
                arrival=0,
                now=now,
                ignore_eos=True,
            )
        )
