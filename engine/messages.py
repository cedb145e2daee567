"""Rules about lists of turns that hold for every provider."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.conversation import Role, ToolCall, Turn
from engine.errors import ContextTooLong
from engine.profile import ModelProfile

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


FORMAT_TOKENS, TURN_TOKENS = 2, 4
"""What a list and each of its turns cost beside their texts."""

TextCounter = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Turns that fit a budget."""

    turns: tuple[Turn, ...]
    before: int
    """Tokens of all turns."""
    after: int
    """Tokens of those that stay."""
    shrunk: int = 0
    """Tool results that were replaced by a note."""
    context_too_small: bool = False
    """Even what came right before the question had to go."""


def input_budget(profile: ModelProfile) -> int:
    """Tokens a prompt may have; 0 = no limit is known."""
    context = profile.max_context - profile.max_tokens - 15 if profile.max_context else 0
    return min((limit for limit in (profile.options.max_input_tokens, context) if limit > 0), default=0)


def list_tokens(turns: Sequence[Turn], count: TextCounter) -> int:
    """Tokens of a list of turns."""
    return FORMAT_TOKENS + sum(turn_tokens(turn, count) for turn in turns)


def turn_tokens(turn: Turn, count: TextCounter) -> int:
    """Tokens of one turn."""
    texts = [turn.role.value, turn.text, turn.tool_call_id]
    texts += [text for call in turn.tool_calls for text in (call.name, call.arguments)]
    return TURN_TOKENS + sum(count(text) for text in texts if text)


def fitted(turns: Sequence[Turn], budget: int, count: TextCounter) -> Fitted:
    """Leave out the oldest rounds until the rest fits; system turns and all from the last user turn on stay.

    No text is cut; old tool results may become a note. Raises ContextTooLong when even that is too much.
    """
    units = _units(turns)
    tokens = [sum(turn_tokens(turn, count) for turn in unit) for unit in units]
    before = FORMAT_TOKENS + sum(tokens)
    if budget <= 0 or (before <= budget and all(unit[0].role is not Role.TOOL for unit in units)):
        return Fitted(turns=tuple(turns), before=before, after=before)
    users = [place for place, unit in enumerate(units) if unit[0].role is Role.USER]
    tail = users[-1] if users else len(units) - 1
    kept = {place for place, unit in enumerate(units) if unit[0].role is Role.SYSTEM or place >= tail}
    shrunk = _shrink(units, tokens, sorted(kept), budget, count)
    total = FORMAT_TOKENS + sum(tokens[place] for place in kept)
    if total > budget:
        raise ContextTooLong(
            f"The prompt has {total} tokens, but only {budget} fit.",
            hint="Shorten the prompt, lower maxTokens, or choose a profile with a longer context.",
            facts={"tokens": str(total), "limit": str(budget)},
        )
    added: list[int] = []
    for place in range(tail - 1, -1, -1):
        if place in kept or units[place][0].role is Role.TOOL:
            continue
        if total + tokens[place] > budget:
            break
        total += tokens[place]
        added.insert(0, place)
    while added and units[added[0]][0].role is not Role.USER:
        total -= tokens[added.pop(0)]
    kept.update(added)
    return Fitted(
        turns=tuple(turn for place in sorted(kept) for turn in units[place]),
        before=before,
        after=total,
        shrunk=shrunk,
        context_too_small=tail > 0 and tail - 1 not in kept,
    )


def _units(turns: Sequence[Turn]) -> list[list[Turn]]:
    """Turns in groups that stay together: an assistant turn with calls and the results behind it; else one each."""
    units: list[list[Turn]] = []
    for turn in turns:
        if turn.role is Role.TOOL and units and units[-1][0].tool_calls:
            units[-1].append(turn)
        else:
            units.append([turn])
    return units


def _shrink(units: list[list[Turn]], tokens: list[int], kept: Sequence[int], budget: int, count: TextCounter) -> int:
    """Replace tool results by notes, oldest first, until the kept units fit; how many."""
    shrunk = 0
    for place in kept:
        for number, turn in enumerate(units[place]):
            if FORMAT_TOKENS + sum(tokens[other] for other in kept) <= budget:
                return shrunk
            if turn.role is not Role.TOOL:
                continue
            note = f"[tool result omitted: {count(turn.text)} tokens]"
            saved = count(turn.text) - count(note)
            if saved > 0:
                units[place][number] = replace(turn, text=note)
                tokens[place] -= saved
                shrunk += 1
    return shrunk
