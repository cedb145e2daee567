"""Reads answers of `/api/chat`: one JSON object a line. Source: Ollama API documentation."""

from collections.abc import Mapping, Sequence

import msgspec

from engine.clients.chat_reader import ChatReader
from engine.clients.failures import Place, object_error
from engine.clients.json_parts import objects_of, text_of
from engine.clients.sse import LineSplitter
from engine.completion import Chunk


class _PlainMessage(msgspec.Struct, gc=False):
    content: str = ""
    thinking: str = ""
    tool_calls: None = None


class _PlainLine(msgspec.Struct, gc=False):
    """Nearly every line: a piece of text. All others fail here and are read leniently."""

    message: _PlainMessage
    model: str = ""
    error: None = None
    done: bool | None = None


_decode_plain = msgspec.json.Decoder(_PlainLine).decode


class OllamaReader(ChatReader):
    """Folds the lines of one answer; see `base.Reader`."""

    def __init__(self, place: Place, *, think_tags: str = "off") -> None:
        super().__init__(place, think_tags=think_tags)
        self._splitter = LineSplitter()
        self._count = 0

    def _events(self, events: Sequence[bytes], chunks: list[Chunk]) -> None:
        answer = self.answer
        content, reasoning = answer.content, answer.reasoning
        for line in self._usual(events, _piece, chunks):
            if not answer.model:
                answer.model = line.model
            if thought := line.message.thinking:
                if self._direct is reasoning:
                    reasoning.append(thought)
                    chunks.append(Chunk("", thought))
                else:
                    self._progress(chunks, reasoning=thought)
            if text := line.message.content:
                if self._direct is content:
                    content.append(text)
                    chunks.append(Chunk(text))
                else:
                    self._progress(chunks, content=text)

    def whole(self, body: bytes) -> list[Chunk]:
        """Read an answer that is one JSON document, or lines that are called one."""
        if len(_lines(body)) > 1:
            return [*self.feed(body), *self.close()]
        return super().whole(body)

    def _event(self, event: dict[str, object], chunks: list[Chunk], *, whole: bool = False) -> None:
        answer = self.answer
        answer.model = answer.model or text_of(event.get("model"))
        if isinstance(message := event.get("message"), dict):
            self._progress(chunks, reasoning=text_of(message.get("thinking")), content=text_of(message.get("content")))
            for call in objects_of(message.get("tool_calls")):
                # Calls come whole, each with a place of its own.
                self._calls.add({"id": call.get("id"), "function": call.get("function")}, self._count)
                self._count += 1
                answer.pieces += 1
        if event.get("done") is True:
            self._done(event)
        if error := event.get("error"):
            self.error = object_error(error, self._place)

    def _is_answer(self, event: Mapping[str, object]) -> bool:
        return isinstance(event.get("message"), dict)

    def _done(self, event: Mapping[str, object]) -> None:
        answer = self.answer
        answer.finish = text_of(event.get("done_reason")) or "stop"
        counts = {"prompt_tokens": event.get("prompt_eval_count"), "completion_tokens": event.get("eval_count")}
        answer.usage = {name: count for name, count in counts.items() if count is not None} or None
        # In the words of llama.cpp; the only counts when the server had the whole prompt in its cache.
        answer.timings = {
            "prompt_n": event.get("prompt_eval_count"),
            "prompt_ms": _milliseconds(event.get("prompt_eval_duration")),
            "predicted_n": event.get("eval_count"),
            "predicted_ms": _milliseconds(event.get("eval_duration")),
            "load_ms": _milliseconds(event.get("load_duration")),
        }
        if (total := _milliseconds(event.get("total_duration"))) > 0:
            answer.seconds = total / 1000
        self.ended = True


def _piece(event: bytes) -> _PlainLine:
    line = _decode_plain(event)
    if line.done:
        raise msgspec.ValidationError("the last line")
    return line


def _lines(body: bytes) -> list[bytes]:
    """The lines, when each is an object of its own."""
    lines = [line.strip() for line in body.split(b"\n") if line.strip()]
    return lines if all(line.startswith(b"{") and line.endswith(b"}") for line in lines) else []


def _milliseconds(nanoseconds: object) -> float:
    known = isinstance(nanoseconds, int | float) and not isinstance(nanoseconds, bool) and nanoseconds > 0
    return float(nanoseconds) / 1e6 if known else 0.0  # type: ignore[arg-type]
