"""Leaving out old turns: the vectors, and what holds for every list of turns."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.completion import ShortenedNotice
from engine.content import CallExtraPart, KeptPart, OutputItemPart, RedactedThinkingPart, ThinkingPart
from engine.conversation import ImagePart, Role, ToolCall, Turn
from engine.errors import ContextTooLong
from engine.image_tokens import image_tokens
from engine.profile import ModelProfile, ProfileOptions, Provider
from engine.truncation import FORMAT_TOKENS, Truncated, TurnCounter, input_budget, truncate
from tests.conformance.cases import Case, differences
from tests.conformance.truncation import KINDS

FOLDER = Path(__file__).parents[1] / "vectors"
VECTORS = [
    (name, vector)
    for name in ("truncation.json", "image_tokens.json")
    for vector in json.loads((FOLDER / name).read_text(encoding="utf-8"))
]
PROFILE = ModelProfile(name="p", category="M", provider=Provider.OPENAI_CHAT)
COUNTER = TurnCounter(len, PROFILE)


@pytest.mark.parametrize(("name", "vector"), VECTORS, ids=lambda value: value["id"] if isinstance(value, dict) else "")
def test_vector(name: str, vector: Mapping[str, Any]) -> None:
    case = Case(path=FOLDER / name, id=vector["id"], given=vector["given"], expect=vector["expect"])
    assert differences(case.expect, KINDS[case.kind](case)) == []


def test_that_there_are_vectors() -> None:
    assert len(VECTORS) >= 27


def texts(role: Role) -> st.SearchStrategy[list[Turn]]:
    return st.builds(
        lambda text, pinned: [Turn(role=role, text=text, pinned=pinned)],
        st.text("ab ", max_size=40),
        st.integers(0, 9).map(lambda number: number == 0),
    )


@st.composite
def rounds(draw: st.DrawFn) -> list[Turn]:
    """An assistant turn with calls, and results of some of them, or orphans."""
    calls = tuple(ToolCall(id=f"c{number}", name="f", arguments="{}") for number in range(draw(st.integers(0, 3))))
    results = draw(st.lists(st.text("xy", max_size=80), max_size=3))
    answer = [Turn(role=Role.ASSISTANT, text="a", tool_calls=calls)] if calls or draw(st.booleans()) else []
    return [
        *answer,
        *(Turn(role=Role.TOOL, text=text, tool_call_id=f"c{number}") for number, text in enumerate(results)),
    ]


CONVERSATIONS = st.lists(
    st.one_of(texts(Role.SYSTEM), texts(Role.USER), texts(Role.ASSISTANT), rounds()), max_size=12
).map(lambda parts: [turn for part in parts for turn in part])


def result_of(turns: Sequence[Turn], budget: int) -> Truncated | None:
    try:
        return truncate(turns, budget, COUNTER)
    except ContextTooLong as error:
        if not int(error.facts["tokens"]) > budget == int(error.facts["limit"]):
            raise
        return None


@given(CONVERSATIONS, st.integers(1, 400))
def test_what_is_left_fits_and_is_in_order(turns: list[Turn], budget: int) -> None:
    before = list(turns)
    cut = result_of(turns, budget)
    assert turns == before
    if cut is None:
        return
    assert cut.after == COUNTER.list(cut.turns) <= budget
    assert cut.before == COUNTER.list(turns)
    left = [place for place in range(len(turns)) if place not in cut.dropped]
    assert len(left) == len(cut.turns)
    for place, turn in zip(left, cut.turns, strict=True):
        assert turn == turns[place] or place in cut.shrunk
    assert all(turns[place].role is Role.TOOL for place in cut.shrunk)


@given(CONVERSATIONS, st.integers(1, 400))
def test_what_must_stay_stays_and_no_result_is_parted_from_its_call(turns: list[Turn], budget: int) -> None:
    cut = result_of(turns, budget)
    if cut is None or not cut.dropped:
        return
    users = [place for place, turn in enumerate(turns) if turn.role is Role.USER]
    for place in cut.dropped:
        assert not turns[place].pinned or turns[place].role is Role.TOOL
        assert turns[place].role is not Role.SYSTEM
        assert not users or place < users[-1]
    for place in range(1, len(turns)):
        if turns[place].role is Role.TOOL and turns[place - 1].role is Role.ASSISTANT and turns[place - 1].tool_calls:
            assert (place in cut.dropped) == (place - 1 in cut.dropped)


@given(CONVERSATIONS, st.integers(1, 400))
def test_cutting_twice_changes_nothing(turns: list[Turn], budget: int) -> None:
    cut = result_of(turns, budget)
    if cut is not None:
        again = truncate(cut.turns, budget, COUNTER)
        assert again.turns == cut.turns


@given(CONVERSATIONS, st.integers(1, 200), st.integers(0, 200))
def test_more_room_keeps_at_least_as_much(turns: list[Turn], budget: int, more: int) -> None:
    small, large = result_of(turns, budget), result_of(turns, budget + more)
    if small is not None:
        assert large is not None
        assert set(large.dropped) <= set(small.dropped)


@pytest.mark.parametrize(
    ("context", "limit", "budget"), [(0, 0, 0), (16000, 0, 13485), (16000, 8000, 8000), (0, 500, 500)]
)
def test_the_budget_of_a_prompt(context: int, limit: int, budget: int) -> None:
    profile = ModelProfile(
        name="p",
        category="M",
        provider="x",
        max_context=context,
        max_tokens=2500,
        options=ProfileOptions(max_input_tokens=limit),
    )
    assert input_budget(profile) == budget


SIGNED = PROFILE.origin


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (ThinkingPart(text="twelve chars", signature="s" * 400), 12),
        (RedactedThinkingPart(data="d" * 401), 101),
        (CallExtraPart(place=0, extra={"google": {"thought_signature": "s" * 400}}), 109),
        (OutputItemPart(item={"type": "message", "content": [{"text": "said already"}]}), 0),
        (OutputItemPart(item={"type": "function_call", "arguments": "{}"}), 0),
        (OutputItemPart(item={"type": "reasoning", "summary": ["brief"], "encrypted_content": "e" * 400}), 140),
        (OutputItemPart(item={"type": "reasoning.text", "text": "thought", "signature": None}), 42),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_goes_back_with_an_answer_is_counted_unless_another_model_made_it(part: KeptPart, tokens: int) -> None:
    plain = Turn(role=Role.ASSISTANT, text="a")
    assert COUNTER.turn(replace(plain, kept=(part,), origin=SIGNED)) - COUNTER.turn(plain) == tokens
    assert COUNTER.turn(replace(plain, kept=(part,), origin="OTHER model")) == COUNTER.turn(plain)


def test_kept_thinking_takes_its_room_in_the_budget() -> None:
    thought = (ThinkingPart(text="t" * 100, signature="s"),)
    turns = [
        Turn(role=Role.USER, text="first"),
        Turn(role=Role.ASSISTANT, text="answer", kept=thought, origin=SIGNED),
        Turn(role=Role.USER, text="second"),
    ]
    assert truncate(turns, 100, COUNTER).dropped == (0, 1)
    elsewhere = [replace(turn, origin="OTHER model") for turn in turns]
    assert truncate(elsewhere, 100, COUNTER).dropped == ()


def test_thinking_is_counted_where_it_is_sent_as_text() -> None:
    turn = Turn(role=Role.ASSISTANT, text="a", reasoning="six...")
    assert COUNTER.turn(turn) == TurnCounter(len, replace(PROFILE, tokenizer="llamaServer")).turn(turn) - 6


def test_pictures_cost_what_their_service_says() -> None:
    picture = ImagePart(url="https://a.example/x.png", width=1092, height=1092, detail="high")
    turn = Turn(role=Role.USER, text="look", images=(picture,))
    assert COUNTER.turn(turn) == 4 + len("user") + len("look") + 765
    anthropic = ModelProfile(name="p", category="M", provider=Provider.ANTHROPIC)
    assert image_tokens(picture, anthropic) == 1590
    assert TurnCounter(len, anthropic).list([turn]) == FORMAT_TOKENS + 4 + 8 + 1590


def test_a_notice_says_what_is_gone() -> None:
    notice = ShortenedNotice(before=300, after=120, budget=130, dropped=(1, 2), shrunk=(4,), context_too_small=True)
    assert notice.message == (
        "Of 300 tokens of the prompt 120 are sent (130 fit): 2 turns were left out and 1 tool result became a note. "
        "The context is too small: even the last exchange before the question had to go."
    )
