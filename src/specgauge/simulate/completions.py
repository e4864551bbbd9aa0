"""Bodies of ``/v1/completions`` in vLLM's form: stream events, usage, whole answers, errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from specgauge.simulate.tokens import token_text

DONE = b"data: [DONE]\n\n"


class EventWriter:
    """Writes the events of one stream; what does not change is encoded once."""

    def __init__(
        self, identifier: str, created: int, model: str, fingerprint: str, with_ids: bool
    ) -> None:
        self._fingerprint = fingerprint
        self._with_ids = with_ids
        self._head = (
            f'{{"id":"{identifier}","object":"text_completion","created":{created},'
            f'"model":{json.dumps(model)},"choices":['
        )

    def tokens(
        self,
        token_ids: Sequence[int],
        finish_reason: str | None,
        prompt_ids: Sequence[int] | None,
        *,
        fingerprint: bool,
    ) -> bytes:
        """An event with tokens; ``prompt_ids`` only on the first, where ids were asked for.

        ``fingerprint``: the stream's last event, with no usage event after it.
        """
        text = json.dumps("".join(token_text(t) for t in token_ids))
        reason = f'"{finish_reason}"' if finish_reason else "null"
        prompt = "null"
        if prompt_ids is not None and self._with_ids:
            prompt = "[" + ",".join(map(str, prompt_ids)) + "]"
        ids = "[" + ",".join(map(str, token_ids)) + "]" if self._with_ids else "null"
        tail = f',"system_fingerprint":"{self._fingerprint}"' if fingerprint else ""
        return (
            f'data: {self._head}{{"index":0,"text":{text},"logprobs":null,'
            f'"finish_reason":{reason},"stop_reason":null,"prompt_token_ids":{prompt},'
            f'"token_ids":{ids}}}]{tail}}}\n\n'
        ).encode()

    def usage(self, prompt: int, completion: int, cached: int | None) -> bytes:
        """The usage event: no choices."""
        usage = json.dumps(usage_object(prompt, completion, cached), separators=(",", ":"))
        return (
            f'data: {self._head}],"usage":{usage},"system_fingerprint":"{self._fingerprint}"}}\n\n'
        ).encode()


def error_event(message: str, code: int = 500) -> bytes:
    """An error in place of a stream's rest."""
    body = json.dumps(error_object(message, "InternalServerError", code), separators=(",", ":"))
    return f"data: {body}\n\n".encode()


def error_object(
    message: str, kind: str, code: int, parameter: str | None = None
) -> dict[str, Any]:
    """vLLM's error body."""
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def usage_object(prompt: int, completion: int, cached: int | None) -> dict[str, Any]:
    """vLLM's usage; ``cached`` only where the details were asked for."""
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
    }
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return usage


def whole_answer(
    identifier: str,
    created: int,
    model: str,
    fingerprint: str,
    token_ids: Sequence[int],
    finish_reason: str | None,
    prompt_ids: Sequence[int],
    with_ids: bool,
    usage: dict[str, Any],
) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    return {
        "id": identifier,
        "object": "text_completion",
        "created": created,
        "model": model,
        "choices": [
            {
                "index": 0,
                "text": "".join(token_text(t) for t in token_ids),
                "logprobs": None,
                "finish_reason": finish_reason,
                "stop_reason": None,
                "token_ids": list(token_ids) if with_ids else None,
                "prompt_logprobs": None,
                "prompt_token_ids": list(prompt_ids) if with_ids else None,
            }
        ],
        "service_tier": None,
        "system_fingerprint": fingerprint,
        "usage": usage,
        "kv_transfer_params": None,
    }
