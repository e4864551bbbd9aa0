"""A hub on loopback that speaks as much of the Hugging Face hub's protocol as its client needs."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlparse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """``models``: name → file → bytes.  ``gated``: only for whoever sends ``token``."""

    def __init__(self) -> None:
        self.models: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.token = "hf_planted_token"
        self.broken: set[str] = set()
        """Files that are answered with status 500."""
        self.got: list[str] = []
        """Files whose bytes were asked for."""
        self.tokens_seen: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self._answer(head=True)

            def do_GET(self) -> None:
                self._answer(head=False)

            def _answer(self, head: bool) -> None:
                parts = unquote(urlparse(self.path).path).strip("/").split("/")
                if parts[:2] == ["api", "models"]:
                    self._about("/".join(parts[2:4]), "tree" in parts[4:])
                elif len(parts) >= 5 and parts[2] == "resolve":
                    self._file("/".join(parts[:2]), "/".join(parts[4:]), head)
                else:
                    self._send(404, b"{}", {}, head)

            def _refused(self, name: str, head: bool) -> bool:
                given = self.headers.get("Authorization", "").removeprefix("Bearer ")
                hub.tokens_seen.add(given)
                if name not in hub.models:
                    self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, head)
                elif name in hub.gated and given != hub.token:
                    self._send(403, b"{}", {"X-Error-Code": "GatedRepo"}, head)
                else:
                    return False
                return True

            def _about(self, name: str, tree: bool) -> None:
                if self._refused(name, head=False):
                    return
                files = hub.models[name].items()
                if tree:
                    listed = [
                        {"type": "file", "path": f, "size": len(b), "oid": _etag(b)}
                        for f, b in files
                    ]
                    self._send(200, json.dumps(listed).encode(), {}, head=False)
                    return
                about = {
                    "_id": "1", "id": name, "modelId": name, "sha": COMMIT, "private": False,
                    "gated": False, "disabled": False, "tags": [], "downloads": 0, "likes": 0,
                    "siblings": [
                        {"rfilename": f, "size": len(b), "blobId": _etag(b)} for f, b in files
                    ],
                }  # fmt: skip
                self._send(200, json.dumps(about).encode(), {}, head=False)

            def _file(self, name: str, file: str, head: bool) -> None:
                if self._refused(name, head):
                    return
                data = hub.models[name].get(file)
                if data is None:
                    self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"}, head)
                elif file in hub.broken and not head:
                    self._send(500, b"{}", {}, head)
                else:
                    if not head:
                        hub.got.append(file)
                    headers = {"ETag": f'"{_etag(data)}"', "X-Repo-Commit": COMMIT}
                    self._send(200, data, headers, head)

            def _send(self, status: int, body: bytes, headers: dict[str, str], head: bool) -> None:
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if not head:
                    self.wfile.write(body)

        return Handler


def _etag(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()
