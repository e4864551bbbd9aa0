"""Chunks get the time of their arrival, though the client was busy; backlogs are taken apart."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable

import gevent
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stamped_source import HEAD, chunk, event, token

from specgauge.load.clock import epoch_offset_ns
from specgauge.load.completion import rows
from specgauge.load.connection import Connection, first_chunk
from specgauge.load.exchange import Exchange
from specgauge.load.plan import PlannedRequest

END = chunk(event("[DONE]")) + b"0\r\n\r\n"


def new_exchange() -> Exchange:
    return Exchange(PlannedRequest(0, "p", "c", (1,), 9, 0), worker=0, slot=0)


@pytest.fixture
def answer():
    """A function that lets one connection be answered by a function of its socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(write: Callable[[socket.socket], None]) -> Connection:
        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer.recv(1 << 20)
                write(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        threads.append(thread)
        return Connection(*listener.getsockname())

    yield start
    listener.close()
    for thread in threads:
        thread.join(5)


def test_pieces_of_any_size_with_pauses(answer):
    wire = HEAD + b"".join(chunk(event(token(i, 2))) for i in range(3)) + END

    def write(peer):
        for at in range(0, len(wire), 7):
            peer.sendall(wire[at : at + 7])
            time.sleep(0.0003)

    made, connection = new_exchange(), answer(write)
    assert connection.perform(b"request", made) is True
    request, chunks = rows(made, epoch_offset_ns(), 0.0)
    assert request["state"] == "ok"
    assert [c["token_ids"] for c in chunks] == [[0, 1], [2, 3], [4, 5]]
    connection.close()


def test_an_answer_that_ends_with_its_connection(answer):
    def write(peer):
        peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + event(token(0)) + event("[DONE]"))

    made, connection = new_exchange(), answer(write)
    assert connection.perform(b"request", made) is False
    assert rows(made, epoch_offset_ns(), 0.0)[0]["state"] == "ok"
    connection.close()


def test_closed_in_the_middle(answer):
    made, connection = new_exchange(), answer(lambda peer: peer.sendall(HEAD + chunk(b"data: ")))
    with pytest.raises(EOFError):
        connection.perform(b"request", made)
    assert made.done is not None
    assert not connection.is_alive()
    connection.close()


def test_a_large_request_goes_out_whole(answer):
    size = 8_000_000
    got = []

    def write(peer):
        n = 0
        while n < size - (1 << 20):
            n += len(peer.recv(1 << 20))
        peer.settimeout(0.3)
        with contextlib.suppress(TimeoutError):  # closing on unread bytes resets the connection
            while True:
                n += len(peer.recv(1 << 20))
        got.append(n)
        peer.sendall(HEAD + chunk(event(token(0))) + END)

    made, connection = new_exchange(), answer(write)
    assert connection.perform(b"x" * size, made) is True
    assert got
    connection.close()


def test_a_backlog_is_read_event_by_event(answer):
    """Nothing is lost or doubled, and no two events come in one read."""

    def write(peer):
        for i in range(20):
            peer.sendall((HEAD if i == 0 else b"") + chunk(event(token(i))))
            time.sleep(0.001)
        peer.sendall(END)

    made, connection = new_exchange(), answer(write)
    gevent.spawn(time.sleep, 0.05)  # holds the loop while all of it arrives
    connection.perform(b"request", made)
    request, chunks = rows(made, epoch_offset_ns(), 0.0)
    assert request["state"] == "ok"
    assert [c["token_ids"] for c in chunks] == [[i] for i in range(20)]
    users = [c["t_user"] for c in chunks]
    assert len(set(users)) == 20
    assert [c["t"] for c in chunks] == sorted(c["t"] for c in chunks)
    connection.close()


@given(st.binary(max_size=40), st.integers(0, 100))
def test_first_chunk_never_asks_for_nothing_or_too_much(head, waiting):
    assert 0 <= first_chunk(head, waiting) <= waiting


@given(st.integers(1, 1 << 20), st.integers(0, 1 << 20))
def test_first_chunk_is_that_chunk(size, behind):
    whole = chunk(b"x" * size)
    assert first_chunk(whole[:24], len(whole) + behind) == len(whole)


def lags(source, busy_s: float) -> tuple[list[float], list[float], list[bool]]:
    """Kernel and user lags of 100 events, 10 ms apart; the client is busy ``busy_s`` at a time."""

    body = json.dumps({"prompt": [1], "max_tokens": 100, "seed": 0, "tick": 0.01}).encode()
    message = b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    connection = Connection("127.0.0.1", source.port)
    made = new_exchange()
    done = threading.Event()

    def burn() -> None:
        while not done.is_set():
            end = time.monotonic() + busy_s
            while time.monotonic() < end:
                pass
            gevent.sleep(0.0005)

    burner = gevent.spawn(burn) if busy_s else None
    connection.perform(message, made)
    done.set()
    if burner is not None:
        burner.join()
    kernel_known = connection.kernel
    connection.close()
    _request, chunks = rows(made, epoch_offset_ns(), 0.0)
    true = source.end()["log"][0]["stamps"]
    assert len(true) == len(chunks) == 100
    if not kernel_known:
        pytest.skip("no kernel receive timestamps here")
    return (
        [c["t"] - t for c, t in zip(chunks, true, strict=True)],
        [c["t_user"] - t for c, t in zip(chunks, true, strict=True)],
        [c["shared_read"] == 1 for c in chunks],
    )


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def test_kernel_times_are_true_though_the_client_is_busy(source):
    kernel, user, _alone = lags(source, busy_s=0.008)
    assert min(kernel) > -1e-5
    assert middle(kernel) < 0.0005
    assert middle(user) > 3 * middle(kernel)


def test_a_shared_stamp_is_marked(source):
    """Three events wait at each look: those the kernel merged must say so, the rest be true."""
    kernel, _user, alone = lags(source, busy_s=0.03)
    true_alone = [lag for lag, single in zip(kernel, alone, strict=True) if single]
    late_alone = [lag for lag in true_alone if lag > 0.005]
    assert len(late_alone) <= 15  # unmarked, about 60 would be late
