"""What an answer with a status other than 200 becomes, and how often it is asked for."""

import asyncio
from typing import Any

import pytest

from engine.clients.recovery import Requests
from engine.completion import Phase, RetryNotice
from engine.errors import (
    AuthenticationFailed,
    ContentFiltered,
    ContextTooLong,
    RateLimited,
    RequestError,
    RequestRejected,
    ServerError,
)
from tests.helpers.asking import ask, bodies, profile_for, requests, stream_of
from tests.helpers.fake_server import Answer, FakeServer, chat, failure

ONCE, REPEATED = 1, 3
TABLE: list[tuple[int, type[RequestError], int]] = [
    (300, ServerError, ONCE),
    (400, RequestRejected, ONCE),
    (401, AuthenticationFailed, ONCE),
    (402, RequestRejected, ONCE),
    (403, AuthenticationFailed, ONCE),
    (404, RequestRejected, ONCE),
    (405, RequestRejected, ONCE),
    (406, RequestRejected, ONCE),
    (407, RequestRejected, ONCE),
    (408, RequestRejected, REPEATED),
    (409, RequestRejected, REPEATED),
    (410, RequestRejected, ONCE),
    (411, RequestRejected, ONCE),
    (412, RequestRejected, ONCE),
    (413, RequestRejected, ONCE),
    (414, RequestRejected, ONCE),
    (415, RequestRejected, ONCE),
    (416, RequestRejected, ONCE),
    (417, RequestRejected, ONCE),
    (418, RequestRejected, ONCE),
    (421, RequestRejected, ONCE),
    (422, RequestRejected, ONCE),
    (423, RequestRejected, ONCE),
    (424, RequestRejected, ONCE),
    (425, RequestRejected, REPEATED),
    (426, RequestRejected, ONCE),
    (428, RequestRejected, ONCE),
    (429, RateLimited, REPEATED),
    (431, RequestRejected, ONCE),
    (451, RequestRejected, ONCE),
    (499, RequestRejected, ONCE),
    (500, ServerError, REPEATED),
    (501, ServerError, ONCE),
    (502, ServerError, REPEATED),
    (503, ServerError, REPEATED),
    (504, ServerError, REPEATED),
    (505, ServerError, ONCE),
    (507, ServerError, ONCE),
    (520, ServerError, ONCE),
    (529, ServerError, REPEATED),
]


@pytest.mark.parametrize(("status", "kind", "requests"), TABLE)
async def test_status(status: int, kind: type[RequestError], requests: int) -> None:
    with FakeServer(failure(status, "the reason")) as server:
        outcome = await ask(profile_for(server.url))
    assert type(outcome.failure) is kind
    assert outcome.failure.facts["status"] == str(status)
    assert len(server.requests) == requests
    assert len(outcome.waits) == requests - 1
    if status >= 400:
        assert "the reason" in str(outcome.failure)


async def test_the_delays_double_and_have_jitter() -> None:
    with FakeServer(failure(503), failure(503), chat("ok")) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.waits == [0.5, 1.0]  # the shortest: half of 1 s and of 2 s
    assert [(notice.attempt, notice.attempts, notice.delay) for notice in outcome.retries] == [(2, 3, 0.5), (3, 3, 1.0)]
    assert "failed (503)" in outcome.retries[0].reason
    assert outcome.done.content == "ok"
    assert outcome.done.statistics.requests == 1
    first, second, third = server.requests
    assert first.body == second.body == third.body


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "2.5"}, 2.5),
        ({"Retry-After-Ms": "1500"}, 1.5),
        ({"Retry-After": "7", "Retry-After-Ms": "250"}, 0.25),
        ({"Retry-After": "Mon, 06 Oct 2025 10:00:20 GMT", "Date": "Mon, 06 Oct 2025 10:00:00 GMT"}, 20.0),
        ({"Retry-After": "Mon, 06 Oct 2025 09:00:00 GMT", "Date": "Mon, 06 Oct 2025 10:00:00 GMT"}, 0.0),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "NaN"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
    ],
)
async def test_retry_after(headers: dict[str, str], wait: float | None) -> None:
    with FakeServer(failure(429, headers=headers), chat("ok")) as server:
        outcome = await ask(profile_for(server.url))
    assert outcome.done.content == "ok"
    # Who takes no more requests and does not say how long is left alone for 5 s.
    assert [notice.delay for notice in outcome.retries] == [5.0 if wait is None else wait]
    assert outcome.waits == ([wait] if wait else [] if wait == 0 else [5.0])


async def test_a_wait_can_be_cancelled() -> None:
    waiting = asyncio.Event()

    async def wait(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    with FakeServer(failure(429, headers={"Retry-After": "50"}), chat("ok")) as server:
        async with requests() as other:
            sender = Requests(other.transport, sleep=wait)

            async def consume() -> list[RetryNotice]:
                async with stream_of(sender, profile_for(server.url)) as stream:
                    return [chunk.retry async for chunk in stream if chunk.retry]

            task = asyncio.create_task(consume())
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert len(server.requests) == 1


async def test_a_longer_wait_fails_at_once_and_says_how_long() -> None:
    with FakeServer(failure(429, headers={"Retry-After": "120"})) as server:
        outcome = await ask(profile_for(server.url))
    assert isinstance(outcome.failure, RateLimited)
    assert outcome.failure.retry_after == 120
    assert "120 seconds" in outcome.failure.hint
    assert len(server.requests) == 1


async def test_a_longer_wait_after_another_status_says_so_too() -> None:
    with FakeServer(failure(503, headers={"Retry-After": "3600"})) as server:
        outcome = await ask(profile_for(server.url))
    assert "wait 3600 seconds" in outcome.failure.hint
    assert len(server.requests) == 1


async def test_a_used_up_quota_is_not_asked_again() -> None:
    with FakeServer(failure(429, code="insufficient_quota")) as server:
        outcome = await ask(profile_for(server.url))
    assert isinstance(outcome.failure, RateLimited)
    assert outcome.failure.quota
    assert not outcome.failure.retryable
    assert len(server.requests) == 1


async def test_loading_is_a_phase_not_a_failed_attempt() -> None:
    loading = failure(503, "Loading model", type="unavailable_error")
    with FakeServer(*[loading] * 5, chat("ok")) as server:
        outcome = await ask(profile_for(server.url, max_retries=0))
    assert outcome.done.content == "ok"
    assert outcome.waits == [1.0] * 5
    assert outcome.phases == [Phase.CONNECTING, Phase.READING_PROMPT, Phase.LOADING_MODEL, Phase.ANSWERING]
    assert outcome.retries == []


async def test_loading_ends_with_the_first_token_limit() -> None:
    with FakeServer(failure(503, "Loading model")) as server:
        outcome = await ask(profile_for(server.url, max_retries=0, first_token_timeout=0.5))
    assert isinstance(outcome.failure, ServerError)
    assert outcome.failure.loading


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"code": "context_length_exceeded"}, ContextTooLong),
        ({"type": "exceed_context_size_error"}, ContextTooLong),
        ({"message": "the request exceeds the available context size"}, ContextTooLong),
        ({"message": "prompt is too long: 9000 tokens"}, ContextTooLong),
        ({"code": "content_filter"}, ContentFiltered),
        ({"message": "Unknown model", "param": "model"}, RequestRejected),
    ],
)
async def test_what_a_400_may_mean(members: dict[str, Any], kind: type[RequestError]) -> None:
    with FakeServer(failure(400, **{"message": "bad", **members})) as server:
        outcome = await ask(profile_for(server.url))
    assert type(outcome.failure) is kind
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":"just a text"}', "just a text"),
        (b'{"object":"error","message":"flat"}', "flat"),
        (b'{"detail":"from a framework"}', "from a framework"),
        (b"<html><head><style>x{}</style></head><body><h1>Bad &amp; gateway</h1></body>", "Bad & gateway"),
        (b"plain words", "plain words"),
        (b"\xff\xfe broken", "broken"),
        (b"[" * 5000, "[[["),
    ],
)
async def test_error_bodies_of_all_kinds(body: bytes, message: str) -> None:
    with FakeServer(Answer(status=500, headers={}, pieces=[body], framing="length")) as server:
        outcome = await ask(profile_for(server.url, max_retries=0))
    assert message in str(outcome.failure)


async def test_an_error_body_is_read_to_its_limit_only() -> None:
    with FakeServer(Answer(status=500, headers={}, pieces=[b"x" * 65536] * 400, framing="chunked")) as server:
        outcome = await ask(profile_for(server.url, max_retries=0))
        assert len(str(outcome.failure)) < 400
        assert server.hung_up.wait(10)


async def test_a_key_echoed_by_the_server_is_masked() -> None:
    with FakeServer(failure(401, "wrong key secret-key-0123")) as server:
        outcome = await ask(profile_for(server.url))
    assert "wrong key ***" in str(outcome.failure)


@pytest.mark.parametrize(
    ("refused", "options", "sent"),
    [
        ("stream_options", {}, {"stream_options": None}),
        ("max_tokens", {}, {"max_tokens": None, "max_completion_tokens": 1024}),
        ("max_completion_tokens", {"max_tokens_param": "max_completion_tokens"}, {"max_tokens": 1024}),
        ("temperature", {}, {"temperature": None}),
        ("response_format", {"ext_params": {"response_format": {"type": "json_object"}}}, {"response_format": None}),
    ],
)
async def test_a_refused_parameter_is_left_out_or_renamed(
    refused: str, options: dict[str, Any], sent: dict[str, Any]
) -> None:
    with FakeServer(failure(400, f"Unsupported parameter: '{refused}'", param=refused), chat("ok")) as server:
        outcome = await ask(profile_for(server.url, max_retries=0, **options))
    assert outcome.done.content == "ok"
    assert outcome.waits == []
    first, second = bodies(server.requests)
    assert refused in first
    assert {key: second.get(key) for key in sent} == sent
    assert refused in outcome.warnings[0]


async def test_a_parameter_refused_twice_fails() -> None:
    with FakeServer(failure(400, "temperature is not supported")) as server:
        outcome = await ask(profile_for(server.url))
    assert isinstance(outcome.failure, RequestRejected)
    assert len(server.requests) == 2
