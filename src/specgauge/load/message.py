"""The bytes of a completion request."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from specgauge.errors import UsageError
from specgauge.load.plan import CellPlan, PlannedRequest

PATH = "/v1/completions"


def address(url: str) -> tuple[str, int, str]:
    """(host, port, path prefix) of an ``http://`` URL.

    Raises:
        UsageError: another scheme, or no host.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise UsageError(f"{url}: the load generator needs a URL like http://127.0.0.1:8000")
    return parts.hostname, parts.port or 80, parts.path.rstrip("/")


def encode(plan: CellPlan, request: PlannedRequest) -> bytes:
    """Head and body of ``request`` as one piece, ready for one ``sendall``."""
    chosen = {"temperature": plan.temperature, "seed": request.seed}
    body = json.dumps(
        {
            **plan.extra_body,
            **{key: value for key, value in chosen.items() if value is not None},
            "model": plan.model,
            "prompt": list(request.token_ids),
            "max_tokens": request.max_tokens,
            "ignore_eos": plan.ignore_eos,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        },
        separators=(",", ":"),
    ).encode()
    host, port, prefix = address(plan.url)
    name = f"[{host}]" if ":" in host else host
    head = (
        f"POST {prefix}{PATH} HTTP/1.1\r\n"
        f"Host: {name}:{port}\r\n"
        "User-Agent: specgauge\r\n"
        "Accept: text/event-stream\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "\r\n"
    )
    return head.encode("ascii") + body
