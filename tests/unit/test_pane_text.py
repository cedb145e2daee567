"""What panes show of long and strange text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.run_panel.pane_text import PARAGRAPH, TextShaper, looks_like_json, pretty_json


def shape(*pieces: str) -> str:
    shaper = TextShaper()
    shown = [shaper.feed(piece) for piece in pieces]
    return "".join([*shown, shaper.feed("", last=True)])


def test_short_text_is_unchanged() -> None:
    assert shape("one\ntwo", " and three\n") == "one\ntwo and three\n"


def test_a_long_line_is_closed_at_a_blank() -> None:
    text = "word " * 1000
    lines = shape(text).split("\n")
    assert [len(line) for line in lines[:2]] == [1905, 1905]
    assert "".join(lines) == text


def test_a_line_without_blanks_is_closed_at_the_limit() -> None:
    lines = shape("x" * 5000).split("\n")
    assert [len(line) for line in lines] == [2000, 2000, 1000]


def test_closing_does_not_depend_on_the_pieces() -> None:
    text = "abcdefghi " * 900
    assert shape(text) == shape(*text) == shape(*(text[i : i + 7] for i in range(0, len(text), 7)))


def test_a_carriage_return_waits_for_its_line_feed() -> None:
    assert shape("a\r", "\nb") == "a\nb"
    assert shape("a\r") == "a‹CR›"


def test_stacked_marks_are_folded() -> None:
    shown = shape("a" + "\u0301" * 500 + "b")
    assert shown == "a" + "\u0301" * 8 + "…b"


@given(st.lists(st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=900), max_size=12))
def test_nothing_is_lost_and_no_line_is_longer_than_the_limit(pieces: list[str]) -> None:
    shown = shape(*pieces)
    assert shown.replace("\n", "") == "".join(pieces)
    assert all(len(line) <= PARAGRAPH for line in shown.split("\n"))


@pytest.mark.parametrize(
    ("text", "laid_out"),
    [
        ('{"a":1.50,"b":[]}', '{\n  "a": 1.50,\n  "b": []\n}'),
        ('```json\n{"a": 1}\n```', '{\n  "a": 1\n}'),
        ('{"a": 1', None),
        ("not json", None),
        ('{"a": 1} and more', None),
        ("[" * 100_000, None),
        ('"lone \ud800"', None),
        ("1" * 2_000_000, None),
    ],
)
def test_json(text: str, laid_out: str | None) -> None:
    assert pretty_json(text) == laid_out


def test_what_begins_like_json() -> None:
    assert looks_like_json('  {"a"')
    assert looks_like_json('["x"')
    assert looks_like_json("```json\n")
    assert not looks_like_json("[draft] Text")
    assert not looks_like_json("Text")
