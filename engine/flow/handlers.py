"""Handlers turn an answer into context keys."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from engine.completion import Chunk, Completion
from engine.flow import json_schema, lenient_json
from engine.flow.context import Context, text_of


@dataclass(frozen=True, slots=True)
class Done:
    """The answer was used."""


@dataclass(frozen=True, slots=True)
class Again:
    """The answer was of no use; another attempt may be made."""

    reason: str
    correction: str = ""
    """What the model is told before the next attempt, after its bad answer; empty: it is asked the same again."""


HandlerResult = Done | Again
DONE = Done()

AT_ONCE = 16_384
"""Characters of JSON that are read on the event loop; more may take too long for a window that lives on it."""

Transform = Callable[[str], str | None]
"""Changes an answer before it is stored; None stores nothing."""


class Handler:
    """Base of all handlers. A new one is made for each attempt, so it may collect things while chunks arrive."""

    def on_chunk(self, chunk: Chunk, context: Context) -> None:
        """See a piece as it arrives; the whole text comes to `handle` or `keep` anyway."""

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Put the answer into the context. An exception counts as an answer of no use."""
        raise NotImplementedError

    def keep(self, partial: Completion, context: Context) -> None:
        """Keep what had arrived of an answer that broke off."""


class TextHandler(Handler):
    """The whole answer goes to one key, thinking to `<key>_reasoning`."""

    def __init__(self, key: str = "response", *, transform: Transform | None = None) -> None:
        self.key = key
        self.transform = transform

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Replace the key, also by an empty answer."""
        text = completion.content if self.transform is None else self.transform(completion.content)
        _store_reasoning(f"{self.key}_reasoning", completion, context)
        if text is None:
            context.remove(self.key)
        else:
            context.set(self.key, text)
        return DONE

    def keep(self, partial: Completion, context: Context) -> None:
        """Store the text so far as it is."""
        _store_reasoning(f"{self.key}_reasoning", partial, context)
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

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        """Replace the keys the answer names; asks again when it is no JSON or does not fit the schema."""
        answer = completion.content
        try:
            value = read_json(answer) if len(answer) <= AT_ONCE else await asyncio.to_thread(read_json, answer)
        except lenient_json.JsonFault as fault:
            return Again(
                f"it is not valid JSON ({fault})",
                f"Your answer is not valid JSON: {fault}. Answer again with one valid JSON object and nothing else, "
                "with double quotes around names and texts, and quotes and line breaks inside of texts escaped.",
            )
        if self.schema is not None:
            faults = list(islice(json_schema.faults(value, self.schema), 5))
            if faults:
                found = "; ".join(faults)
                return Again(
                    f"it does not fit the schema ({found})",
                    f"Your answer does not have the form that is needed: {found}. Answer again with corrected JSON and "
                    "nothing else.",
                )
        for name, texts in flattened(value).items():
            context[self.prefix + name] = texts
        _store_reasoning(f"{self.prefix}_reasoning", completion, context)
        return DONE

    def keep(self, partial: Completion, context: Context) -> None:
        """Store the thinking; half an object is of no use."""
        _store_reasoning(f"{self.prefix}_reasoning", partial, context)


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


def _store_reasoning(key: str, completion: Completion, context: Context) -> None:
    """Replace the key by the thinking; blank thinking removes a stale one."""
    if completion.reasoning.strip():
        context.set(key, completion.reasoning)
    else:
        context.remove(key)
