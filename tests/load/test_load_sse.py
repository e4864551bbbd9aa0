"""Events are found whole, with their true ends, whatever the line ends and comments between."""

from hypothesis import given
from hypothesis import strategies as st

from specgauge.load.sse import Event, events

payload = st.text(
    alphabet=st.characters(blacklist_characters="\r\n", blacklist_categories=("Cs",)), min_size=1
)


@given(st.lists(st.tuples(payload, st.sampled_from(["\n", "\r\n"]), st.booleans()), max_size=8))
def test_planted_events_come_back_with_their_ends(planted):
    body, expected = b"", []
    for text, newline, comment in planted:
        if comment:
            body += f": keep-alive{newline}{newline}".encode()
        body += f"event: x{newline}data: {text}{newline}{newline}".encode()
        expected.append(Event(len(body), text.encode()))
    assert list(events(body)) == expected


def test_several_data_lines_are_one_event():
    assert list(events(b"data: a\ndata:b\ndata\n\n")) == [Event(21, b"a\nb\n")]


def test_an_event_without_its_blank_line_is_none():
    assert list(events(b"data: a\n\ndata: b\n")) == [Event(9, b"a")]


def test_only_one_space_is_taken_off():
    assert next(events(b"data:  a\n\n")).data == b" a"
