"""A server that writes completion events by a script and stamps each one: the planted truth.

``python stamped_source.py`` prints its port; when stdin ends it prints one JSON line: per request
(by seed) its body, the times of its bytes, and the most requests it ever served at once.

A request's ``extra`` key (part of the JSON body) steers its answer, see ``play``.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import time
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def token(i: int, n: int = 1, finish: str | None = None) -> dict[str, Any]:
    ids = [i * n + k for k in range(n)]
    return {"choices": [{"index": 0, "text": "é" * n, "token_ids": ids, "finish_reason": finish}]}


def usage(body: dict[str, Any], tokens: int) -> dict[str, Any]:
    prompt = len(body["prompt"])
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}}


class Source:
    def __init__(self) -> None:
        self.log: list[dict[str, Any]] = []
        self.running = self.most = self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transport = writer.get_extra_info("socket")
        transport.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1
        number = self.connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                entry: dict[str, Any] = {"connection": number, "body": body, "stamps": []}
                self.log.append(entry)
                self.running += 1
                self.most = max(self.most, self.running)
                try:
                    if not await self.play(body, writer, entry["stamps"]):
                        break
                finally:
                    self.running -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def play(
        self, body: dict[str, Any], writer: asyncio.StreamWriter, stamps: list[float]
    ) -> bool:
        """Answer one request; False: the connection ends with it."""
        do, n = body.get("script", {}).get(str(body["seed"]), "ok"), body["max_tokens"]
        if do == "400":
            text = b'{"error": {"message": "prompt is\\n too long", "code": 400}}'
            writer.write(
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(text) + text
            )
            return True
        if do == "silent":
            await asyncio.sleep(60)
        if do == "garbage":
            writer.write(b"this is no HTTP\r\n\r\n")
            return False
        if do == "closed":
            return False
        writer.write(HEAD)
        for i in range(n):
            tick = body.get("tick", 0.01)
            await asyncio.sleep(tick - time.monotonic() % tick if body.get("aligned") else tick)
            stamps.append(time.monotonic())
            writer.write(chunk(event(token(i, finish="length" if i == n - 1 else None))))
            if i == 1 and do != "ok":
                return self._break(do, writer)
        writer.write(chunk(event(usage(body, n))))
        writer.write(chunk(event("[DONE]")) + b"0\r\n\r\n")
        return True

    def _break(self, do: str, writer: asyncio.StreamWriter) -> bool:
        if do == "error":
            writer.write(chunk(event({"error": {"message": "engine died", "code": 500}})))
            writer.write(chunk(event("[DONE]")) + b"0\r\n\r\n")
            return True
        if do == "undone":
            writer.write(b"0\r\n\r\n")
            return True
        if do == "broken":
            writer.write(chunk(event('{"choices": [')) + b"0\r\n\r\n")
            return True
        if do == "misframed":
            writer.write(chunk(event(token(2))) + b"xyz\r\n")
        if do == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        return False  # "cut": closed in the middle


async def main() -> None:
    source = Source()
    server = await asyncio.start_server(source.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps({"log": source.log, "most": source.most}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
