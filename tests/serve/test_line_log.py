"""What goes into server.log, and what of it onto the container's own output."""

from __future__ import annotations

from pathlib import Path

import pytest

from specgauge.serve.linelog import LineLog

POLLED = (
    b'INFO:     172.24.0.4:35998 - "GET /metrics HTTP/1.1" 200 OK',
    b'INFO:     127.0.0.1:43734 - "GET /health HTTP/1.0" 200 OK',
)
TOLD = (
    b'INFO:     172.24.0.4:36008 - "POST /v1/completions HTTP/1.1" 200 OK',
    b'INFO:     172.24.0.4:36008 - "GET /metrics HTTP/1.1" 500 Internal Server Error',
)


def test_our_own_polling_is_in_the_file_only(tmp_path: Path, capfdbinary: pytest.CaptureFixture):
    log = LineLog(tmp_path / "server.log", tee=True)
    log.feed("O", b"\n".join((*POLLED, *TOLD)) + b"\n")
    log.finish()
    written = (tmp_path / "server.log").read_bytes()
    shown = capfdbinary.readouterr().out
    assert all(line in written for line in (*POLLED, *TOLD))
    assert shown.splitlines() == list(TOLD)
