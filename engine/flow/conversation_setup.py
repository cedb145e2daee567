"""The turns an agent sends, by its type and the conversation that reached it (docs/running-flows.md)."""

from collections.abc import Sequence

from engine.completion import Completion
from engine.conversation import Conversation, Role, Turn
from engine.flow.flow_spec import AgentType

FRESH = frozenset({AgentType.COMPLETION, AgentType.START_CONVERSATION, AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT})
"""The types that forget the conversation they come from."""


def set_up(
    existing: Conversation | None, kind: AgentType, system: str, text: str, few_shot: Sequence[Turn] = ()
) -> Conversation:
    """The conversation to send: `few_shot` goes right before the user turn, empty texts make no turn."""
    if existing is None or not existing.turns or kind is AgentType.COMPLETION:
        return _fresh(system, text, few_shot)
    if kind is AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT:
        return _fresh(system, text, few_shot)
    if kind is AgentType.START_CONVERSATION:
        return _fresh("", "\n".join(part for part in (system, text) if part), few_shot)
    turns = existing.turns
    if turns[0].role is Role.SYSTEM and kind is not AgentType.CONVERSATION_WITH_SYSTEM_PROMPT:
        turns = _system_as_user(turns)
    if not text:
        return Conversation(turns)
    if turns[-1].role is Role.USER:
        text = f"{turns[-1].text}\n{text}"
        turns = turns[:-1]
    return Conversation((*turns, *few_shot, Turn(role=Role.USER, text=text)))


def with_answer(conversation: Conversation | None, last: Completion | None) -> Conversation | None:
    """Append the answer as an assistant turn, unless there is none, or one already."""
    if conversation is None or not conversation.turns or last is None:
        return conversation
    if conversation.turns[-1].role is Role.ASSISTANT or not (last.content or last.tool_calls):
        return conversation
    answer = Turn(role=Role.ASSISTANT, text=last.content, tool_calls=last.tool_calls)
    return conversation.add(answer)


def _fresh(system: str, text: str, few_shot: Sequence[Turn]) -> Conversation:
    turns: tuple[Turn, ...] = (Turn(role=Role.SYSTEM, text=system),) if system else ()
    return Conversation((*turns, *few_shot, Turn(role=Role.USER, text=text)) if text else turns)


def _system_as_user(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    text = "\n".join(turn.text for turn in turns[:2])
    return (Turn(role=Role.USER, text=text), *turns[2:])
