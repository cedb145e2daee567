"""Reads answers of `/v1/messages`. Source: Anthropic API reference, Messages, streaming; and llama.cpp's version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import msgspec

from engine.clients.base import WireRequest
from engine.clients.chat_reader import ChatReader
from engine.clients.failures import Place, object_error
from engine.clients.json_parts import object_of, text_of
from engine.clients.tool_calls import SLOT_SIZE, size
from engine.completion import Chunk
from engine.content import KeptPart, RedactedThinkingPart, ThinkingPart

PAUSED = "pause_turn"
"""The stop reason of an answer that goes on when it is sent back."""


class _Text(msgspec.Struct, gc=False, tag="text_delta"):
    text: str


class _Thinking(msgspec.Struct, gc=False, tag="thinking_delta"):
    thinking: str


class _PlainEvent(msgspec.Struct, gc=False):
    """Nearly every event: a piece of text. All others fail here and are read leniently."""

    type: Literal["content_block_delta"]
    index: int
    delta: _Text | _Thinking


_decode_plain = msgspec.json.Decoder(_PlainEvent).decode


@dataclass(slots=True)
class _Block:
    """One block of the answer: as it began, and what was added to its members."""

    start: dict[str, object]
    text: list[str] = field(default_factory=list)
    """Of `text` or `thinking`."""
    input: list[str] = field(default_factory=list)
    """Pieces of JSON."""
    signature: list[str] = field(default_factory=list)
    citations: list[object] = field(default_factory=list)

    @property
    def kind(self) -> object:
        return self.start.get("type")

    def part(self) -> KeptPart | None:
        """What must go back unchanged with the next request: thinking with a signature, or encrypted."""
        block = self.whole()
        if self.kind == "thinking" and (signature := text_of(block.get("signature"))):
            return ThinkingPart(text=text_of(block.get("thinking")), signature=signature)
        if self.kind == "redacted_thinking" and (data := text_of(block.get("data"))):
            return RedactedThinkingPart(data=data)
        return None

    def whole(self) -> dict[str, object]:
        """The block as the service wants it back."""
        block = dict(self.start)
        for name in ("text", "thinking"):
            if self.text and name == self.kind:
                block[name] = "".join(self.text)
        if self.signature:
            block["signature"] = "".join(self.signature)
        if self.input:
            try:
                block["input"] = msgspec.json.decode("".join(self.input))
            except (msgspec.MsgspecError, RecursionError):
                block["input"] = {"_raw": "".join(self.input)}
        if self.citations:
            block["citations"] = self.citations
        return block


class AnthropicReader(ChatReader):
    """Folds the events of one answer; see `base.Reader`."""

    def __init__(self, place: Place, *, think_tags: str = "off") -> None:
        super().__init__(place, think_tags=think_tags)
        self._blocks: dict[int, _Block] = {}
        """By their index."""
        self._used: dict[str, int] = {}

    def _events(self, events: Sequence[bytes], chunks: list[Chunk]) -> None:
        answer = self.answer
        content, reasoning, blocks = answer.content, answer.reasoning, self._blocks
        for plain in self._usual(events, _decode_plain, chunks):
            delta = plain.delta
            block = blocks.get(plain.index)
            if isinstance(delta, _Text):
                text = delta.text
                if self._direct is content and text:
                    content.append(text)
                    chunks.append(Chunk(text))
                else:
                    self._progress(chunks, content=text)
            else:
                text = delta.thinking
                if self._direct is reasoning and text:
                    reasoning.append(text)
                    chunks.append(Chunk("", text))
                else:
                    self._progress(chunks, reasoning=text)
            if block is not None:
                block.text.append(text)

    def _event(self, event: dict[str, object], chunks: list[Chunk], *, whole: bool = False) -> None:
        match "message" if whole else event.get("type"):
            case "content_block_delta":
                self._delta(_index(event), object_of(event.get("delta")), chunks)
            case "content_block_start":
                self._begin(_index(event), object_of(event.get("content_block")), chunks)
            case "message_start":
                self._message(object_of(event.get("message")), chunks)
            case "message_delta":
                self._ending(object_of(event.get("delta")), event.get("usage"))
            case "message_stop":
                self.ended = True
            case "message":
                self._message(event, chunks)
        if (error := event.get("error")) is not None:
            self.error = object_error(error, self._place)

    def _is_answer(self, event: Mapping[str, object]) -> bool:
        return isinstance(event.get("content"), list)

    def _message(self, message: Mapping[str, object], chunks: list[Chunk]) -> None:
        """The whole answer, or its beginning."""
        self.answer.model = self.answer.model or text_of(message.get("model"))
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            self._begin(index, object_of(block), chunks)
        self._ending(message, message.get("usage"))

    def _ending(self, message: Mapping[str, object], usage: object) -> None:
        answer = self.answer
        answer.finish = text_of(message.get("stop_reason")) or answer.finish
        answer.refusal = answer.refusal or text_of(object_of(message.get("stop_details")).get("explanation"))
        if isinstance(usage, dict):
            # The counts are totals: later ones take the place of earlier ones.
            self._used |= {name: count for name, count in usage.items() if type(count) is int and count >= 0}
            answer.usage = _usage(self._used)

    def _begin(self, index: int, start: dict[str, object], chunks: list[Chunk]) -> None:
        block = self._blocks[index] = _Block(start)
        self._length += SLOT_SIZE
        if block.kind == "text":
            self._progress(chunks, content=text_of(start.get("text")))
        elif block.kind == "thinking":
            self._progress(chunks, reasoning=text_of(start.get("thinking")))
        elif block.kind == "tool_use":
            self._calls.add({"id": start.get("id"), "function": {"name": start.get("name")}}, index)
            self.answer.pieces += 1
        else:
            self._length += len(msgspec.json.encode(start))

    def _delta(self, index: int, delta: Mapping[str, object], chunks: list[Chunk]) -> None:
        block = self._blocks.setdefault(index, _Block({}))
        match delta.get("type"):
            case "text_delta":
                block.text.append(text := text_of(delta.get("text")))
                self._progress(chunks, content=text)
            case "thinking_delta":
                block.text.append(text := text_of(delta.get("thinking")))
                self._progress(chunks, reasoning=text)
            case "input_json_delta":
                block.input.append(text := text_of(delta.get("partial_json")))
                self._length += size(text)
                if block.kind == "tool_use":
                    self._calls.add({"function": {"arguments": text}}, index)
                    self.answer.pieces += 1
            case "signature_delta":
                block.signature.append(text := text_of(delta.get("signature")))
                self._length += size(text)
            case "citations_delta":
                block.citations.append(citation := delta.get("citation"))
                self._length += len(msgspec.json.encode(citation))

    def _finish(self, chunks: list[Chunk]) -> None:
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        for index, block in self._blocks.items():
            if block.kind == "tool_use" and not "".join(block.input).strip():
                self._calls.add({"function": {"arguments": block.start.get("input")}}, index)
        super()._finish(chunks)
        answer = self.answer
        answer.kept = tuple(part for block in blocks if (part := block.part()))
        if answer.finish == PAUSED and not self.error:
            answer.resume = partial(_resumed, blocks=[block.whole() for block in blocks])


def _resumed(wire: WireRequest, *, blocks: Sequence[dict[str, object]]) -> WireRequest:
    """The request with the answer so far behind it; the service goes on from there."""
    blocks = [block for block in blocks if block.get("type") != "text" or text_of(block.get("text")).strip()]
    messages = wire.body.get("messages")
    turns = list(messages) if isinstance(messages, list) else []
    if turns and turns[-1].get("role") == "assistant":
        blocks = [*turns.pop()["content"], *blocks]
    return wire.changed({"messages": [*turns, {"role": "assistant", "content": blocks}]})


def _usage(used: Mapping[str, int]) -> dict[str, object]:
    """The counts in the spelling of chat completions, where the prompt includes what the cache gave and took."""
    read = used.get("cache_read_input_tokens", 0)
    return {
        "prompt_tokens": used.get("input_tokens", 0) + used.get("cache_creation_input_tokens", 0) + read,
        "completion_tokens": used.get("output_tokens", 0),
        "prompt_tokens_details": {"cached_tokens": read},
    }


def _index(event: Mapping[str, object]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0
