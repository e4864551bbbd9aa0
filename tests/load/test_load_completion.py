"""A stream's tokens and times come back as planted, wherever the reads were cut."""

import itertools
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgauge.load.completion import rows
from specgauge.load.exchange import Exchange
from specgauge.load.plan import PlannedRequest
from specgauge.load.response import Response
from specgauge.record.schema import CHUNKS, REQUESTS

OFFSET = 10**18
SEND = 5 * 10**9


def event(value):
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def choice(ids, text="x", **more):
    return {"choices": [{"index": 0, "text": text, "token_ids": ids, **more}]}


USAGE = {
    "choices": [],
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 2},
    },
}
STREAM = [
    event(choice(None, "", prompt_token_ids=[1, 2, 3])),
    event(choice([7], "é")),
    event(choice([8, 9], "日本")),
    event(choice([], "")),
    event(choice([10], "🙂", finish_reason="length", stop_reason=None)),
    event(USAGE),
    event(b"[DONE]"),
]


def exchange(pieces, status=200, kernel=True, done=True):
    """One read a piece: piece k is stamped SEND + k ms by the kernel, 0.3 ms later by the user."""
    result = Exchange(PlannedRequest(4, "p", "c", (1, 2, 3), 4, 11), worker=0, slot=1)
    result.send, result.status = SEND, status
    for k, piece in enumerate(pieces, start=1):
        result.body.append(piece)
        result.length += len(piece)
        at = SEND + k * 10**6
        result.reads.append((result.length, at + 3 * 10**5, OFFSET + at if kernel else 0))
    result.done = SEND + 10**9 if done else None
    return result


def at(k):
    return pytest.approx((SEND + k * 10**6) / 1e9, abs=1e-9)


def test_one_read_an_event():
    request, chunks = rows(exchange(STREAM), OFFSET, 0.5)
    assert request["state"] == "ok"
    assert request["error"] is None
    assert [c["token_ids"] for c in chunks] == [[7], [8, 9], [10]]
    assert [c["tokens"] for c in chunks] == [1, 2, 1]
    assert [c["seq"] for c in chunks] == [0, 1, 2]
    assert [c["t"] for c in chunks] == [at(2), at(3), at(5)]
    assert all(c["kernel"] and c["shared_read"] == 1 for c in chunks)
    assert request["t_first"] == at(2)
    assert request["t_last"] == at(5)
    assert request["t_first_user"] == at(2.3)
    assert request["text"] == "é日本🙂"
    assert request["output_tokens"] == request["usage_completion_tokens"] == 4
    assert request["cached_tokens"] == 2
    assert request["chunks"] == 3
    assert request["finish_reason"] == "length"
    assert (request["index"], request["seed"], request["temperature"]) == (4, 11, 0.5)


def test_every_cut_into_two_reads_gives_the_same_tokens_and_the_right_read():
    body = b"".join(STREAM)
    ends = [len(b"".join(STREAM[: k + 1])) for k in (1, 2, 4)]
    for cut in range(1, len(body)):
        request, chunks = rows(exchange([body[:cut], body[cut:]]), OFFSET, 0.0)
        assert request["state"] == "ok"
        assert request["text"] == "é日本🙂"
        assert [c["t"] for c in chunks] == [at(1) if end <= cut else at(2) for end in ends]
        together = sum(end <= cut for end in ends)
        assert {c["shared_read"] for c in chunks} == {together, 3 - together} - {0}


def test_chunks_that_the_kernel_merged_share_one_stamp():
    """Read one by one, but the kernel had one stamp left for both."""
    made = exchange(STREAM)
    length, user, _kernel = made.reads[1]
    made.reads[1] = (length, user + 10**6, made.reads[2][2])
    _request, chunks = rows(made, OFFSET, 0.0)
    assert [c["shared_read"] for c in chunks] == [2, 2, 1]


def test_without_kernel_stamps_the_user_times_are_taken():
    request, chunks = rows(exchange(STREAM, kernel=False), OFFSET, 0.0)
    assert [c["kernel"] for c in chunks] == [False] * 3
    assert [c["t"] for c in chunks] == [c["t_user"] for c in chunks]
    assert request["t_first"] == at(2.3)


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_stepped_clock_is_not_believed(step_s):
    _request, chunks = rows(exchange(STREAM), OFFSET + round(step_s * 1e9), 0.0)
    assert [c["kernel"] for c in chunks] == [False] * 3


@pytest.mark.parametrize(
    ("tail", "says"),
    [
        ([], "the stream ended without [DONE]"),
        ([event(b'{"choices": [')], "malformed event"),
        ([event(b"[1]")], "malformed event: not an object"),
        ([event({"choices": [{"token_ids": "ab"}]})], "malformed event"),
        ([event({"choices": [7]})], "malformed event"),
        ([event(b"[DONE]"), event(choice([1]))], "an event after [DONE]"),
        ([event({"error": {"message": "out of\n memory"}}), event(b"[DONE]")], "out of memory"),
        ([event({"choices": [{"text": "no ids"}]})], "return_token_ids"),
    ],
)
def test_a_bad_stream_is_failed_in_one_line_and_keeps_what_came_before(tail, says):
    request, chunks = rows(exchange([*STREAM[:3], *tail]), OFFSET, 0.0)
    assert request["state"] == "failed"
    assert says in request["error"]
    assert "\n" not in request["error"]
    assert [c["token_ids"] for c in chunks][:2] == [[7], [8, 9]]
    assert request["output_tokens"] >= 3


def test_the_servers_own_error_says_more_than_how_the_connection_ended():
    made = exchange([*STREAM[:3], event({"error": {"message": "engine died"}})])
    made.failure = "the connection broke"
    assert "engine died" in rows(made, OFFSET, 0.0)[0]["error"]
    made = exchange(STREAM[:3])
    made.failure = "the connection broke"
    assert rows(made, OFFSET, 0.0)[0]["error"] == "the connection broke"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"error": {"message": "too long"}}', "HTTP 404: too long"),
        (b'{"detail": "x"}', "HTTP 404: {'detail': 'x'}"),
        (b"<html>\nno</html>", "HTTP 404: <html> no</html>"),
        (b"", "HTTP 404"),
    ],
)
def test_another_status_is_failed_with_the_servers_reason(body, says):
    request, chunks = rows(exchange([body], status=404), OFFSET, 0.0)
    assert (request["state"], request["error"], chunks) == ("failed", says, [])
    assert request["http_status"] == 404


def test_what_still_ran_is_cut_with_its_chunks():
    request, chunks = rows(exchange(STREAM[:3], done=False), OFFSET, 0.0)
    assert request["state"] == "cut"
    assert len(chunks) == 2
    assert request["t_done"] is None


KEYS = st.sampled_from(
    [
        *("choices", "usage", "error", "text", "token_ids", "finish_reason", "stop_reason"),
        *("prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens"),
    ]
)

WIRE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in STREAM)
    + b"0\r\n\r\n"
)


@given(st.lists(st.integers(1, len(WIRE) - 1), max_size=12))
def test_the_wire_cut_anywhere_gives_the_same_body(cuts):
    made = Exchange(PlannedRequest(0, "p", "c", (1,), 1, 0), 0, 0)
    response = Response(made)
    edges = [0, *sorted(set(cuts)), len(WIRE)]
    for begin, end in itertools.pairwise(edges):
        assert not response.complete
        response.parser.feed_data(WIRE[begin:end])
    assert response.complete
    assert made.status == 200
    assert b"".join(made.body) == b"".join(STREAM)
    assert made.length == len(b"".join(STREAM))
    assert made.events >= len(STREAM)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(), inner),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.lists(st.dictionaries(KEYS, json_values), max_size=4), st.binary(max_size=30))
def test_whatever_a_server_sends_becomes_a_row(values, rubbish):
    """No event, however odd, may cost the records of the others."""
    pieces = [*STREAM[:2], *(event(value) for value in values), rubbish, STREAM[2]]
    request, chunks = rows(exchange(pieces), OFFSET, 0.0)
    assert pa.Table.from_pylist([request], schema=REQUESTS).num_rows == 1
    assert pa.Table.from_pylist(chunks, schema=CHUNKS).num_rows == len(chunks) >= 1


def test_half_a_surrogate_pair_can_be_written():
    body = b'{"choices": [{"text": "a\\ud83d", "token_ids": [1], "finish_reason": "\\ud83d"}]}'
    request, _chunks = rows(exchange([event(body), event(b"[DONE]")]), OFFSET, 0.0)
    assert (request["state"], request["text"], request["finish_reason"]) == ("ok", "a?", "?")


def test_an_error_as_plain_json_under_status_200_is_shown():
    request, _chunks = rows(exchange([b'{"error": {"message": "engine is dead"}}']), OFFSET, 0.0)
    assert request["state"] == "failed"
    assert "engine is dead" in request["error"]
