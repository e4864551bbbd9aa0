"""What the small model's server is asked, and whether what came back is right.  Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from specgauge.load.sse import events
from specgauge.preflight.result import Result, fail, warn
from specgauge.scrape.parse import samples
from specgauge.serve.diagnosis import diagnose

TOKENS = 32
PROMPT = "one two three four five six seven eight " * 12
"""Repeats itself, so that prompt lookup has something to propose."""
_DRAFTS = "vllm:spec_decode_num_drafts_total"
_TOKENS = "vllm:generation_tokens_total"


def body(model: str) -> dict[str, Any]:
    """The one streamed completion, for the model served as ``model``."""
    return {
        "model": model, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0,
        "ignore_eos": True, "stream": True, "return_token_ids": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip


def judged(status: int, content: bytes, metrics: str) -> Result | None:
    """None if the completion and the counters after it are right.

    Args:
        status: of the completion.
        content: its stream.
        metrics: the text of ``/metrics`` afterwards.
    """
    if status != HTTPStatus.OK:
        return fail(
            f"/v1/completions answers {status}: {content.decode(errors='replace')[:300]}",
            "is this vLLM of a release that specgauge knows (0.8 to 0.33)?",
        )
    tokens = _token_ids(content)
    if tokens != TOKENS:
        return fail(
            f"asked for {TOKENS} tokens, the stream holds {tokens}",
            "vLLM of 0.10 or newer sends token ids; older ones cannot be measured by chunk",
        )
    counted = {
        name: sum(float(value) for n, _, value in samples(metrics) if n == name)
        for name in (_DRAFTS, _TOKENS)
    }
    if counted[_TOKENS] != TOKENS:
        return fail(
            f"the server counts {counted[_TOKENS]:.0f} tokens, {TOKENS} were ours",
            "somebody else uses this port, or its metrics have other names in this release",
        )
    if not counted[_DRAFTS]:
        return warn(
            "not one draft was made for a prompt that repeats itself",
            "did the speculative config reach the server? See its log with a run",
        )
    return None


def unanswered(why: str) -> Result:
    """The server was ready and then did not answer."""
    return fail(f"the server does not answer: {why}", "see its log with a run")


def died(how: str, log: Sequence[str]) -> Result:
    """The server ended ``how``; what its last lines, ``log``, say of it."""
    diagnosis = diagnose(log)
    if diagnosis is None:
        return fail(how, "its last lines say why")
    return fail(f"{diagnosis.sentence}\n{how}", diagnosis.remedy)


def _token_ids(body: bytes) -> int:
    count = 0
    for event in events(body):
        if event.data == b"[DONE]":
            continue
        for choice in json.loads(event.data).get("choices") or []:
            count += len(choice.get("token_ids") or [])
    return count
