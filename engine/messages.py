"""Rules about lists of turns that hold for every provider."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from engine.conversation import Role, ToolCall, Turn
from engine.errors import ProfileError
from engine.profile import ModelProfile, Overrides
from engine.prompt_strategies import strategy_named

NOT_EXECUTED = "Error: tool call was not executed"
"""The result of a call that has none."""
MAX_ID = 40
"""Characters of a call id that every server accepts."""


def repaired(turns: Sequence[Turn]) -> list[Turn]:
    """Give every tool call one result right behind it, drop results without call, make the ids acceptable."""
    result: list[Turn] = []
    position = 0
    while position < len(turns):
        turn = turns[position]
        position += 1
        if turn.role is Role.TOOL:
            continue
        if not turn.tool_calls:
            result.append(turn)
            continue
        calls = tuple(replace(call, id=wire_id(call.id)) for call in turn.tool_calls)
        result.append(replace(turn, tool_calls=calls))
        following = position
        while following < len(turns) and turns[following].role is Role.TOOL:
            following += 1
        result += _results(turn.tool_calls, turns[position:following])
        position = following
    return result


def _results(calls: Sequence[ToolCall], outputs: Sequence[Turn]) -> list[Turn]:
    missing = {call.id: wire_id(call.id) for call in calls}
    found = [
        replace(output, tool_call_id=call_id)
        for output in outputs
        if (call_id := missing.pop(output.tool_call_id, None)) is not None
    ]
    return found + [
        Turn(role=Role.TOOL, text=NOT_EXECUTED, tool_call_id=call_id, is_error=True) for call_id in missing.values()
    ]


def wire_id(call_id: str) -> str:
    """A call id of at most 40 letters, digits, `_` and `-`; the same for call and result."""
    if len(call_id) > MAX_ID:
        return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
    return re.sub(r"[^A-Za-z0-9_-]", "_", call_id)


def raw_prompt(profile: ModelProfile, turns: Sequence[Turn], overrides: Overrides | None = None) -> tuple[str, str]:
    """The raw prompt of a text completion, and the name of its format; empty when there can be none.

    It is for show: the request itself says what is wrong.
    """
    try:
        strategy = strategy_named(str((overrides or {}).get("prompts", profile.prompt_strategy)))
        return strategy.render(turns), strategy.name
    except ProfileError:
        return "", ""
