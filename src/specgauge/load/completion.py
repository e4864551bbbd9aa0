"""A finished exchange read as a completion: one request row and its chunk rows."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from specgauge.load.exchange import Exchange
from specgauge.load.sse import events

_STRAY_NS = 1_000_000
"""A kernel time later than user space's, or earlier than the send, by more than this is not used:
the epoch clock was set in between."""

_MOST = (1 << 15) - 1


class StreamError(Exception):
    """What the stream holds is not a whole, good completion; the text says why in one line."""


class EarlyEnd(StreamError):
    """It stops before its end, faultless so far."""


@dataclass(frozen=True)
class Stamp:
    """When a read's last byte arrived (nanoseconds, monotonic), and its identity."""

    t: int
    user: int
    kernel: bool


@dataclass(frozen=True)
class Chunk:
    """An event that carried at least one token."""

    stamp: Stamp
    token_ids: list[int]


@dataclass(frozen=True)
class Usage:
    """What the server counted; null where it does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass
class Completion:
    """What the events of a stream say."""

    chunks: list[Chunk] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: str | None = None
    usage: Usage = Usage()
    finished: bool = False
    """``[DONE]`` has come."""
    without_ids: bool = False
    """Text came without its token ids."""


def stamps(exchange: Exchange, offset_ns: int) -> list[Stamp]:
    """One stamp a read: the kernel's time put on the monotonic clock, or else user space's."""
    found = []
    earliest = (exchange.send or 0) - _STRAY_NS
    for _length, user, epoch in exchange.reads:
        kernel = epoch - offset_ns
        good = bool(epoch) and earliest <= kernel <= user + _STRAY_NS
        found.append(Stamp(min(kernel, user) if good else user, user, good))
    return found


def read(exchange: Exchange, offset_ns: int, into: Completion) -> None:
    """Read the exchange's body as a stream of completion events.

    An event belongs to the read that brought its last byte.

    Raises:
        StreamError: with everything before the fault already in ``into``.
    """
    lengths = [length for length, _user, _kernel in exchange.reads]
    times = stamps(exchange, offset_ns)
    body, seen = b"".join(exchange.body), 0
    for event in events(body):
        seen += 1
        if event.data == b"[DONE]":
            into.finished = True
        elif into.finished:
            raise StreamError("malformed stream: an event after [DONE]")
        else:
            _take(_json_object(event.data), times[bisect_left(lengths, event.end)], into)
    if into.without_ids:
        raise StreamError(
            "the server sends no token_ids: it does not know return_token_ids (vLLM does)"
        )
    if not into.finished:
        said = f"; it says: {_text(body)}" if body and not seen else ""  # an error as plain JSON
        raise EarlyEnd(f"the stream ended without [DONE]{said}")


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StreamError(f"malformed event: {_text(data)}: {error}") from error
    if not isinstance(value, dict):
        raise StreamError(f"malformed event: not an object: {_text(data)}")
    return value


def _take(event: dict[str, Any], stamp: Stamp, into: Completion) -> None:
    """Add one event's content."""
    if event.get("error") is not None:
        raise StreamError(f"the server reported an error in the stream: {error_text(event)}")
    if event.get("usage") is not None:
        into.usage = _usage(event["usage"])
    for choice in _expect(event.get("choices") or [], list, "choices"):
        _expect(choice, dict, "a choice")
        text = _expect(choice.get("text") or "", str, "text")
        into.text.append(text)
        into.without_ids |= bool(text) and choice.get("token_ids") is None
        token_ids = _expect(choice.get("token_ids") or [], list, "token_ids")
        if token_ids:
            into.chunks.append(Chunk(stamp, [_count(token, "a token id") for token in token_ids]))
        for name in ("finish_reason", "stop_reason"):
            if choice.get(name) is not None:
                setattr(into, name, _clean(str(choice[name])))


def _usage(value: Any) -> Usage:
    usage = _expect(value, dict, "usage")
    details = _expect(usage.get("prompt_tokens_details") or {}, dict, "prompt_tokens_details")
    return Usage(
        *(
            None if part.get(name) is None else _count(part[name], name)
            for part, name in (
                (usage, "prompt_tokens"),
                (usage, "completion_tokens"),
                (details, "cached_tokens"),
            )
        )
    )


def _expect(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise StreamError(f"malformed event: {what} is {_line(repr(value), 60)}")
    return value


def _count(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise StreamError(f"malformed event: {what} is {_line(repr(value), 60)}")
    return value


def _clean(text: str) -> str:
    """Text that UTF-8 can hold: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def error_text(value: Any) -> str:
    """The message in an error body such as vLLM's ``{"error": {"message": …}}``, as one line."""
    inner = value.get("error", value) if isinstance(value, dict) else value
    message = inner.get("message", inner) if isinstance(inner, dict) else inner
    return _line(str(message))


def _text(data: bytes) -> str:
    return _line(data.decode("utf-8", "replace"), 100)


def _line(text: str, limit: int = 300) -> str:
    text = " ".join(_clean(text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _http_failure(exchange: Exchange) -> str:
    body = b"".join(exchange.body).decode("utf-8", "replace")
    try:
        reason = error_text(json.loads(body))
    except ValueError:
        reason = _line(body)
    return f"HTTP {exchange.status}: {reason}" if reason else f"HTTP {exchange.status}"


def rows(
    exchange: Exchange, offset_ns: int, temperature: float | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of ``schema.REQUESTS`` and those of ``schema.CHUNKS`` of one exchange."""
    completion = Completion()
    failure = exchange.failure
    if exchange.status is not None and exchange.status != 200:
        failure = failure or _http_failure(exchange)
    else:
        try:
            read(exchange, offset_ns, completion)
        except EarlyEnd as error:
            failure = failure or str(error)
        except StreamError as error:  # explains more than how the connection then ended
            failure = str(error)
    state: Literal["ok", "failed", "cut"] = "failed" if failure else "ok"
    if exchange.done is None:
        state, failure = "cut", "the cell was stopped while this request ran"
    return _request_row(exchange, completion, state, failure, temperature), _chunk_rows(
        exchange.request.index, completion.chunks
    )


def _request_row(
    exchange: Exchange,
    completion: Completion,
    state: str,
    failure: str | None,
    temperature: float | None,
) -> dict[str, Any]:
    request, usage, chunks = exchange.request, completion.usage, completion.chunks
    first, last = (chunks[0].stamp, chunks[-1].stamp) if chunks else (None, None)
    return {
        "index": request.index,
        "prompt_id": request.prompt_id,
        "category": request.category,
        "worker": exchange.worker,
        "slot": exchange.slot,
        "state": state,
        "error": failure,
        "http_status": exchange.status,
        "t_scheduled": _seconds(exchange.scheduled),
        "t_ready": _seconds(exchange.ready),
        "t_send": _seconds(exchange.send),
        "t_sent": _seconds(exchange.sent),
        "t_first": _seconds(first.t if first else None),
        "t_first_user": _seconds(first.user if first else None),
        "t_last": _seconds(last.t if last else None),
        "t_last_user": _seconds(last.user if last else None),
        "t_done": _seconds(exchange.done),
        "prompt_tokens": len(request.token_ids),
        "usage_prompt_tokens": usage.prompt_tokens,
        "usage_completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": sum(len(chunk.token_ids) for chunk in chunks),
        "max_tokens": request.max_tokens,
        "chunks": len(chunks),
        "finish_reason": completion.finish_reason,
        "stop_reason": completion.stop_reason,
        "seed": request.seed,
        "temperature": temperature,
        "text": _clean("".join(completion.text)),
    }


def _chunk_rows(index: int, chunks: list[Chunk]) -> list[dict[str, Any]]:
    """Chunks under one stamp share it, whether one read brought them or the kernel merged them."""
    under = Counter(chunk.stamp.t for chunk in chunks)
    return [
        {
            "request": index,
            "seq": seq,
            "t": chunk.stamp.t / 1e9,
            "t_user": chunk.stamp.user / 1e9,
            "kernel": chunk.stamp.kernel,
            "tokens": len(chunk.token_ids),
            "token_ids": chunk.token_ids,
            "shared_read": min(under[chunk.stamp.t], _MOST),
        }
        for seq, chunk in enumerate(chunks)
    ]


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9
