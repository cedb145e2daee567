"""Turns and conversations, the one message model for every provider."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Who speaks in a turn."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A model's request to run a tool."""

    id: str
    name: str
    arguments: str
    """The arguments as the JSON text the model wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One immutable turn of a conversation."""

    role: Role
    text: str = ""
    reasoning: str = ""
    """Thinking in the example of a flow; the thinking of real answers is never sent back."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """The call this TOOL turn answers."""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """An immutable list of turns; the methods return a changed copy, so branches share what they have in common."""

    turns: tuple[Turn, ...] = ()

    @property
    def text(self) -> str:
        """The texts of all turns, for counting."""
        return "\n".join(turn.text for turn in self.turns)

    @classmethod
    def create(cls, system: str, user: str) -> "Conversation":
        """Start with a system and a user turn; an empty text adds no turn."""
        turns = (Turn(role=Role.SYSTEM, text=system), Turn(role=Role.USER, text=user))
        return cls(tuple(turn for turn in turns if turn.text))

    def add(self, *turns: Turn) -> "Conversation":
        """Append turns."""
        return Conversation(self.turns + turns)

    def add_user(self, text: str) -> "Conversation":
        """Append a user turn."""
        return self.add(Turn(role=Role.USER, text=text))

    def add_assistant(self, text: str) -> "Conversation":
        """Append an assistant turn."""
        return self.add(Turn(role=Role.ASSISTANT, text=text))

    def replace_last(self, turn: Turn) -> "Conversation":
        """Replace the last turn, or add the turn when there is none."""
        return Conversation((*self.turns[:-1], turn))

    def rewind(self) -> "Conversation":
        """Drop the last two turns when there are at least two."""
        return Conversation(self.turns[:-2]) if len(self.turns) >= 2 else self

    def add_tool_round(
        self, text: str, calls: Sequence[ToolCall], results: Sequence[tuple[str, str]]
    ) -> "Conversation":
        """Append an assistant turn with calls, then one TOOL turn per result (call id, output)."""
        answer = Turn(role=Role.ASSISTANT, text=text, tool_calls=tuple(calls))
        outputs = tuple(Turn(role=Role.TOOL, text=output, tool_call_id=call_id) for call_id, output in results)
        return self.add(answer, *outputs)
