"""Puts tool calls together from the pieces of a stream. Source: OpenAI API reference, Chat Completions, streaming."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.conversation import ToolCall


@dataclass(slots=True)
class _Slot:
    index: int
    """As the wire counts, for finding the slot again."""
    order: int
    """Place among the calls."""
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ToolCallPieces:
    """Collects call pieces into slots, whatever a server makes of index and id."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []

    def __bool__(self) -> bool:
        return bool(self._slots)

    def add(self, piece: Mapping[str, object], index: int | None = None) -> None:
        """Take one entry of `tool_calls`; `index` stands in where the entry has none."""
        given = piece.get("index")
        if isinstance(given, int) and not isinstance(given, bool):
            index = given
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        call_id, name = _text(piece.get("id")), _text(function.get("name"))
        slot = self._slot(index, call_id, name)
        slot.id = slot.id or call_id
        slot.name = slot.name or name
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            slot.arguments.append(arguments)
        elif arguments is not None:
            slot.arguments.append(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))

    def calls(self) -> tuple[tuple[ToolCall, ...], int]:
        """The calls in order, and how many were dropped because they have no name."""
        slots = sorted(self._slots, key=lambda slot: slot.order)
        calls = tuple(
            ToolCall(id=slot.id or new_call_id(), name=slot.name, arguments=_arguments(slot))
            for slot in slots
            if slot.name
        )
        return calls, len(slots) - len(calls)

    def _slot(self, index: int | None, call_id: str, name: str) -> _Slot:
        slots = self._slots
        if index is None:
            known = [slot for slot in slots if slot.id == call_id] if call_id else slots
        else:
            known = [slot for slot in slots if slot.index == index]
        if known and not (index is not None and name and call_id and known[-1].id and call_id != known[-1].id):
            return known[-1]
        place = len(slots) if index is None else index
        behind = max((slot.order for slot in slots), default=-1) + 1
        slots.append(_Slot(place, behind if known or index is None else place))  # some servers send index 0 always
        return slots[-1]


def new_call_id() -> str:
    """An id for a call that came without one: `call_` and 24 hex digits."""
    return f"call_{secrets.token_hex(12)}"


def _arguments(slot: _Slot) -> str:
    text = "".join(slot.arguments)
    return text if text.strip() else "{}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
