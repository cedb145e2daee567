"""Puts tool calls together from the pieces of a stream. Source: OpenAI API reference, Chat Completions, streaming."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from engine.clients.json_parts import text_of
from engine.content import CallExtraPart
from engine.conversation import ToolCall

SLOT_SIZE = 1000
"""Bytes a call counts even when it says nothing."""


@dataclass(slots=True)
class _Slot:
    index: int
    """As the wire counts, for finding the slot again."""
    order: int
    """Place among the calls."""
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: Mapping[str, object] | None = None


class ToolCallPieces:
    """Collects call pieces into slots, whatever a server makes of index and id."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}
        self._by_id: dict[str, _Slot] = {}
        """The last slot with an index or id: looking through all for each piece would be quadratic."""
        self._last_order = -1
        self.size = 0
        """Bytes of what came, in UTF-8, and something for each call."""

    def __bool__(self) -> bool:
        return bool(self._slots)

    def add(self, piece: Mapping[str, object], index: int | None = None) -> None:
        """Take one entry of `tool_calls`; `index` stands in where the entry has none."""
        given = piece.get("index")
        if isinstance(given, int) and not isinstance(given, bool):
            index = given
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        call_id, name = text_of(piece.get("id")), text_of(function.get("name"))
        slot = self._slot(index, call_id, name)
        if call_id and not slot.id:
            slot.id = call_id
            self._by_id[call_id] = slot
        slot.name = slot.name or name
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        if arguments is not None:
            slot.arguments.append(arguments)
            self.size += size(arguments)
        self.size += size(call_id) + size(name)
        if isinstance(extra := piece.get("extra_content"), Mapping):
            slot.extra = extra
            self.size += size(str(extra))

    def calls(self) -> tuple[tuple[ToolCall, ...], int]:
        """The calls in order, and how many were dropped because they have no name."""
        slots = sorted(self._slots, key=lambda slot: slot.order)
        calls = tuple(
            ToolCall(id=slot.id or new_call_id(), name=slot.name, arguments=_arguments(slot))
            for slot in slots
            if slot.name
        )
        return calls, len(slots) - len(calls)

    def extras(self) -> tuple[CallExtraPart, ...]:
        """What came with the calls and goes back with them."""
        slots = [slot for slot in sorted(self._slots, key=lambda slot: slot.order) if slot.name]
        return tuple(CallExtraPart(place=place, extra=slot.extra) for place, slot in enumerate(slots) if slot.extra)

    def _slot(self, index: int | None, call_id: str, name: str) -> _Slot:
        known = self._known(index, call_id)
        if known and not (index is not None and name and call_id and known.id and call_id != known.id):
            return known
        place = len(self._slots) if index is None else index
        behind = self._last_order + 1
        slot = _Slot(place, behind if known or index is None else place)  # some servers send index 0 always
        self._slots.append(slot)
        self._by_index[place] = slot
        self._last_order = max(self._last_order, slot.order)
        self.size += SLOT_SIZE
        return slot

    def _known(self, index: int | None, call_id: str) -> _Slot | None:
        """The last slot that the piece may belong to."""
        if index is not None:
            return self._by_index.get(index)
        if call_id:
            return self._by_id.get(call_id)
        return self._slots[-1] if self._slots else None


def arguments_object(arguments: str) -> dict[str, object]:
    """The arguments of a call as an object, whatever the model wrote."""
    if not arguments.strip():
        return {}
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError):
        return {"_raw": arguments}
    return value if isinstance(value, dict) else {"_value": value}


def size(text: str) -> int:
    """Bytes of the text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def new_call_id() -> str:
    """An id for a call that came without one: `call_` and 24 hex digits."""
    return f"call_{secrets.token_hex(12)}"


def _arguments(slot: _Slot) -> str:
    text = "".join(slot.arguments)
    return text if text.strip() else "{}"
