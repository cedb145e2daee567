"""What the palette finds, and in what order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.command_palette import Entry, find
from workbench.widgets.fuzzy_match import match


def _entry(text: str, group: str = "action", enabled: bool = True) -> Entry:
    return Entry(group=group, text=text, run=lambda: None, enabled=enabled)


def _texts(query: str, entries: list[Entry]) -> list[str]:
    return [entry.text for entry, _ in find(query, entries)]


# -- match ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text", "hits"),
    [
        ("run", "Run flow", (0, 1, 2)),
        ("RUN", "Prerun", (3, 4, 5)),
        ("rf", "Run flow", (0, 4)),
        ("r f", "Run flow", (0, 4)),
        ("", "anything", ()),
        ("zoom", "Zo om", (0, 1, 3, 4)),
    ],
)
def test_hits_are_where_the_letters_are(query: str, text: str, hits: tuple[int, ...]) -> None:
    found = match(query, text)
    assert found is not None
    assert found[1] == hits


@pytest.mark.parametrize(("query", "text"), [("x", "Run"), ("nur", "Run"), ("runn", "Run")])
def test_a_missing_letter_is_no_match(query: str, text: str) -> None:
    assert match(query, text) is None


def test_better_matches_score_higher() -> None:
    texts = ["Run flow", "Show run", "Prerun", "Redo until now"]
    scores = [found[0] for text in texts if (found := match("run", text))]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(texts)


@given(query=st.text(max_size=6), text=st.text(max_size=40))
def test_hits_are_in_order_and_inside(query: str, text: str) -> None:
    found = match(query, text)
    if found is not None:
        hits = found[1]
        assert list(hits) == sorted(set(hits))
        assert all(0 <= hit < len(text) for hit in hits)


@given(text=st.text(min_size=1, max_size=20), data=st.data())
def test_every_piece_of_a_text_finds_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert match(text[start:end], text) is not None


# -- find -------------------------------------------------------------------------------------------------------------


def test_the_best_is_first_within_its_group_and_groups_keep_their_order() -> None:
    entries = [_entry("Prerun"), _entry("Run"), _entry("Stop"), _entry("Runner", "agent")]
    assert _texts("run", entries) == ["Run", "Prerun", "Runner"]


def test_equal_matches_keep_the_order_given() -> None:
    entries = [_entry("Zoom in"), _entry("Zoom out"), _entry("Zoom fit")]
    assert _texts("zoom", entries) == ["Zoom in", "Zoom out", "Zoom fit"]
    assert _texts("", entries) == ["Zoom in", "Zoom out", "Zoom fit"]


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        (">", ["Run"]),
        (">run", ["Run"]),
        ("# run", ["Runner"]),
        ("@", ["run-local"]),
        ("@x", []),
        ("run", ["Run", "Runner", "run-local"]),
    ],
)
def test_a_prefix_narrows_to_one_group(query: str, texts: list[str]) -> None:
    entries = [_entry("Run"), _entry("Runner", "agent"), _entry("run-local", "profile")]
    assert _texts(query, entries) == texts


def test_what_cannot_be_done_now_is_not_offered() -> None:
    assert _texts("", [_entry("Stop", enabled=False), _entry("Run")]) == ["Run"]


def test_the_limit_keeps_the_best() -> None:
    entries = [*(_entry(f"Prerun {n}") for n in range(9)), _entry("Run", "agent")]
    assert [entry.text for entry, _ in find("run", entries, limit=1)] == ["Run"]
