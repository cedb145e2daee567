"""Reads answers of `/v1/chat/completions`.

Source: OpenAI API reference, Chat Completions, streaming; and what llama.cpp, vLLM, Groq and others make of it.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeVar

import msgspec

from engine.clients.base import Answer
from engine.clients.failures import Place, object_error, plain
from engine.clients.json_parts import objects_of, text_of
from engine.clients.sse import MAX_EVENT, EventTooLong, LineSplitter, SseSplitter
from engine.clients.think_tags import TextSplitter, ThinkTags
from engine.clients.tool_calls import ToolCallPieces, size
from engine.completion import Chunk, Phase
from engine.errors import AnswerIncomplete, ProtocolError, RequestError, ServerError

log = logging.getLogger(__name__)

MAX_TEXT = 64 * 1024 * 1024
"""Bytes, in UTF-8, of all text of one answer: content, reasoning, refusal and calls."""
MAX_SKIPPED = 20
MAX_DEPTH = 200
MAX_DIGITS = 100

LOCAL_FINGERPRINT = re.compile(r"fp_ollama|b\d+-[0-9a-f]+")
"""`system_fingerprint` of Ollama and llama.cpp."""

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_LONG_NUMBER = re.compile(rb"\d{%d}" % (MAX_DIGITS + 1))

_Nothing = Annotated[list[None], msgspec.Meta(max_length=0)] | None


class _PlainDelta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: _Nothing = None
    refusal: None = None
    tool_calls: _Nothing = None
    function_call: None = None


class _PlainChoice(msgspec.Struct, gc=False):
    delta: _PlainDelta
    index: Literal[0] = 0
    finish_reason: None = None
    message: None = None


class _PlainEvent(msgspec.Struct, gc=False):
    """Nearly every event: text of one choice and nothing else. All others fail here and are read leniently."""

    choices: tuple[_PlainChoice]
    usage: None = None
    error: None = None
    timings: None = None
    x_groq: None = None


Decoded = TypeVar("Decoded")

_decode_plain = msgspec.json.Decoder(_PlainEvent).decode


class ChatReader:
    """Folds the events of one answer; see `base.Reader`.

    Args:
        think_tags: on, prefilled, off, or auto: on when the answer itself says that a local server made it.
    """

    def __init__(self, place: Place, *, think_tags: str = "off") -> None:
        self.answer = Answer()
        self.ended = False
        self.error: RequestError | None = None
        self._place = place
        self._splitter: SseSplitter | LineSplitter = SseSplitter()
        self._calls = ToolCallPieces()
        self._auto_tags = think_tags == "auto"
        self._tags: TextSplitter | None = None
        if think_tags in ("on", "prefilled"):
            self._tags = ThinkTags(prefilled=think_tags == "prefilled")
        self._phase: Phase | None = None
        self._direct: list[str] | None = None
        """The channel, of `answer`, whose text needs no filter and begins no phase: the usual case, kept short."""
        self._halves = {"content": "", "reasoning": ""}
        """High surrogates whose second half comes with the next event."""
        self._fresh = True
        self._measured = [0, 0]
        self._length = 0

    def feed(self, data: bytes) -> list[Chunk]:
        """Read bytes of the stream."""
        chunks: list[Chunk] = []
        try:
            events = self._splitter.feed(data)
        except EventTooLong:
            self._stop(f"One event of the answer is longer than {MAX_EVENT // 2**20} MiB.")
            return chunks
        if events:
            self._events(events, chunks)
        return chunks

    def _events(self, events: Sequence[bytes], chunks: list[Chunk]) -> None:
        answer = self.answer
        if self._fresh:  # the first event names the model and the server
            self._fresh = False
            self._lenient(events[0], chunks)
            if self.ended or self.error:
                return
            events = events[1:]
        content, reasoning = answer.content, answer.reasoning
        for plain_event in self._usual(events, _decode_plain, chunks):
            delta = plain_event.choices[0].delta
            if thought := delta.reasoning_content or delta.reasoning:
                if self._direct is reasoning:
                    reasoning.append(thought)
                    chunks.append(Chunk("", thought))
                else:
                    self._progress(chunks, reasoning=thought)
            if text := delta.content:
                if self._direct is content:
                    content.append(text)
                    chunks.append(Chunk(text))
                else:
                    self._progress(chunks, content=text)

    def _usual(
        self, events: Sequence[bytes], decode: Callable[[bytes], Decoded], chunks: list[Chunk]
    ) -> Iterator[Decoded]:
        """The events that are pieces of text; all others are read leniently on the way, until the answer is over."""
        for event in events:
            if len(event) > 2 * MAX_DEPTH and self._excessive(event):
                return
            try:
                usual = decode(event)
            except (msgspec.MsgspecError, RecursionError):
                self._lenient(event, chunks)
                if self.ended or self.error:
                    return
                continue
            yield usual
        self._measure()

    def whole(self, body: bytes) -> list[Chunk]:
        """Read an answer that is one JSON document."""
        chunks: list[Chunk] = []
        if self._excessive(body):
            return chunks
        try:
            event = _json(body)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            self._malformed("a JSON object", body)
            return chunks
        self._event(event, chunks, whole=True)
        if not self.error and not self._is_answer(event):
            self._malformed("an answer with choices", body)
        self.ended = True
        self._finish(chunks)
        return chunks

    def _is_answer(self, event: Mapping[str, object]) -> bool:
        return bool(_choices(event))

    def close(self) -> list[Chunk]:
        """Give what was held back; sets `error` when the answer is not complete."""
        chunks: list[Chunk] = []
        if not (self.ended or self.error) and (events := self._splitter.close()):
            skipped = self.answer.skipped
            self._events(events, chunks)
            if not (self.ended or self.answer.finish) and self.answer.skipped > skipped:
                self.answer.skipped -= 1  # the event that was cut is missing, not malformed
        self._finish(chunks)
        return chunks

    def _finish(self, chunks: list[Chunk]) -> None:
        answer = self.answer
        if self._tags:
            thought, text = self._tags.close()
            self._tags = None
            self._progress(chunks, reasoning=thought, content=text)
        for channel, half in self._halves.items():
            if half:
                self._halves[channel] = ""
                self._progress(chunks, **{channel: "\ufffd"})
        for parts in (answer.content, answer.reasoning):
            parts[:] = ["".join(parts)] if parts else []  # one text, not a copy for each who asks
        answer.calls, nameless = self._calls.calls()
        answer.kept = self._calls.extras() if answer.calls else ()
        answer.skipped += nameless
        if self.error:
            return
        if not (self.ended or answer.finish):
            self.error = AnswerIncomplete(
                f"The answer of {self._place.host} ended before its end was announced.",
                hint="The connection or the server broke off; try again.",
                facts=self._place.facts(),
            )
        elif answer.finish in ("error", "insufficient_system_resource"):
            self.error = ServerError(
                f"{self._place.host} ended the answer with the reason {answer.finish!r}.",
                hint="Try again; if it stays, the server's own log says more.",
                facts=self._place.facts(),
                status=200,
            )

    def _lenient(self, data: bytes, chunks: list[Chunk]) -> None:
        """Read an event of any shape; skip and count what is no JSON object."""
        if data.strip() == b"[DONE]":
            self.ended = True
            return
        if self._excessive(data):
            return
        try:
            event = _json(data)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            self._event(event, chunks)
            return
        lines = data.split(b"\n")
        if event is None and len(lines) > 1:  # some servers omit the blank lines between events
            for line in lines:
                if not (self.ended or self.error):
                    self._lenient(line, chunks)
            return
        self.answer.skipped += 1
        log.debug("malformed event from %s: %s", self._place.host, self._place.clean(plain(data)))
        if self.answer.skipped > MAX_SKIPPED:
            self._malformed(
                "JSON objects in UTF-8", data, f"More than {MAX_SKIPPED} events of the answer are malformed."
            )

    def _event(self, event: dict[str, object], chunks: list[Chunk], *, whole: bool = False) -> None:
        answer = self.answer
        answer.model = answer.model or text_of(event.get("model"))
        if self._auto_tags:
            self._auto_tags = False
            if LOCAL_FINGERPRINT.fullmatch(str(event.get("system_fingerprint"))):
                self._tags = ThinkTags()
        groq = event.get("x_groq")
        for usage in (event.get("usage"), groq.get("usage") if isinstance(groq, dict) else None):
            if isinstance(usage, dict):
                answer.usage = usage
        if isinstance(timings := event.get("timings"), dict):
            answer.timings = timings
        for choice in _choices(event):
            if choice.get("index") in (0, None):
                self._choice(choice, chunks, whole=whole)
        error = event.get("error")
        if error is None and isinstance(groq, dict):
            error = groq.get("error")
        if error is not None:
            self.error = object_error(error, self._place)

    def _choice(self, choice: dict[str, object], chunks: list[Chunk], *, whole: bool) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message")
        if isinstance(delta, dict):
            thought, text = _texts(delta.get("content"))
            if isinstance(refusal := delta.get("refusal"), str):
                self.answer.refusal += _replaced(refusal)
            self._progress(chunks, reasoning=_reasoning(delta) or thought, content=text)
            self._tool_calls(delta, whole=whole)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self.answer.finish = finish

    def _tool_calls(self, delta: dict[str, object], *, whole: bool) -> None:
        pieces = delta.get("tool_calls")
        for place, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            if isinstance(piece, dict):
                self._calls.add(piece, place if whole else None)
                self.answer.pieces += 1
        if isinstance(call := delta.get("function_call"), dict):
            self._calls.add({"function": call}, 0)
            self.answer.pieces += 1

    def _progress(self, chunks: list[Chunk], *, content: str = "", reasoning: str = "") -> None:
        """Give out text through the filters, with the phases it begins."""
        content = self._joined("content", content)
        reasoning = self._joined("reasoning", reasoning)
        if self._tags and content:
            thought, content = self._tags.feed(content)
            reasoning += thought
            self.answer.pieces += 1  # also while a tag may be beginning
            if self._tags.passed:
                self._tags = None
        answer = self.answer
        if reasoning:
            if self._phase is None:
                self._phase = Phase.THINKING
                chunks.append(Chunk(phase=Phase.THINKING))
            answer.reasoning.append(reasoning)
            chunks.append(Chunk(reasoning=reasoning))
        if content:
            if self._phase is not Phase.ANSWERING:
                self._phase = Phase.ANSWERING
                chunks.append(Chunk(phase=Phase.ANSWERING))
            answer.content.append(content)
            chunks.append(Chunk(content))
        if self._halves["content"] or self._halves["reasoning"]:
            self._direct = None
        elif self._phase is Phase.ANSWERING:
            self._direct = None if self._tags else answer.content
        elif self._phase is Phase.THINKING:
            self._direct = answer.reasoning

    def _joined(self, channel: str, text: str) -> str:
        """Join surrogate halves that came in two events, replace those without partner."""
        if not text:
            return text
        if (half := self._halves[channel]) or not text.isascii():
            text = half + text
            self._halves[channel] = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
            text = _replaced(text[:-1] if self._halves[channel] else text)
        return text

    def _measure(self) -> None:
        """Add up the text that came since the last time."""
        for number, parts in enumerate((self.answer.content, self.answer.reasoning)):
            if len(parts) > self._measured[number]:
                self._length += size("".join(parts[self._measured[number] :]))
                self._measured[number] = len(parts)
        if self._length + self._calls.size + size(self.answer.refusal) > MAX_TEXT:
            self._stop(f"The answer is longer than {MAX_TEXT // 2**20} MiB.")

    def _excessive(self, data: bytes) -> bool:
        """Whether the JSON is nested too deep or has an endless number; then the answer stops."""
        if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _too_deep(data):
            self._stop(f"The answer holds JSON nested deeper than {MAX_DEPTH} levels.")
        elif _LONG_NUMBER.search(data) and _LONG_NUMBER.search(_STRINGS.sub(b"", data)):
            self._stop(f"The answer holds a number of more than {MAX_DIGITS} digits.")
        return self.error is not None

    def _malformed(self, expected: str, data: bytes, message: str = "") -> None:
        excerpt = plain(data)
        self._stop(message or f"{self._place.host} answered with something else than {expected}.", expected, excerpt)

    def _stop(self, message: str, expected: str = "", excerpt: str = "") -> None:
        self.error = ProtocolError(
            message,
            hint="The server does not keep to the protocol; check the url of the profile and the server's version.",
            facts=self._place.facts(expected=expected, excerpt=excerpt),
        )


def _json(data: bytes) -> object:
    """Standard JSON, but NaN, lone surrogates, big numbers and raw control characters are read."""
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError:
        pass
    return json.loads(data.decode("utf-8").removeprefix("\ufeff"), strict=False)


def _too_deep(data: bytes) -> bool:
    """Whether brackets outside strings are nested deeper than MAX_DEPTH: each round removes the innermost pairs."""
    brackets = _STRINGS.sub(b"", data).translate(_SQUARE, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        outer = brackets.replace(b"[]", b"")
        if len(outer) == len(brackets):
            return outer.count(b"[") > MAX_DEPTH
        brackets = outer
    return bool(brackets)


def _choices(event: Mapping[str, object]) -> list[dict[str, object]]:
    return objects_of(event.get("choices"))


def _texts(content: object) -> tuple[str, str]:
    """(reasoning, text) of a content that is a text or a list of parts."""
    if isinstance(content, str):
        return "", content
    thoughts, texts = [], []
    for part in objects_of(content):
        texts.append(text_of(part.get("text")))
        thinking = part.get("thinking")
        thoughts.append(thinking if isinstance(thinking, str) else _texts(thinking)[1])
    return "".join(thoughts), "".join(texts)


def _reasoning(delta: Mapping[str, object]) -> str:
    """The first of the channels that has something; the others repeat it."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(text := delta.get(name), str) and text:
            return text
    parts = objects_of(delta.get("reasoning_details"))
    return "".join(text for part in parts if isinstance(text := part.get("text") or part.get("summary"), str))


def _replaced(text: str) -> str:
    """The text with surrogate pairs joined and halves without partner as U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
