"""Repairing calls and results, and leaving out old turns."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.conversation import Role, ToolCall, Turn
from engine.errors import ContextTooLong
from engine.messages import NOT_EXECUTED, fitted, input_budget, list_tokens, repaired, wire_id
from engine.profile import ModelProfile, ProfileOptions

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "truncation.json").read_text(encoding="utf-8"))
TEXT_VECTORS = [
    vector
    for vector in VECTORS
    if all(isinstance(item["content"], str) and "pinned" not in item for item in vector["given"]["messages"])
]
"""Those without images and pinned messages, which turns do not have yet."""


def call(*ids: str) -> Turn:
    return Turn(role=Role.ASSISTANT, tool_calls=tuple(ToolCall(id=name, name="f", arguments="{}") for name in ids))


def result(name: str, text: str = "out") -> Turn:
    return Turn(role=Role.TOOL, text=text, tool_call_id=name)


def test_every_call_gets_one_result_behind_it() -> None:
    turns = [result("lost"), call("a", "b", "c"), result("c"), result("x"), result("a"), result("a", "again")]
    assert repaired(turns) == [
        call("a", "b", "c"),
        result("c"),
        result("a"),
        Turn(role=Role.TOOL, text=NOT_EXECUTED, tool_call_id="b", is_error=True),
    ]


def test_a_result_after_other_turns_is_an_orphan() -> None:
    user = Turn(role=Role.USER, text="hi")
    assert repaired([call("a"), user, result("a")])[1:] == [
        Turn(role=Role.TOOL, text=NOT_EXECUTED, tool_call_id="a", is_error=True),
        user,
    ]


def test_ids_are_made_acceptable_alike() -> None:
    long = "call_" + "0123456789" * 4
    fixed = repaired([call(long, "a b/c"), result(long), result("a b/c")])
    assert [item.id for item in fixed[0].tool_calls] == [turn.tool_call_id for turn in fixed[1:]]
    assert fixed[2].tool_call_id == "a_b_c"
    assert len(wire_id(long)) == 29


def test_a_list_without_calls_stays() -> None:
    turns = [Turn(role=Role.SYSTEM, text="s"), Turn(role=Role.USER, text="u"), Turn(role=Role.ASSISTANT, text="a")]
    assert repaired(turns) == turns


def turn_of(item: Mapping[str, Any]) -> Turn:
    calls = [
        ToolCall(id=call["id"], name=call["name"], arguments=call["arguments"]) for call in item.get("toolCalls", ())
    ]
    return Turn(
        role=Role(item["role"]), text=item["content"], tool_calls=tuple(calls), tool_call_id=item.get("toolCallId", "")
    )


@pytest.mark.parametrize("vector", TEXT_VECTORS, ids=lambda vector: str(vector["id"]))
def test_truncation_vector(vector: Mapping[str, Any]) -> None:
    given, expect = vector["given"], vector["expect"]
    turns = [turn_of(item) for item in given["messages"]]
    if "error" in expect:
        with pytest.raises(ContextTooLong) as caught:
            fitted(turns, given["maxInputTokens"], len)
        assert caught.value.facts == {"tokens": str(expect["current"]), "limit": str(expect["max"])}
        return
    fit = fitted(turns, given["maxInputTokens"], len)
    assert (fit.before, fit.after) == (expect["tokensBefore"], expect["tokensAfter"])
    assert len(turns) - len(fit.turns) == expect["dropped"]
    assert fit.shrunk == len(expect.get("shrunkIds", ()))
    assert list_tokens(fit.turns, len) == fit.after
    kept = [turn_of(item) for item in given["messages"] if item["id"] in expect["keptIds"]]
    shrunk = expect.get("shrunkIds", ())
    if not shrunk:
        assert list(fit.turns) == kept


def test_that_truncation_vectors_are_run() -> None:
    assert len(TEXT_VECTORS) >= 8


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
