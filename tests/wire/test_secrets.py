"""Keys go to their own server only, and nowhere else whatever fails."""

import io
import json
import logging
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import quote

import pytest

from engine import Engine, ProfileStore, ToolCall
from engine.conversation import Conversation, ToolDefinition
from engine.errors import EngineError, RequestError
from engine.flow.tools import Tool, refuse, run_tool
from engine.profile import ModelProfile, Provider
from engine.redaction import SECRETS, RedactingFilter
from tests.helpers.asking import converse, free_port, profile_for
from tests.helpers.fake_server import DONE, Answer, FakeServer, delta, event, failure, json_answer

CANARY = "canary0123456789abcdefABCDEF"
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "cookie", "proxy-authorization")
SPOKEN = [provider for provider in Provider if provider != Provider.SCRIPTED]


@pytest.mark.parametrize("provider", SPOKEN)
async def test_a_profile_without_a_key_sends_none_whatever_was_used_before(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI", "ANTHROPIC", "AZURE_OPENAI", "OPENROUTER", "OLLAMA", "LLAMA", "VLLM"):
        monkeypatch.setenv(f"{name}_API_KEY", CANARY)
    with FakeServer(failure(400)) as first, FakeServer(failure(400)) as second:
        with_key = replace(
            profile_for(first.url, api_key=CANARY, headers={"X-Own": CANARY}, max_retries=0),
            provider=provider,
            prompt_strategy="chatml",
        )
        without = replace(with_key, name="other", url=second.url, api_key="")
        without = replace(without, options=replace(without.options, headers={}))
        store = ProfileStore()
        async with Engine(profiles=store) as engine:
            for asked in (with_key, without, with_key, without):
                with pytest.raises(EngineError):
                    await engine.complete(asked, "hi")
    assert all(CANARY in json.dumps(request.headers) for request in first.requests)
    seen = [*second.requests, *second.gets]
    assert len(second.requests) == 2
    assert [name for request in seen for name in KEY_HEADERS if name in request.headers] == []
    assert CANARY not in "".join(f"{request.path} {request.headers} {request.body!r}" for request in seen)


def echoed(status: int, **more: str) -> Callable[[str], Answer]:
    return lambda secret: failure(status, f"no: {secret} is wrong", **more)


def in_stream(secret: str) -> Answer:
    return Answer(pieces=[delta("some"), event({"error": {"message": f"lost {secret}"}})])


def malformed(secret: str) -> Answer:
    return Answer(pieces=[f"data: {secret}\n\n".encode() * 30, DONE])


def page(secret: str) -> Answer:
    return Answer(headers={"Content-Type": "text/html"}, pieces=[f"<html><p>{secret}".encode()])


def moved(secret: str) -> Answer:
    return failure(307, headers={"Location": f"/elsewhere/{secret}"})


def told(body: object, status: int = 200) -> Callable[[str], Answer]:
    return lambda secret: json_answer(json.loads(json.dumps(body).replace("SECRET", secret)), status)


def odd_type(secret: str) -> Answer:
    return Answer(headers={"Content-Type": f"text/{secret}"}, pieces=[secret.encode()])


def encoded(secret: str) -> Answer:
    return Answer(headers={"Content-Type": "text/event-stream", "Content-Encoding": secret}, pieces=[b"x"])


def nonsense(secret: str) -> Answer:
    return Answer(raw=f"{secret}\r\n\r\n".encode())


FAILURES: dict[str, Callable[[str], Answer]] = {
    "401": echoed(401),
    "400": echoed(400, param="x"),
    "429": echoed(429),
    "503": echoed(503),
    "404": echoed(404),
    "422": told({"detail": [{"msg": "no SECRET"}]}, 422),
    "text": told({"error": "no SECRET"}, 500),
    "object": told({"object": "error", "message": "no SECRET"}, 502),
    "whole": told({"error": {"message": "no SECRET"}}),
    "no answer": told({"said": "SECRET"}),
    "in the stream": in_stream,
    "malformed": malformed,
    "a page": page,
    "moved": moved,
    "type": odd_type,
    "encoding": encoded,
    "no HTTP": nonsense,
}


def holder(place: str, url: str, secret: str) -> ModelProfile:
    """A profile with the secret in one place."""
    options = {"max_retries": 0, "first_token_timeout": 20.0}
    if place == "key":
        return profile_for(url, api_key=secret, **options)
    return profile_for(url, headers={"X-Own": secret}, **options)


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """All that is logged, as it would be written to a file."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    handler.addFilter(RedactingFilter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield log
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def found(secret: str, texts: Iterable[str]) -> list[str]:
    shapes = (secret.lower(), quote(secret).lower(), b64encode(secret.encode()).decode().lower())
    return [text for text in texts for shape in shapes if shape in text.lower()]


@pytest.mark.parametrize("place", ["key", "header"])
@pytest.mark.parametrize("name", [*FAILURES, "nobody there"])
async def test_no_failure_tells_a_secret(name: str, place: str) -> None:
    secret = f"Canary {name} {place} 0123".replace(" ", "-")
    with logged() as log:
        error = await failed(name, place, secret)
        logging.getLogger("engine").error("it failed", exc_info=error)
    assert "it failed" in log.getvalue()
    texts = [str(error), repr(error), error.hint, str(error.facts), str(error.attempts), log.getvalue()]
    # What the error says by itself, without any filter before it:
    texts += traceback.format_exception_only(error)
    assert found(secret, texts) == []


async def failed(name: str, place: str, secret: str) -> RequestError:
    answer = FAILURES.get(name, in_stream)(secret)
    with FakeServer(answer) as server:
        url = f"http://127.0.0.1:{free_port()}" if name == "nobody there" else server.url
        with pytest.raises(RequestError) as caught:
            await converse(holder(place, url, secret), Conversation.create("", "hi"))
    return caught.value


async def test_a_tool_that_fails_tells_no_secret_either() -> None:
    secret = "canary-of-a-tool-0123"
    SECRETS.add([secret])

    def broken(text: str) -> str:
        raise RuntimeError(f"{text} and {secret} are wrong")

    tool = Tool(definition=ToolDefinition.of_texts("broken", "Fails.", {"text": "Any"}), function=broken)
    with logged() as log:
        call = ToolCall(id="1", name="broken", arguments=json.dumps({"text": f"Bearer {secret}"}))
        outcome = await run_tool(tool, call, refuse)
        logging.getLogger("engine").warning("called with %s", call.arguments)
    assert outcome.failed
    assert "are wrong" in outcome.output
    assert found(secret, [outcome.output, log.getvalue()]) == []
