"""Asks a fake server through the product's client and keeps everything that came of it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from engine.clients import client_for
from engine.clients.base import ChatRequest
from engine.clients.recovery import CompletionStream, Requests
from engine.clients.transport import Transport
from engine.completion import Chunk, Completion, Phase, RetryNotice
from engine.conversation import Conversation, ToolChoice
from engine.errors import RequestError
from engine.profile import ModelProfile, Overrides, ProfileOptions, Provider

HEADERS = {
    "user-agent": "flow-workbench",
    "accept": "text/event-stream, application/json",
    "accept-encoding": "identity",
    "content-type": "application/json",
}
"""What every request of a streamed answer says beside its key."""


def profile_for(url: str, **options: Any) -> ModelProfile:
    """A chat profile; options are the fields of ProfileOptions, `model` and `api_key` those of the profile."""
    model, key = options.pop("model", "m"), options.pop("api_key", "secret-key-0123")
    return ModelProfile(
        name="tested",
        category="M",
        provider=Provider.OPENAI_CHAT,
        model=model,
        url=url,
        api_key=key,
        options=ProfileOptions(**options),
    )


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def words(text: str) -> int:
    """A token count a person can check."""
    return len(text.split())


@dataclass
class Outcome:
    """What one request came to."""

    chunks: list[Chunk] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """Seconds it wanted to wait; the test does not."""
    completion: Completion | None = None
    error: RequestError | None = None
    so_far: Completion | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(chunk.content for chunk in self.chunks)

    @property
    def reasoning(self) -> str:
        return "".join(chunk.reasoning for chunk in self.chunks)

    @property
    def phases(self) -> list[Phase]:
        return [chunk.phase for chunk in self.chunks if chunk.phase]

    @property
    def retries(self) -> list[RetryNotice]:
        return [chunk.retry for chunk in self.chunks if chunk.retry]

    @property
    def done(self) -> Completion:
        assert self.completion is not None, self.error
        return self.completion

    @property
    def failure(self) -> RequestError:
        assert self.error is not None, self.completion
        assert self.error.hint, "an error says what to do"
        assert self.error.facts["profile"] == "tested"
        assert "secret-key" not in f"{self.error} {self.error.hint} {self.error.facts}"
        return self.error


@asynccontextmanager
async def requests(*, offline: bool = False, waits: list[float] | None = None) -> AsyncIterator[Requests]:
    """Requests on a clock that goes on only while they wait, which they do not really; on a transport of their own."""
    noted = [] if waits is None else waits
    now = 1000.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        noted.append(seconds)
        now += seconds
        await asyncio.sleep(0)

    transport = Transport(offline=offline)
    try:
        yield Requests(transport, sleep=sleep, chance=lambda: 0.0, clock=lambda: now)
    finally:
        await transport.aclose()


def stream_of(
    sender: Requests, profile: ModelProfile, prompt: str = "hi", overrides: Overrides | None = None
) -> CompletionStream:
    """A stream that asks the prompt."""
    request = ChatRequest.create(profile, Conversation.create("", prompt), overrides)
    return sender.stream(client_for(profile), request, count=words)


async def ask(profile: ModelProfile, *, offline: bool = False, overrides: Overrides | None = None) -> Outcome:
    """Ask once, to the end."""
    outcome = Outcome()
    async with (
        requests(offline=offline, waits=outcome.waits) as sender,
        stream_of(sender, profile, overrides=overrides) as stream,
    ):
        try:
            async for chunk in stream:
                outcome.chunks.append(chunk)
            outcome.completion = stream.completion
        except RequestError as error:
            outcome.error = error
        outcome.so_far = stream.so_far
        outcome.warnings = stream.warnings
    return outcome


async def converse(
    asked: ModelProfile, conversation: Conversation, tools: ToolChoice | None = None, **overrides: Any
) -> Outcome:
    """Ask a conversation, to the end; raises what the request raises."""
    outcome = Outcome()
    async with requests() as sender:
        request = ChatRequest.create(asked, conversation, overrides, tools)
        async with sender.stream(client_for(asked), request, count=words) as stream:
            outcome.chunks = [chunk async for chunk in stream]
            outcome.completion, outcome.warnings = stream.completion, stream.warnings
    return outcome


def bodies(received: Sequence[Any]) -> list[Any]:
    """The JSON of requests."""
    return [request.json() for request in received]
