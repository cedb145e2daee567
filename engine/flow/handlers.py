"""Handlers turn an answer into context keys."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from engine import lenient_json
from engine.completion import Chunk, Completion
from engine.conversation import ToolResult
from engine.flow import json_schema
from engine.flow.context import Context, text_of


@dataclass(frozen=True, slots=True)
class Done:
    """The answer was used."""

    warning: str = ""
    """What a person should know although it was, for instance that a part of it was dropped."""


@dataclass(frozen=True, slots=True)
class Again:
    """The answer was of no use; another attempt may be made."""

    reason: str
    correction: str = ""
    """What the model is told before the next attempt, after its bad answer; empty: it is asked the same again."""


HandlerResult = Done | Again
DONE = Done()

AT_ONCE = 16_384
"""Characters of an answer that are read on the event loop; more may take too long for a window that lives on it."""

Transform = Callable[[str], str | None]
"""Changes an answer before it is stored; None stores nothing."""
ToolFunction = Callable[[Completion, Context], Awaitable[Sequence[ToolResult] | None] | Sequence[ToolResult] | None]
"""Runs the calls of an answer; None = it does not want to, the answer is the final one."""

T = TypeVar("T")


async def read_aside(read: Callable[[str], T], answer: str) -> T:
    """Read an answer, a long one in a thread."""
    return read(answer) if len(answer) <= AT_ONCE else await asyncio.to_thread(read, answer)


class Handler:
    """Base of all handlers. A new one is made for each attempt, so it may collect things while chunks arrive."""

    calls_tools = False
    """Whether the model may call tools before its final answer."""

    def before_stream(self, context: Context) -> None:
        """Get ready for the first piece of an answer; only called when the agent streams."""

    def on_chunk(self, chunk: Chunk, context: Context) -> None:
        """See a piece as it arrives, after `before_stream`; the whole text comes to `handle` or `keep` anyway."""

    async def call_tools(self, completion: Completion, context: Context) -> Sequence[ToolResult] | None:
        """Run the calls of an answer in a way of its own; None leaves them to the tools of the agent."""
        return None

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Put the answer into the context. An exception counts as an answer of no use."""
        raise NotImplementedError

    def keep(self, partial: Completion, context: Context) -> None:
        """Keep what had arrived of an answer that broke off."""


class _Growing:
    """A text that arrives in pieces, visible under a key while it does."""

    __slots__ = ("_key", "_length", "_pieces", "_shown")

    AT_EVERY_PIECE = 65_536
    """Characters up to which each piece is visible at once; joining a longer text for every word would take too long,
    so it is shown whenever it has grown by a sixteenth."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._pieces: list[str] = []
        self._length = 0
        self._shown = 0

    def add(self, piece: str, context: Context, *, show: bool = False) -> None:
        """Append; `show` makes it visible in any case."""
        self._pieces.append(piece)
        self._length += len(piece)
        if show or self._length <= self.AT_EVERY_PIECE or self._length - self._shown > self._length // 16:
            self._pieces = ["".join(self._pieces)]
            self._shown = self._length
            context[self._key] = [self._pieces[0]]


class TextHandler(Handler):
    """The whole answer goes to one key, thinking to `<key>_reasoning`; both grow while the answer streams."""

    def __init__(
        self,
        key: str = "response",
        *,
        transform: Transform | None = None,
        before_stream: Callable[[Context], None] | None = None,
        chunk_transform: Callable[[Chunk], Chunk] | None = None,
        after_chunk: Callable[[Context, Chunk], None] | None = None,
    ) -> None:
        """Choose the key and what happens on the way.

        Args:
            transform: changes the whole answer before it is stored; None as its result removes the key.
            before_stream: called once, when the keys have been emptied for the first piece.
            chunk_transform: changes a piece before it is appended; the whole answer replaces the pieces in the end.
            after_chunk: called after each piece, which the keys hold by then.
        """
        self.key = key
        self.transform = transform
        self._before_stream = before_stream
        self._chunk_transform = chunk_transform
        self._after_chunk = after_chunk
        self._content = _Growing(key)
        self._reasoning = _Growing(f"{key}_reasoning")

    def before_stream(self, context: Context) -> None:
        """Empty the keys."""
        self._content, self._reasoning = _Growing(self.key), _Growing(f"{self.key}_reasoning")
        context.set(self.key, "")
        context.remove(f"{self.key}_reasoning")
        if self._before_stream is not None:
            self._before_stream(context)

    def on_chunk(self, chunk: Chunk, context: Context) -> None:
        """Append the piece to the keys."""
        if self._chunk_transform is not None:
            chunk = self._chunk_transform(chunk)
        watched = self._after_chunk is not None
        if chunk.content:
            self._content.add(chunk.content, context, show=watched)
        if chunk.reasoning:
            self._reasoning.add(chunk.reasoning, context, show=watched)
        if self._after_chunk is not None:
            self._after_chunk(context, chunk)

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Replace the key, also by an empty answer."""
        text = completion.content if self.transform is None else self.transform(completion.content)
        store_reasoning(f"{self.key}_reasoning", completion, context)
        if text is None:
            context.remove(self.key)
        else:
            context.set(self.key, text)
        return DONE

    def keep(self, partial: Completion, context: Context) -> None:
        """Store the text so far as it is."""
        store_reasoning(f"{self.key}_reasoning", partial, context)
        context.set(self.key, partial.content)


class AccumulateHandler(Handler):
    """Each answer is added to the list of one key."""

    def __init__(self, key: str = "response", *, transform: Transform | None = None) -> None:
        self.key = key
        self.transform = transform

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Append, on a list of the branch's own."""
        text = completion.content if self.transform is None else self.transform(completion.content)
        if text is not None:
            context[self.key] = [*context.get(self.key, ()), text]
        return DONE


class JsonHandler(Handler):
    """The leaves of a JSON answer go to keys of their names, with a prefix; equal names make one list."""

    def __init__(self, prefix: str = "", *, schema: Mapping[str, object] | None = None) -> None:
        self.prefix = prefix
        self.schema = schema
        self._thinking = StreamedReasoning(f"{prefix}_reasoning")

    def before_stream(self, context: Context) -> None:
        """Drop the thinking of an earlier answer."""
        self._thinking.begin(context)

    def on_chunk(self, chunk: Chunk, context: Context) -> None:
        """Append thinking to its key."""
        self._thinking.add(chunk, context)

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Replace the keys the answer names; asks again when it is no JSON or does not fit the schema."""
        try:
            named, found = await read_aside(self._read, completion.content)
        except lenient_json.JsonFault as fault:
            return Again(
                f"it is not valid JSON ({fault})",
                f"Your answer is not valid JSON: {fault}. Answer again with one valid JSON object and nothing else, "
                "with double quotes around names and texts, and quotes and line breaks inside of texts escaped.",
            )
        if found:
            return Again(
                f"it does not fit the schema ({found})",
                f"Your answer does not have the form that is needed: {found}. Answer again with corrected JSON and "
                "nothing else.",
            )
        for name, texts in named.items():
            context[self.prefix + name] = texts
        store_reasoning(f"{self.prefix}_reasoning", completion, context)
        return DONE

    def _read(self, answer: str) -> tuple[dict[str, list[object]], str]:
        """The texts by name, and what does not fit the schema."""
        value = read_json(answer)
        faults = [] if self.schema is None else list(islice(json_schema.faults(value, self.schema), 5))
        return ({}, "; ".join(faults)) if faults else (flattened(value), "")

    def keep(self, partial: Completion, context: Context) -> None:
        """Store the thinking; half an object is of no use."""
        store_reasoning(f"{self.prefix}_reasoning", partial, context)


class StreamedReasoning:
    """Thinking that grows under a key, for handlers that need the whole answer before they can use it."""

    __slots__ = ("_key", "_text")

    def __init__(self, key: str) -> None:
        self._key = key
        self._text = _Growing(key)

    def begin(self, context: Context) -> None:
        """Start from nothing."""
        self._text = _Growing(self._key)
        context.remove(self._key)

    def add(self, chunk: Chunk, context: Context) -> None:
        """Append the thinking of a piece."""
        if chunk.reasoning:
            self._text.add(chunk.reasoning, context)


class ToolCallingHandler(Handler):
    """Lets the model call tools; the answer that calls none goes to another handler."""

    calls_tools = True

    def __init__(self, then: Handler | None = None, *, function: ToolFunction | None = None) -> None:
        """Choose the handler of the final answer.

        Args:
            then: missing = the key `response`.
            function: runs the calls, plain or async; missing = the tools of the agent do.
        """
        self.then = then or TextHandler()
        self._function = function

    def before_stream(self, context: Context) -> None:
        """Ready the other handler."""
        self.then.before_stream(context)

    def on_chunk(self, chunk: Chunk, context: Context) -> None:
        """Show the other handler the piece."""
        self.then.on_chunk(chunk, context)

    async def call_tools(self, completion: Completion, context: Context) -> Sequence[ToolResult] | None:
        """Let the function run the calls, if there is one."""
        if self._function is None:
            return None
        results = self._function(completion, context)
        return await results if inspect.isawaitable(results) else results

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Give the other handler the final answer."""
        return await self.then.handle(completion, context)

    def keep(self, partial: Completion, context: Context) -> None:
        """Let the other handler keep it."""
        self.then.keep(partial, context)


def read_json(answer: str) -> dict[str, object] | list[object]:
    """The object in an answer, else its array, whatever stands around it; raises JsonFault."""
    texts = [answer]
    if answer.lstrip().startswith("<think>") and "</think>" in answer:
        texts.append(answer.split("</think>", 1)[1])
    first: lenient_json.JsonFault | None = None
    for text in texts:
        try:
            return _object(text)
        except lenient_json.JsonFault as fault:
            first = first or fault
    try:
        return _array(texts[-1])
    except lenient_json.JsonFault as fault:
        raise first or fault from None


def _object(text: str) -> dict[str, object]:
    value = _segment(text, "{", "}")
    if not isinstance(value, dict):
        raise lenient_json.JsonFault("expected an object")
    return value


def _array(text: str) -> list[object]:
    if "{" in text and not 0 <= text.find("[") < text.find("{"):
        raise lenient_json.JsonFault("expected an array")
    value = _segment(text, "[", "]")
    if not isinstance(value, list) or (value and not flattened(value)):
        raise lenient_json.JsonFault("expected names for the values")
    return value


def _segment(text: str, opening: str, closing: str) -> object:
    start, end = text.find(opening), text.rfind(closing)
    if start < 0 or end < start:
        raise lenient_json.JsonFault(f"there is no {opening} ... {closing} in it")
    segment = text[start : end + 1]
    try:
        return lenient_json.parse(segment)
    except lenient_json.JsonFault as fault:
        try:
            return lenient_json.parse(lenient_json.repair(segment))
        except lenient_json.JsonFault:
            raise fault from None


def flattened(value: object) -> dict[str, list[object]]:
    """Names of leaves → their texts in document order; the paths are lost, unnamed scalars left out."""
    found: dict[str, list[object]] = {}

    def add(name: str | None, item: object) -> None:
        if isinstance(item, dict):
            for own, inner in item.items():
                add(own, inner)
        elif isinstance(item, list):
            for inner in item:
                add(name, inner)
        elif name is not None:
            found.setdefault(name, []).append(text_of(item))

    add(None, value)
    return found


def store_reasoning(key: str, completion: Completion, context: Context) -> None:
    """Replace the key by the thinking; blank thinking removes a stale one."""
    if completion.reasoning.strip():
        context.set(key, completion.reasoning)
    else:
        context.remove(key)
