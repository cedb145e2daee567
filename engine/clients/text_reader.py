"""Reads answers of `/v1/completions`, also in the older shape of llama.cpp (`content` and `stopped_eos`).

Sources: OpenAI API reference, Completions; llama.cpp server, `/completion`.
"""

from collections.abc import Mapping

from engine.clients.chat_reader import ChatReader
from engine.clients.failures import Place
from engine.completion import Chunk
from engine.raw_answer import RawAnswer


class TextReader(ChatReader):
    """Folds the events of one raw answer; `splitter` separates reasoning from content."""

    def __init__(self, place: Place, splitter: RawAnswer) -> None:
        super().__init__(place)
        self._splitter_of_text = self._tags = splitter

    def _is_answer(self, event: Mapping[str, object]) -> bool:
        return isinstance(event.get("content"), str) or super()._is_answer(event)

    def _event(self, event: dict[str, object], chunks: list[Chunk], *, whole: bool = False) -> None:
        super()._event(event, chunks, whole=whole)
        if "choices" not in event and isinstance(text := event.get("content"), str):
            self._progress(chunks, content=text)
            if whole or event.get("stop") or ("stopped_eos" in event and "stop" not in event):
                self.answer.finish = _finish(event)
                self.answer.usage = self.answer.usage or _usage(event)

    def _choice(self, choice: dict[str, object], chunks: list[Chunk], *, whole: bool) -> None:
        super()._choice(choice, chunks, whole=whole)
        if isinstance(text := choice.get("text"), str):
            self._progress(chunks, content=text)

    def _finish(self, chunks: list[Chunk]) -> None:
        splitter, answer = self._splitter_of_text, self.answer
        splitter.cut_off = bool(self.error) or not (self.ended or answer.finish) or answer.finish == "length"
        super()._finish(chunks)
        if splitter.moved:
            answer.reasoning.clear()


def _finish(event: Mapping[str, object]) -> str:
    """Why llama.cpp stopped, in the words of completions."""
    if "stop_type" in event:
        return "length" if event["stop_type"] == "limit" else "stop"
    if event.get("stopped_eos") is False and not event.get("stopped_word"):
        return "length"
    return "stop"


def _usage(event: Mapping[str, object]) -> Mapping[str, object] | None:
    """The counts of llama.cpp's own interface as `usage`."""
    if "tokens_evaluated" not in event:
        return None
    return {"prompt_tokens": event["tokens_evaluated"], "completion_tokens": event.get("tokens_predicted")}
