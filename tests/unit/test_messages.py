"""Repairing calls and results."""

import msgspec

from engine.content import OutputItemPart, ThinkingPart
from engine.conversation import Role, ToolCall, Turn
from engine.messages import NOT_EXECUTED, repaired, wire_id


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


def test_what_goes_back_is_kept_as_json() -> None:
    turn = Turn(
        role=Role.ASSISTANT,
        kept=(ThinkingPart(text="hm", signature="s"), OutputItemPart(item={"type": "reasoning", "summary": []})),
        origin="p m",
    )
    assert msgspec.json.decode(msgspec.json.encode(turn), type=Turn) == turn
