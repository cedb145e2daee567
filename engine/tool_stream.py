"""A completion with tools: called natively, or in fenced JSON where the profile says so or the server takes none."""

import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import msgspec

from engine.clients.base import ChatRequest
from engine.clients.tool_calls import new_call_id
from engine.completion import Chunk, Completion, FinishReason, ShortenedNotice, Stream
from engine.content import RawTextPart
from engine.conversation import ToolCall, ToolChoice, ToolUse
from engine.errors import RequestRejected
from engine.interceptors import current_run
from engine.run_prompts import TOOL_FORMAT, RunPrompts, current_prompts
from engine.stream_layer import StreamLayer
from engine.struct_parse import LiveText, described, struct_parse, turn_places

REMEMBERED = 1000
"""Runs of which it is known that their server takes no tools."""

_NAMES_TOOLS = re.compile(r"\btools?\b|\btool_choice\b|function.?call", re.IGNORECASE)

Open = Callable[[ChatRequest], Awaitable[AbstractAsyncContextManager[Stream]]]


class Refusals:
    """Which runs met a server that takes no tools, so that it is asked only once."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def add(self, request: ChatRequest) -> None:
        """Remember a refusal for the rest of the run."""
        if run_id := current_run.get():
            self._runs[run_id, request.profile.url, request.profile.model] = None
            if len(self._runs) > REMEMBERED:
                self._runs.popitem(last=False)

    def has(self, request: ChatRequest) -> bool:
        """Whether this run has met one."""
        return (current_run.get(), request.profile.url, request.profile.model) in self._runs


class ToolStream(StreamLayer):
    """A completion whose request offers tools.

    `open_stream` asks for one as it stands, `prompts` gives the prompts for requests outside of runs.
    """

    def __init__(
        self, request: ChatRequest, open_stream: Open, refusals: Refusals, prompts: Callable[[], RunPrompts]
    ) -> None:
        super().__init__()
        self._prompts = prompts
        self._request = request
        self._open = open_stream
        self._refusals = refusals
        self._notes: list[str] = []
        self._fenced = False

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although the answer came."""
        return (*self._notes, *super().warnings)

    @property
    def so_far(self) -> Completion:
        """What has arrived; of an answer with calls in its text only what is shown."""
        arrived = super().so_far
        if not self._fenced or self._completion is not None or self._request.tools is None:
            return arrived
        return replace(arrived, content=struct_parse(arrived.content, self._request.tools.tools).content)

    async def _run(self) -> AsyncGenerator[Chunk, None]:
        request, choice = self._request, self._request.tools
        assert choice is not None  # noqa: S101 - the pipeline looked
        native = request.profile.options.function_call_type != "struct_parse" and not self._refusals.has(request)
        if native:
            try:
                async with await self._open(request) as self._inner:
                    async for chunk in self._inner:
                        yield chunk
                    self._completion = self._inner.completion
                    return
            except RequestRejected as error:
                if error.status not in (400, 422) or not _NAMES_TOOLS.search(_words(error)):
                    raise
            self._refusals.add(request)
            self._notes.append(
                "The server takes no tools: they are described in the prompt instead. "
                f"functionCallType=struct_parse in the profile {request.profile.name} avoids the detour."
            )
        self._fenced = True
        asked = replace(request, conversation=described(request.conversation, choice, self._format()), tools=None)
        live = LiveText()
        async with await self._open(asked) as self._inner:
            async for chunk in self._inner:
                if chunk.shortened is not None:
                    chunk = _with_places(chunk, chunk.shortened, turn_places(request.conversation))
                if chunk.content:
                    shown = live.feed(chunk.content)
                    if shown != chunk.content:
                        chunk = msgspec.structs.replace(chunk, content=shown)
                if chunk != _NOTHING:
                    yield chunk
            done = _taken_apart(self._inner.completion, choice)
        if rest := live.close(done.content):
            yield Chunk(content=rest)
        self._completion = done

    def _format(self) -> str:
        """How calls are written: what the run began with, else what holds now."""
        return (current_prompts.get() or self._prompts()).text(TOOL_FORMAT)


_NOTHING = Chunk()


def _with_places(chunk: Chunk, cut: ShortenedNotice, places: Sequence[Sequence[int]]) -> Chunk:
    """The notice with the places of the turns as they were before results became one turn."""
    dropped = tuple(place for number in cut.dropped for place in places[number])
    shrunk = tuple(place for number in cut.shrunk for place in places[number])
    return msgspec.structs.replace(chunk, shortened=msgspec.structs.replace(cut, dropped=dropped, shrunk=shrunk))


def _words(error: RequestRejected) -> str:
    return f"{error.message} {error.facts.get('parameter', '')}"


def _taken_apart(completion: Completion, choice: ToolChoice) -> Completion:
    """The answer with its calls, its text without them."""
    if choice.use is ToolUse.NONE and not choice.forced:
        return completion
    found = struct_parse(completion.content, choice.tools)
    if not found.calls and not found.errors:
        return completion
    calls = tuple(ToolCall(id=new_call_id(), name=call.name, arguments=call.text) for call in found.calls)
    return replace(
        completion,
        content=found.content,
        tool_calls=calls,
        finish_reason=FinishReason.TOOL_CALLS if calls else completion.finish_reason,
        kept=(RawTextPart(text=completion.content),),
        call_errors=tuple(error.correction for error in found.errors),
    )
