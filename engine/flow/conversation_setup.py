"""The turns an agent sends, by its type and the conversation that reached it (docs/running-flows.md)."""

from collections.abc import Sequence

from engine.completion import Completion
from engine.conversation import Conversation, ImagePart, Role, Turn
from engine.flow import trace as symbol
from engine.flow.context import Context
from engine.flow.flow_spec import AgentType
from engine.flow.trace import Kind

FRESH = frozenset({AgentType.COMPLETION, AgentType.START_CONVERSATION, AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT})
"""The types that forget the conversation they come from."""


def set_up(
    existing: Conversation | None,
    kind: AgentType,
    system: str,
    text: str,
    few_shot: Sequence[Turn] = (),
    images: tuple[ImagePart, ...] = (),
) -> Conversation:
    """The conversation to send: `few_shot` goes right before the user turn, nothing to say makes no turn."""
    if existing is None or not existing.turns or kind is AgentType.COMPLETION:
        return _fresh(system, text, few_shot, images)
    if kind is AgentType.START_CONVERSATION_WITH_SYSTEM_PROMPT:
        return _fresh(system, text, few_shot, images)
    if kind is AgentType.START_CONVERSATION:
        return _fresh("", "\n".join(part for part in (system, text) if part), few_shot, images)
    turns = existing.turns
    if turns[0].role is Role.SYSTEM and kind is not AgentType.CONVERSATION_WITH_SYSTEM_PROMPT:
        turns = _system_as_user(turns)
    if not text and not images:
        return Conversation(turns)
    if turns[-1].role is Role.USER:
        text = "\n".join(filter(None, [turns[-1].text, text]))
        images = (*turns[-1].images, *images)
        turns = turns[:-1]
    return Conversation((*turns, *few_shot, Turn(role=Role.USER, text=text, images=images)))


def with_answer(conversation: Conversation | None, last: Completion | None) -> Conversation | None:
    """Append the answer as an assistant turn, unless there is none, or one already."""
    if conversation is None or not conversation.turns or last is None:
        return conversation
    if conversation.turns[-1].role is Role.ASSISTANT or not (last.content or last.tool_calls):
        return conversation
    answer = Turn(
        role=Role.ASSISTANT, text=last.content, tool_calls=last.tool_calls, kept=last.kept, origin=last.origin
    )
    return conversation.add(answer)


def lead_over(context: Context, kind: AgentType) -> None:
    """Carry the conversation over to the next agent, of this type, and write into the trace whether it goes on."""
    if kind in FRESH:
        mark = symbol.COMPLETION if kind is AgentType.COMPLETION else symbol.NEW_CONVERSATION
        context.conversation = context.tools = None
    else:
        if context.answered:
            context.conversation = with_answer(context.conversation, context.last)
        continues = context.conversation is not None and context.conversation.turns
        mark = symbol.CONVERSATION if continues else symbol.NEW_CONVERSATION
    if kind is not AgentType.PROCESSING_ONLY:
        context.trace = context.trace.add(Kind.NEXT, mark)


def _fresh(system: str, text: str, few_shot: Sequence[Turn], images: tuple[ImagePart, ...]) -> Conversation:
    turns: tuple[Turn, ...] = (Turn(role=Role.SYSTEM, text=system),) if system else ()
    asked = Turn(role=Role.USER, text=text, images=images)
    return Conversation((*turns, *few_shot, asked) if text or images else turns)


def _system_as_user(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    text = "\n".join(turn.text for turn in turns[:2])
    return (Turn(role=Role.USER, text=text), *turns[2:])
