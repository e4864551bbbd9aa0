"""A plain client for the simulator's tests: streams over HTTP, metrics as numbers."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

_SAMPLE = re.compile(r"^(?P<name>[^{# ]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$")


@dataclass
class Stream:
    """What one streamed request got; ``times`` are monotonic seconds of the token events."""

    token_ids: list[int] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    done: bool = False
    t_send: float = 0.0


def lasted(seconds: float, planted: float, late: float = 0.02) -> bool:
    """As long as planted: longer only by what a busy machine adds.

    ``late``: shorter by so much at most; a client that reads the begin late sees a shorter span.
    """
    return planted - late <= seconds <= planted + 0.25


def body(prompt_ids: list[int] | str, tokens: int, **more: Any) -> dict[str, Any]:
    return {
        "model": "model",
        "prompt": prompt_ids,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True},
        **more,
    }


def post(url: str, path: str, value: dict[str, Any]) -> tuple[int, Any]:
    request = urllib.request.Request(
        url + path, json.dumps(value).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def get(url: str, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url + path, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def stream(url: str, value: dict[str, Any], timeout_s: float = 10) -> Stream:
    result = Stream(t_send=time.monotonic())
    request = urllib.request.Request(
        url + "/v1/completions", json.dumps(value).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer:
            now = time.monotonic()
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                result.done = True
                continue
            event = json.loads(line[6:])
            result.events.append(event)
            result.usage = event.get("usage", result.usage)
            for choice in event.get("choices", []):
                result.token_ids += choice["token_ids"]
                result.chunks.append(len(choice["token_ids"]))
                result.times.append(now)
                result.finish_reason = choice["finish_reason"] or result.finish_reason
    return result


def together(url: str, values: list[dict[str, Any]]) -> list[Stream]:
    """Send all at once, one thread each."""
    results: list[Stream | None] = [None] * len(values)

    def one(index: int) -> None:
        results[index] = stream(url, values[index])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(values))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(r is not None for r in results)
    return [r for r in results if r is not None]


def metrics(url: str) -> dict[str, float]:
    """Samples by name, summed over labels; per-position ones as ``name[position]``."""
    found: dict[str, float] = {}
    for line in get(url, "/metrics")[1].decode().splitlines():
        match = _SAMPLE.match(line)
        if match is None or match["name"].endswith("_bucket"):
            continue
        name = match["name"]
        position = re.search(r'position="(\d+)"', match["labels"] or "")
        key = f"{name}[{position[1]}]" if position else name
        found[key] = found.get(key, 0.0) + float(match["value"])
    return found
