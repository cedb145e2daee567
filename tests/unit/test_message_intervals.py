"""When pieces of a streamed message are passed on."""

from hypothesis import given
from hypothesis import strategies as st

from engine.message_intervals import MessageIntervals


def emitted(pieces: list[str], first: int, send: int, *, fenced: bool = False) -> list[str]:
    intervals = MessageIntervals(first, send, fenced=fenced, silence=None)
    return [text for text in [*map(intervals.feed, pieces), intervals.close()] if text]


def test_first_and_every_few() -> None:
    assert emitted(list("abcdefg"), 1, 3) == ["a", "bc", "def", "g"]
    assert emitted(["x", "", "y", "z", "w"], 2, 4) == ["xy", "zw"]
    assert emitted(list("abcdefg"), 1, 3, fenced=True) == ["abc", "def", "g"]
    assert emitted([], 1, 1) == []


def test_text_does_not_wait_long() -> None:
    now = 0.0
    intervals = MessageIntervals(1, 100, clock=lambda: now)
    assert intervals.feed("a") == "a"
    now = 0.1
    assert intervals.feed("b") == ""
    now = 0.2
    assert intervals.feed("c") == "bc"
    now = 0.3
    assert intervals.feed("d") == ""


@given(st.lists(st.text(max_size=3)), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_nothing_is_lost(pieces: list[str], first: int, send: int, fenced: bool) -> None:
    assert "".join(emitted(pieces, first, send, fenced=fenced)) == "".join(pieces)
