"""Reads answers of `/v1/responses`. Source: OpenAI API reference, Responses, streaming; and llama.cpp's version."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from engine.clients.chat_reader import ChatReader
from engine.clients.failures import Place, object_error
from engine.clients.json_parts import object_of, objects_of, text_of
from engine.clients.tool_calls import size
from engine.completion import Chunk
from engine.content import OutputItemPart
from engine.errors import ServerError

TOO_MANY_TOKENS = ("max_output_tokens", "max_tokens", "length")
FILTERED = ("content_filter", "content_filtered")

UNDER_WAY = ("in_progress", "queued")

Key = int | str
"""What names an item within an answer: its place, or its id where a server sends no place."""


class _PlainEvent(msgspec.Struct, gc=False):
    """Nearly every event: a piece of text. All others fail here and are read leniently."""

    type: Literal["response.output_text.delta"]
    delta: str
    output_index: int | None = None
    item_id: str = ""


_decode_plain = msgspec.json.Decoder(_PlainEvent).decode


class ResponsesReader(ChatReader):
    """Folds the events of one answer; see `base.Reader`.

    What was told piece by piece is told again whole when an item, and the answer, are done: only what is new counts.
    """

    def __init__(self, place: Place, *, think_tags: str = "off") -> None:
        super().__init__(place, think_tags=think_tags)
        self._told: set[tuple[str, Key]] = set()
        """What of which item has come: text, reasoning, arguments, refusal."""
        self._thinking: dict[Key, str] = {}
        """Item → whether its summary or its content is shown: what comes first."""
        self._summary: dict[Key, int] = {}
        """Item → the part of the summary that is being told."""
        self._places: dict[Key, int] = {}
        """Item with a call → its place among the calls."""
        self._items: dict[Key, dict[str, object]] = {}
        """Items that are whole."""
        self._writing: Key | None = None

    def _events(self, events: Sequence[bytes], chunks: list[Chunk]) -> None:
        content = self.answer.content
        for plain in self._usual(events, _decode_plain, chunks):
            key = plain.item_id if plain.output_index is None else plain.output_index
            if key != self._writing:
                self._writing = key
                self._told.add(("text", key))
            if self._direct is content and plain.delta:
                content.append(plain.delta)
                chunks.append(Chunk(plain.delta))
            else:
                self._progress(chunks, content=plain.delta)

    def _event(self, event: dict[str, object], chunks: list[Chunk], *, whole: bool = False) -> None:
        if isinstance(timings := event.get("timings"), dict):
            self.answer.timings = timings
        if whole:
            self._response(event, chunks)
            return
        kind = text_of(event.get("type")).removeprefix("response.")
        match kind:
            case "output_text.delta" | "refusal.delta" | "reasoning_text.delta" | "reasoning_summary_text.delta":
                self._piece(kind, event, chunks)
            case "function_call_arguments.delta":
                self._arguments(_key(event), text_of(event.get("delta")))
            case "output_item.added":
                self._begin(object_of(event.get("item")), _key(event))
            case "output_item.done":
                self._done(object_of(event.get("item")), _key(event), chunks)
            case "created" | "completed" | "incomplete" | "failed":
                self._response(object_of(event.get("response")), chunks)
            case _ if kind == "error" or event.get("error") is not None:
                self.error = object_error(event.get("error") or event, self._place)

    def _is_answer(self, event: Mapping[str, object]) -> bool:
        return isinstance(event.get("output"), list)

    def _piece(self, kind: str, event: Mapping[str, object], chunks: list[Chunk]) -> None:
        key, text = _key(event), text_of(event.get("delta"))
        if kind == "output_text.delta":
            self._told.add(("text", key))
            self._progress(chunks, content=text)
        elif kind == "refusal.delta":
            self._told.add(("refusal", key))
            self.answer.refusal += text
        elif kind == "reasoning_text.delta":
            self._think("content", key, text, chunks)
        else:
            part = event.get("summary_index")
            part = part if isinstance(part, int) else 0
            before = self._summary.get(key, 0)
            self._summary[key] = part
            self._think("summary", key, f"\n\n{text}" if part > before else text, chunks)

    def _think(self, kind: str, key: Key, text: str, chunks: list[Chunk]) -> None:
        """Tell reasoning in one of its two forms: where both come, the second repeats the first."""
        if self._thinking.setdefault(key, kind) == kind:
            self._told.add(("reasoning", key))
            self._progress(chunks, reasoning=text)

    def _begin(self, item: Mapping[str, object], key: Key) -> None:
        if item.get("type") == "function_call" and key not in self._places:
            place = self._places[key] = len(self._places)
            call = {"id": item.get("call_id") or item.get("id"), "function": {"name": item.get("name")}}
            self._calls.add(call, place)
            self.answer.pieces += 1

    def _arguments(self, key: Key, text: str) -> None:
        self._told.add(("arguments", key))
        place = self._places.setdefault(key, len(self._places))
        self._calls.add({"function": {"arguments": text}}, place)
        self.answer.pieces += 1

    def _done(self, item: dict[str, object], key: Key, chunks: list[Chunk]) -> None:
        """Take an item that is whole, and tell what of it has not been told."""
        if key in self._items:
            return
        self._items[key] = item
        self._length += size(str(item))
        match item.get("type"):
            case "message" if item.get("role") in ("assistant", None):
                self._message(item, key, chunks)
            case "reasoning" if ("reasoning", key) not in self._told:
                text = "\n\n".join(_texts(item.get("summary"))) or "".join(_texts(item.get("content")))
                self._think("content", key, text, chunks)
            case "function_call":
                self._begin(item, key)
                if ("arguments", key) not in self._told:
                    self._arguments(key, text_of(item.get("arguments")))

    def _message(self, item: Mapping[str, object], key: Key, chunks: list[Chunk]) -> None:
        content = item.get("content")
        if ("text", key) not in self._told:
            self._progress(chunks, content="".join(_texts(content)))
        if ("refusal", key) not in self._told:
            self.answer.refusal += "".join(text_of(part.get("refusal")) for part in objects_of(content))

    def _response(self, response: Mapping[str, object], chunks: list[Chunk]) -> None:
        """The answer as a whole: at the end of a stream, or instead of one."""
        self.answer.model = self.answer.model or text_of(response.get("model"))
        if isinstance(usage := response.get("usage"), dict):
            self.answer.usage = usage
        for place, item in enumerate(objects_of(response.get("output"))):
            self._done(item, self._key_of(item, place), chunks)
        if (error := response.get("error")) is not None:
            self.error = object_error(error, self._place)
        elif response.get("status") not in UNDER_WAY:
            self._ending(response)

    def _key_of(self, item: Mapping[str, object], place: int) -> Key:
        """The name under which an item of the whole answer has been told piece by piece."""
        name = text_of(item.get("id"))
        known = (*self._told, *(("", key) for key in (*self._items, *self._places)))
        return name if any(key == name for _, key in known) else place

    def _ending(self, response: Mapping[str, object]) -> None:
        answer, status = self.answer, response.get("status")
        self.ended = True
        reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
        if status in ("completed", None) or (status == "incomplete" and not reason):
            answer.finish = "tool_calls" if self._calls else "stop"
        elif reason in TOO_MANY_TOKENS:
            answer.finish = "length"
        elif reason in FILTERED:
            answer.finish = "content_filter"
        else:
            answer.finish = "error"
            self.error = ServerError(
                f"{self._place.host} ended the answer as {status}{f': {reason}' if reason else ''}.",
                hint="Try again; if it stays, the server's own log says more.",
                facts=self._place.facts(),
                status=200,
            )

    def _finish(self, chunks: list[Chunk]) -> None:
        super()._finish(chunks)
        items = list(self._items.values())
        if not self.error and any(item.get("type") != "message" or "phase" in item for item in items):
            self.answer.kept = tuple(OutputItemPart(item=item) for item in items)


def _key(event: Mapping[str, object]) -> Key:
    place = event.get("output_index")
    if isinstance(place, int):
        return place
    return text_of(event.get("item_id")) or text_of(object_of(event.get("item")).get("id"))


def _texts(parts: object) -> Iterator[str]:
    """The texts of content or of a summary."""
    return (text for part in objects_of(parts) if isinstance(text := part.get("text"), str))
