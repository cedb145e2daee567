"""Splitting a leading <think>…</think> off a text in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clients.think_tags import ThinkTags


def split(*pieces: str, prefilled: bool = False) -> tuple[str, str]:
    tags = ThinkTags(prefilled=prefilled)
    parts = [tags.feed(piece) for piece in pieces] + [tags.close()]
    return "".join(part[0] for part in parts), "".join(part[1] for part in parts)


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>a</think>b", "a", "b"),
        (" \n<think>\na < b\n</think>\n\nb", "\na < b\n", "\n\nb"),
        ("plain", "", "plain"),
        ("  plain", "", "  plain"),
        ("<thin", "", "<thin"),
        ("<thinking>a", "", "<thinking>a"),
        ("a<think>b</think>", "", "a<think>b</think>"),
        ("<think>never closed </thin", "never closed </thin", ""),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("<think></think>", "", ""),
        ("", "", ""),
        ("\n ", "", "\n "),
    ],
)
def test_split(text: str, reasoning: str, content: str) -> None:
    assert split(text) == (reasoning, content)
    assert split(*text) == (reasoning, content)


def test_prefilled() -> None:
    assert split("a", "</th", "ink>", "b", prefilled=True) == ("a", "b")
    assert split("a", prefilled=True) == ("a", "")


@given(st.lists(st.sampled_from(["<", "/", "think", ">", "<think>", "</think>", " ", "x"]), max_size=20))
def test_the_pieces_make_no_difference(pieces: list[str]) -> None:
    assert split(*pieces) == split("".join(pieces))


def test_nothing_of_a_tag_shows_before_it_is_decided() -> None:
    tags = ThinkTags()
    assert [tags.feed(piece) for piece in ("<", "think", ">a<", "/", "x")] == [("", "")] * 2 + [
        ("a", ""),
        ("", ""),
        ("</x", ""),
    ]
