"""Tools for models whose server takes none: described in the prompt, called in fenced JSON (docs/tools.md)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.completion import Completion
from engine.content import RawTextPart
from engine.conversation import Conversation, Role, ToolCall, ToolChoice, ToolDefinition, ToolUse, Turn
from engine.lenient_json import JsonFault, parse

NAME_KEY = "function_name"
"""The member that makes an object a call."""

_FENCE = re.compile(r"```[ \t]*json(?![^\W_])", re.IGNORECASE)
_BEGUN = re.compile(r"`{1,2}\Z|```[ \t]*(?:j|js|jso|json)?\Z", re.IGNORECASE)
_CLOSE = "```"
_SPACE = re.compile(r"\s*")
_EXTRA_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)

CORRECTION = "Your tool call could not be read ({reason}). Write the block again as valid JSON:\n{raw}"
MAX_RAW = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCall:
    """A call found in a text."""

    name: str
    arguments: Mapping[str, object]

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseError:
    """A block that was meant to be a call."""

    reason: str
    """`invalid_json` or `truncated_json`."""
    raw: str

    @property
    def correction(self) -> str:
        """What the model is told."""
        reason = self.reason.replace("_", " ").replace("json", "JSON")
        raw = self.raw if len(self.raw) <= MAX_RAW else f"{self.raw[:MAX_RAW]}..."
        return CORRECTION.format(reason=reason, raw=raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """An answer, taken apart."""

    content: str
    """What is shown: the text before the first call."""
    calls: tuple[ParsedCall, ...] = ()
    errors: tuple[ParseError, ...] = ()


def tool_prompt(choice: ToolChoice, format_text: str) -> str:
    """The part of the system prompt that says how tools are called, which is given, and which there are."""
    lines = [format_text]
    if choice.forced:
        lines.append(f"Call `{choice.forced}` now.")
    elif choice.use is ToolUse.REQUIRED:
        lines.append("Call at least one tool now.")
    elif choice.use is ToolUse.NONE:
        lines.append("Call no tool now.")
    if choice.parallel is False:
        lines.append("Call one tool at a time.")
    for tool in choice.tools:
        lines += [f"`{tool.name}`", f"```json\n{json.dumps(_described(tool), ensure_ascii=False)}\n```"]
    return "\n".join(lines)


def _described(tool: ToolDefinition) -> dict[str, object]:
    """Name, description and schema, the latter a copy with the member that names the tool."""
    schema: dict[str, object] = dict(tool.parameters) or {"type": "object"}
    properties, required = schema.get("properties"), schema.get("required")
    own = {"type": "string", "description": f"Always {tool.name}", "default": tool.name}
    schema["properties"] = {NAME_KEY: own, **(properties if isinstance(properties, Mapping) else {})}
    schema["required"] = [NAME_KEY, *(required if isinstance(required, Sequence) else ())]
    return {"name": tool.name, "description": tool.description, "parameters": schema}


def struct_parse(text: str, tools: Sequence[ToolDefinition]) -> Parsed:
    """Find the calls in an answer. Blocks without `function_name` are text; unknown names stay calls."""
    schemas = {tool.name: tool.parameters for tool in tools}
    calls: dict[tuple[str, str], ParsedCall] = {}
    errors: list[ParseError] = []
    cut: int | None = None
    for start, found in _blocks(text):
        if isinstance(found, ParseError):
            errors.append(found)
        else:
            for item in found:
                call = _call(item, schemas)
                calls.setdefault((call.name, json.dumps(call.arguments, sort_keys=True)), call)
        cut = start if cut is None else cut
    content = text if cut is None else text[:cut].rstrip()
    return Parsed(content=content, calls=tuple(calls.values()), errors=tuple(errors))


def _blocks(text: str) -> Iterator[tuple[int, ParseError | list[dict[str, object]]]]:
    """Where each block of calls begins, with its calls, or what is wrong with it."""
    place = 0
    while fence := _FENCE.search(text, place):
        values, place = _values(text, fence.end())
        if values is None:
            end = text.find(_CLOSE, fence.end())
            closed = end >= 0
            body = text[fence.end() : end if closed else len(text)].strip()
            place = end + len(_CLOSE) if closed else len(text)
            values = _tolerant(body)
            if values is None and NAME_KEY in body:
                yield fence.start(), ParseError(reason="invalid_json" if closed else "truncated_json", raw=body)
        if calls := _calls(values or []):
            yield fence.start(), calls


def _values(text: str, place: int) -> tuple[list[object] | None, int]:
    """The JSON values of a block and where it ends; None when they are not followed by its fence or the end."""
    values: list[object] = []
    while True:
        place = _end_of_space(text, place)
        if place == len(text):
            return values or None, place
        if text.startswith(_CLOSE, place):
            return values or None, place + len(_CLOSE)
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return None, place
        values.append(value)


def _end_of_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _tolerant(body: str) -> list[object] | None:
    """The value of a body with the slips models make; None when it is none."""
    for source in (body, _EXTRA_COMMA.sub(lambda found: found[1] or "", body)):
        try:
            return [json.loads(source, strict=False)]
        except (ValueError, RecursionError):
            continue
    try:
        return [parse(body)]
    except JsonFault:
        return None


def _calls(values: Sequence[object]) -> list[dict[str, object]]:
    """The objects of a block when all of them are calls."""
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    calls = [item for item in items if isinstance(item, dict) and _name(item)]
    return calls if len(calls) == len(items) else []


def _name(item: Mapping[str, object]) -> str:
    name = item.get(NAME_KEY)
    return name.strip() if isinstance(name, str) else ""


def _call(item: Mapping[str, object], schemas: Mapping[str, Mapping[str, object]]) -> ParsedCall:
    """A call; arguments wrapped in a member of their own are unwrapped when the tool has no such argument."""
    name = _name(item)
    arguments: dict[str, object] = {key: value for key, value in item.items() if key != NAME_KEY}
    if len(arguments) == 1:
        ((key, inner),) = arguments.items()
        properties = schemas.get(name, {}).get("properties")
        known = isinstance(properties, Mapping) and key in properties
        if key in ("arguments", "parameters") and isinstance(inner, dict) and not known:
            arguments = inner
    return ParsedCall(name=name, arguments=arguments)


class LiveText:
    """What of a streamed answer may be shown: nothing of a block that may be a call, not one backtick."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._held = ""
        self._fenced = False
        self.shown = 0
        """Characters given out so far."""

    def feed(self, piece: str) -> str:
        """Take a piece; the text that can be shown now."""
        self._text.append(piece)
        if self._fenced or not piece:
            return ""
        text = self._held + piece
        if "`" not in text:
            self._held = ""
            return self._give(text)
        begun = _BEGUN.search(text, max(0, text.rfind("```"))) or _BEGUN.search(text, max(0, len(text) - 2))
        fence = _FENCE.search(text)
        self._fenced = fence is not None and fence.end() < len(text)
        first = fence if self._fenced else begun
        end = first.start() if first else len(text)
        self._held = text[end:]
        return self._give(text[:end])

    def close(self, content: str) -> str:
        """The rest of what `struct_parse` says is to be shown."""
        return self._give(content[self.shown :])

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self._text)

    def _give(self, text: str) -> str:
        self.shown += len(text)
        return text


def described(conversation: Conversation, choice: ToolChoice, format_text: str) -> Conversation:
    """The conversation for a model that calls in its text: tools in the system prompt, calls and results as text.

    `format_text` tells the model how to write a call.
    """
    turns: list[Turn] = []
    results: list[str] = []
    names: dict[str, str] = {}
    for turn in conversation.turns:
        if turn.role is not Role.TOOL and results:
            turns.append(_results(results))
            results = []
        if turn.role is Role.TOOL:
            name = names.get(turn.tool_call_id, "")
            results.append(f"Tool result {name} ({turn.tool_call_id}):\n{turn.text}")
            continue
        names |= {call.id: call.name for call in turn.tool_calls}
        turns.append(replace(turn, text=_said(turn), tool_calls=(), kept=()) if turn.tool_calls else turn)
    if results:
        turns.append(_results(results))
    prompt = tool_prompt(choice, format_text)
    if turns and turns[0].role is Role.SYSTEM:
        turns[0] = replace(turns[0], text=f"{turns[0].text}\n{prompt}")
    else:
        turns.insert(0, Turn(role=Role.SYSTEM, text=prompt))
    return Conversation(tuple(turns))


def turn_places(conversation: Conversation) -> list[tuple[int, ...]]:
    """For each turn of the described conversation the places of the turns it was made of."""
    places: list[tuple[int, ...]] = []
    before: Role | None = None
    for place, turn in enumerate(conversation.turns):
        if turn.role is Role.TOOL and before is Role.TOOL:
            places[-1] = (*places[-1], place)
        else:
            places.append((place,))
        before = turn.role
    return places if conversation.turns and conversation.turns[0].role is Role.SYSTEM else [(), *places]


def raw_text(completion: Completion) -> str:
    """An answer as the model wrote it, calls included."""
    return next((part.text for part in completion.kept if isinstance(part, RawTextPart)), completion.content)


def _results(results: Sequence[str]) -> Turn:
    return Turn(role=Role.USER, text="\n\n".join(results))


def _said(turn: Turn) -> str:
    """The text of an answer with calls as the model wrote it; calls that came natively are written in its form."""
    if raw := next((part.text for part in turn.kept if isinstance(part, RawTextPart)), ""):
        return raw
    return "\n".join(filter(None, [turn.text, *map(_block, turn.tool_calls)]))


def _block(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = {"arguments": call.arguments}
    members = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return f"```json\n{json.dumps({NAME_KEY: call.name, **members}, ensure_ascii=False)}\n```"
