"""Words that went and came."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.word_difference import MOST_WORDS, Piece, word_difference


@pytest.mark.parametrize(
    ("first", "second", "pieces"),
    [
        ("", "", []),
        ("same", "same", [("same", "same")]),
        ("", "new", [("added", "new")]),
        ("a short text", "a long text", [("same", "a "), ("removed", "short"), ("added", "long"), ("same", " text")]),
        # Changes with a blank between them are one.
        ("he washes the car", "he sells a car", [
            ("same", "he "), ("removed", "washes the"), ("added", "sells a"), ("same", " car"),
        ]),
        ("wash.", "wash!", [("same", "wash"), ("removed", "."), ("added", "!")]),
        ("one\n", "one\ntwo\n", [("same", "one\n"), ("added", "two\n")]),
    ],
)  # fmt: skip
def test_what_differs(first: str, second: str, pieces: list[tuple[str, str]]) -> None:
    assert word_difference(first, second) == [Piece(*piece) for piece in pieces]


TEXTS = st.lists(st.sampled_from(["wash", "cut", " ", "  ", "\n", ".", "Ä", "🤖"])).map("".join)


@given(TEXTS, TEXTS)
def test_both_texts_come_back(first: str, second: str) -> None:
    pieces = word_difference(first, second)
    assert "".join(text for kind, text in pieces if kind != "added") == first
    assert "".join(text for kind, text in pieces if kind != "removed") == second
    assert all(text for _, text in pieces)


def test_long_texts_are_compared_by_line_and_very_long_ones_by_their_ends() -> None:
    lines = [f"line {number} of many" for number in range(MOST_WORDS // 4)]
    changed = [*lines]
    changed[500] = "another"
    pieces = word_difference("\n".join(lines), "\n".join(changed))
    assert [piece for piece in pieces if piece.kind != "same"] == [
        ("removed", "line 500 of many\n"),
        ("added", "another\n"),
    ]
    first = "start\n" + "a\n" * (MOST_WORDS + 1) + "end"
    second = "start\n" + "b\n" * (MOST_WORDS + 1) + "end"
    assert [kind for kind, _ in word_difference(first, second)] == ["same", "removed", "added", "same"]
