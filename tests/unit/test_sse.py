"""The splitters of event streams and lines; whatever the pieces, the events are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clients.sse import MAX_EVENT, EventTooLong, LineSplitter, SseSplitter


def events(*pieces: bytes) -> list[bytes]:
    splitter = SseSplitter()
    return [event for piece in pieces for event in splitter.feed(piece)] + splitter.close()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a \n\n", [b" a "]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\ndata\ndata: b\n\n", [b"a\n\nb"]),
        (b": comment\n\nevent: x\nid: 7\nretry: 9\ndata: a\nother: z\n\n", [b"a"]),
        (b"event: x\n\n", []),
        (b"data: a", [b"a"]),
        (b"data: a\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"dataa: x\n\n data: y\n\n", []),
        ("data: a\u2028b\u2029c\u0085d\x0be\x1cf\n\n".encode(), ["a\u2028b\u2029c\u0085d\x0be\x1cf".encode()]),
        (b"", []),
        (b"\xef\xbb", []),
    ],
)
def test_events(stream: bytes, expected: list[bytes]) -> None:
    assert events(stream) == expected
    assert events(*(stream[place : place + 1] for place in range(len(stream)))) == expected


BITS = st.lists(
    st.sampled_from(
        [b"\r", b"\n", b"\r\n", b"data:", b"data: ", b": ", b"x", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"event: y"]
    ),
    max_size=40,
)


@given(BITS, st.data())
def test_the_pieces_make_no_difference(bits: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(bits)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert events(*pieces) == events(stream) == by_the_book(stream)


def by_the_book(stream: bytes) -> list[bytes]:
    """The rules of the standard, one line at a time, and what is pending at the end."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found, lines = [], []
    for line in [*text.split(b"\n"), b""]:
        if not line and lines:
            found.append(b"\n".join(lines))
            lines = []
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return found


@pytest.mark.parametrize("kind", [SseSplitter, LineSplitter])
def test_an_endless_event_is_given_up(kind: type[SseSplitter | LineSplitter]) -> None:
    splitter = kind()
    piece = b"data: " + b"x" * (1 << 20)
    for _ in range(MAX_EVENT // len(piece)):
        assert splitter.feed(piece) == []
    with pytest.raises(EventTooLong):
        splitter.feed(piece)


def test_a_long_event_in_one_piece_is_given_up() -> None:
    with pytest.raises(EventTooLong):
        SseSplitter().feed(b"data: " + b"x" * MAX_EVENT + b"\n\n")
    with pytest.raises(EventTooLong):
        LineSplitter().feed(b"x" * (MAX_EVENT + 1) + b"\n")


def test_many_events_may_be_longer_together() -> None:
    splitter = SseSplitter()
    piece = b"data: " + b"x" * (MAX_EVENT - 100) + b"\n\n"
    assert sum(len(splitter.feed(piece)) for _ in range(3)) == 3


@given(st.lists(st.sampled_from([b"\n", b"\r\n", b" ", b'{"a":1}', b"\xe2\x80\xa8"]), max_size=30), st.data())
def test_lines(bits: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(bits)
    cut = data.draw(st.integers(0, len(stream)))
    splitter = LineSplitter()
    lines = splitter.feed(stream[:cut]) + splitter.feed(stream[cut:]) + splitter.close()
    assert lines == [line for part in stream.split(b"\n") if (line := part.strip())]
