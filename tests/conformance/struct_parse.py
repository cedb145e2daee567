"""Vectors of struct_parse.json: calls in text, and what is shown of it live."""

from typing import Any

from engine.conversation import ToolDefinition
from engine.message_intervals import MessageIntervals
from engine.struct_parse import LiveText, Parsed, struct_parse
from tests.conformance.cases import Case, Kinds


def tools_of(case: Case) -> list[ToolDefinition]:
    given: Any = case.given
    return [ToolDefinition(name=tool["name"], parameters=tool["parameters"]) for tool in given["tools"]]


def calls_of(parsed: Parsed) -> list[dict[str, object]]:
    return [{"name": call.name, "arguments": dict(call.arguments)} for call in parsed.calls]


def parsed(case: Case) -> object:
    """An answer, taken apart."""
    found = struct_parse(str(case.given["text"]), tools_of(case))
    errors = [{"reason": error.reason, "raw": error.raw} for error in found.errors]
    return {"content": found.content, "toolCalls": calls_of(found), "errors": errors}


def live(case: Case) -> object:
    """What is shown of an answer while it streams, and what it is in the end."""
    given: Any = case.given
    text = LiveText()
    intervals = MessageIntervals(given["first"], given["send"], fenced=True, silence=None)
    emitted = [intervals.feed(text.feed(chunk)) for chunk in given["chunks"]]
    found = struct_parse(text.text, tools_of(case))
    shown = [piece for piece in (*emitted, intervals.close(), text.close(found.content)) if piece]
    return {"emitted": shown, "final": found.content, "toolCalls": calls_of(found)}


KINDS: Kinds = {"parse": parsed, "live": live}
