"""A difference is short, names what changed, and is quick whatever the texts."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.text_difference import MAX_LINES, MAX_WIDTH, difference


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a\nb\nc", "a\nb\nc", ""),
        ("a\nb\nc", "a\nB\nc", "- b\n+ B"),
        ("a\nc", "a\nb\nc", "+ b"),
        ("a\n  b\nc", "a\nc", "- b"),
        ("", "new", "+ new"),
        ("a\nb\nc\nd\ne", "A\nb\nc\nd\nE", "- a\n+ A\n- e\n+ E"),
    ],
)
def test_only_what_changed_is_shown(before: str, after: str, shown: str) -> None:
    assert difference(before, after) == shown


def test_long_lines_are_shown_where_they_differ() -> None:
    words = "word " * 200
    old, new = difference(f"{words}old end", f"{words}new end").splitlines()
    assert (old[:3], old[-7:], new[-7:]) == ("- …", "old end", "new end")
    (went, came) = difference("x" * 500, "y" * 500).splitlines()
    assert (went, came) == (f"- {'x' * MAX_WIDTH}…", f"+ {'y' * MAX_WIDTH}…")


def test_many_changes_are_counted() -> None:
    lines = difference("", "\n".join(map(str, range(100)))).splitlines()
    assert len(lines) == MAX_LINES
    assert lines[-1] == f"… and {100 - MAX_LINES + 1} more lines"


def test_great_texts_do_not_hold_the_window() -> None:
    """A generous bound: matching line by line would take minutes."""
    started = time.thread_time()
    assert difference("same\n" * 30_000 + "a\n" * 30_000, "b\nsame\n" * 30_000)
    assert time.thread_time() - started < 5


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_it_is_empty_only_for_equal_texts(before: list[str], after: list[str]) -> None:
    assert (difference("\n".join(before), "\n".join(after)) == "") is (before == after)
