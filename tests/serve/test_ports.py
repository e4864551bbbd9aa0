"""A port is claimed among our own commands, and only our server may answer on it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from specgauge.errors import EnvironmentFault
from specgauge.serve import ports


def listen(port: int) -> socket.socket:
    """As vLLM does: another socket may share the port."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    made.listen()
    return made


@pytest.fixture
def ours(free_port: int) -> Iterator[int]:
    with listen(free_port):
        yield free_port


def test_two_commands_cannot_claim_one_port(free_port: int) -> None:
    first = ports.claim(free_port)
    try:
        with pytest.raises(EnvironmentFault, match="in use by another specgauge command"):
            ports.claim(free_port)
    finally:
        first.release()
    ports.claim(free_port).release()


def test_our_own_listener_is_fine(ours: int) -> None:
    ports.require_ours(ours, os.getpid())


def test_a_second_listener_is_named(ours: int) -> None:
    code = (
        "import socket, sys, time\n"
        "s = socket.socket()\n"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
        f"s.bind(('127.0.0.1', {ours}))\n"
        "s.listen()\n"
        "print('there', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdin is not None
        assert stranger.stdout.readline() == b"there\n"
        with subprocess.Popen(["sleep", "60"]) as server:  # has nothing to do with the port
            try:
                with pytest.raises(EnvironmentFault, match=f"pid {stranger.pid}"):
                    ports.require_ours(ours, server.pid)
            finally:
                server.kill()
        stranger.stdin.close()


def test_an_address_that_is_not_ours_is_not_called_taken(free_port: int) -> None:
    with pytest.raises(EnvironmentFault, match=r"cannot listen on 192\.0\.2\.1"):
        ports.require_free("192.0.2.1", free_port)
