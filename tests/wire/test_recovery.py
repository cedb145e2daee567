"""Failover, breaker and balance over real sockets: nothing is lost, no finished answer comes twice."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from engine import Agent, AgentType, Context, Engine, Flow, Next
from engine.cache import MemoryCache
from engine.clients.recovery import Requests
from engine.conversation import Conversation, ImagePart, Role, ToolChoice, ToolDefinition, Turn
from engine.errors import AuthenticationFailed, CircuitOpen, RateLimited, RequestError, RequestRejected, ServerError
from engine.events import BranchFailed, ChunkReceived, CompletionFinished, Retrying, Warned
from engine.profile import ModelProfile, Provider
from engine.profile_store import ProfileStore
from tests.helpers.asking import ask, profile_for, requests, stream_of
from tests.helpers.fake_server import Answer, FakeServer, Received, chat, delta, failure

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def engine_with(*profiles: ModelProfile, **parts: Any) -> Engine:
    store = ProfileStore()
    for profile in profiles:
        store.add(profile)
    return Engine(profiles=store, **parts)


def pair(first: str, second: str, **options: Any) -> tuple[ModelProfile, ModelProfile]:
    """A profile, and the one that stands in for it."""
    other = replace(profile_for(second, api_key="other-key-0123", model="n"), name="other")
    return profile_for(first, fallback_profiles=("other",), **options), other


async def answered(sender: Requests, profile: ModelProfile) -> str:
    async with stream_of(sender, profile) as stream:
        return "".join([chunk.content async for chunk in stream])


async def test_a_refused_key_asks_the_other_profile_without_waiting_and_warns() -> None:
    with FakeServer(failure(401, "bad key")) as down, FakeServer(chat("ok")) as up:
        first, other = pair(down.url, up.url)
        async with engine_with(first, other) as engine, engine.stream(first, "hi") as stream:
            chunks = [chunk async for chunk in stream]
        done = stream.completion
    assert (done.content, done.profile) == ("ok", "other")
    assert [(one.profile, one.outcome, one.status) for one in done.attempts] == [
        ("tested", "credentials or configuration", 401),
        ("other", "done", 200),
    ]
    assert [(chunk.retry.profile, chunk.retry.delay) for chunk in chunks if chunk.retry] == [("other", 0.0)]
    assert "other was asked instead" in stream.warnings[-1]
    assert up.requests[0].headers["authorization"] == "Bearer other-key-0123"
    assert up.requests[0].json()["model"] == "n"


async def test_when_nothing_is_left_the_error_lists_every_attempt() -> None:
    with FakeServer(failure(500)) as one, FakeServer(failure(403)) as two:
        first, other = pair(one.url, two.url, max_retries=1, retry_base_delay=0.0)
        async with engine_with(first, other) as engine:
            with pytest.raises(AuthenticationFailed) as failed:
                await engine.complete(first, "hi")
    assert [(found.profile, found.outcome, found.status) for found in failed.value.attempts] == [
        ("tested", "transient", 500),
        ("tested", "transient", 500),
        ("other", "credentials or configuration", 403),
    ]
    assert failed.value.facts["attempt 1"].startswith(f"tested at 127.0.0.1:{one.port}: transient 500, ")
    assert "key-0123" not in str(failed.value.facts)


@pytest.mark.parametrize("answer", [failure(400), failure(422), failure(400, code="content_filter")])
async def test_a_wrong_request_is_not_sent_elsewhere(answer: Answer) -> None:
    with FakeServer(answer) as one, FakeServer(chat("ok")) as two:
        first, other = pair(one.url, two.url)
        async with engine_with(first, other) as engine:
            with pytest.raises(RequestError):
                await engine.complete(first, "hi")
    assert (len(one.requests), len(two.requests)) == (1, 0)


async def test_after_the_first_word_nobody_else_is_asked() -> None:
    with FakeServer(Answer(pieces=[delta("Hel")])) as one, FakeServer(chat("Hello")) as two:
        first, other = pair(one.url, two.url)
        async with engine_with(first, other) as engine:
            with pytest.raises(RequestError) as failed:
                await engine.complete(first, "hi")
    assert failed.value.partial == "Hel"
    assert (len(one.requests), len(two.requests)) == (1, 0)


async def test_a_long_wait_asks_the_other_profile_at_once() -> None:
    with FakeServer(failure(429, headers={"Retry-After": "120"})) as one, FakeServer(chat("ok")) as two:
        first, other = pair(one.url, two.url)
        async with engine_with(first, other) as engine:
            assert (await engine.complete(first, "hi")).profile == "other"
            # Two minutes are not waited for by the next one either.
            assert (await engine.complete(first, "hi")).profile == "other"
    assert (len(one.requests), len(two.requests)) == (1, 2)


async def test_too_long_goes_only_to_a_longer_context() -> None:
    long = failure(400, code="context_length_exceeded")
    with FakeServer(long) as one, FakeServer(chat("ok")) as two:
        first, other = pair(one.url, two.url)
        first = replace(first, max_context=9000)
        async with engine_with(first, replace(other, max_context=5000)) as engine:
            with pytest.raises(RequestError, match="too long"):
                await engine.complete(first, "hi")
        async with engine_with(first, replace(other, max_context=50_000)) as engine:
            assert (await engine.complete(first, "hi")).content == "ok"


async def test_the_message_is_formed_anew_for_the_other_dialect() -> None:
    turn = Turn(role=Role.USER, text="see", images=(ImagePart(media_type="image/png", data=PNG, at=0),))
    events = [
        b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3}}}\n\n',
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}\n\n',
        b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n',
        b'data: {"type":"message_stop"}\n\n',
    ]
    with FakeServer(failure(500)) as one, FakeServer(Answer(pieces=events)) as two:
        first, other = pair(one.url, two.url, max_retries=0)
        options = replace(other.options, supports_images=False)
        other = replace(other, provider=Provider.ANTHROPIC, options=options)
        async with engine_with(first, other) as engine:
            overrides = {"maxTokens": 7, "modelName": "mine", "extParams": {"seed": 1}}
            done = await engine.complete(first, Conversation((turn,)), overrides=overrides)
    assert done.content == "ok"
    assert "image_url" in one.requests[0].body.decode()
    sent = two.requests[0].json()
    assert sent["messages"] == [{"role": "user", "content": [{"type": "text", "text": "[image omitted]see"}]}]
    assert (sent["model"], sent["max_tokens"], sent.get("seed")) == ("n", 7, None)


async def test_a_profile_without_tools_is_passed_over() -> None:
    with FakeServer(failure(500)) as one, FakeServer(chat("ok")) as two:
        first, other = pair(one.url, two.url, max_retries=0)
        other = replace(other, options=replace(other.options, function_call_type="none"))
        tools = ToolChoice.auto([ToolDefinition(name="clock")])
        async with engine_with(first, other) as engine:
            with pytest.raises(ServerError) as failed:
                await engine.complete(first, "hi", tools=tools)
    assert failed.value.attempts[-1].outcome == "not asked: it calls no tools"
    assert not two.requests


async def test_tools_are_described_to_a_profile_that_takes_none() -> None:
    call = '```json\n{"function_name": "clock"}\n```'
    with FakeServer(failure(500)) as one, FakeServer(chat("Look. ", call)) as two:
        first, other = pair(one.url, two.url, max_retries=0)
        other = replace(other, options=replace(other.options, supports_tools=False))
        async with engine_with(first, other) as engine:
            done = await engine.complete(first, "hi", tools=ToolChoice.auto([ToolDefinition(name="clock")]))
    assert [called.name for called in done.tool_calls] == ["clock"]
    assert done.content.strip() == "Look."
    assert "tools" not in two.requests[0].json()


async def test_the_answer_of_another_profile_is_not_kept_as_that_of_the_first() -> None:
    with FakeServer(failure(500), chat("mine")) as one, FakeServer(chat("other's")) as two:
        first, other = pair(one.url, two.url, max_retries=0)
        async with engine_with(first, other, cache=MemoryCache()) as engine:
            answers = [await engine.complete(first, "hi") for _ in range(3)]
    assert [answer.content for answer in answers] == ["other's", "mine", "mine"]
    assert answers[2].statistics.cached


async def test_the_chain_goes_on_through_the_fallbacks_of_fallbacks() -> None:
    with FakeServer(failure(500)) as down, FakeServer(chat("ok")) as up:
        first, other = pair(down.url, down.url, max_retries=0)
        other = replace(other, options=replace(first.options, fallback_profiles=("last",)))
        last = replace(profile_for(up.url), name="last")
        async with engine_with(first, other, last) as engine:
            assert (await engine.complete(first, "hi")).profile == "last"


# -- breaker and cool-down --------------------------------------------------------------------------------------------


async def test_with_two_repeats_the_second_request_meets_the_open_circuit_after_its_second_attempt() -> None:
    with FakeServer(failure(500)) as server:
        async with requests() as sender:
            for sent in (3, 5, 5):
                with pytest.raises(ServerError if sent != len(server.requests) else CircuitOpen):
                    await answered(sender, profile_for(server.url))
                assert len(server.requests) == sent


async def test_after_30_s_exactly_one_probe() -> None:
    now = [0.0]
    with FakeServer(*[failure(500)] * 5, Answer(pieces=[0.05, *chat("ok").pieces])) as server:
        async with requests() as other:
            sender = Requests(other.transport, clock=lambda: now[0])
            profile = profile_for(server.url, max_retries=0, max_concurrent=0)

            for _ in range(5):
                with pytest.raises(ServerError):
                    await answered(sender, profile)
            now[0] = 30.1
            results = await asyncio.gather(*[answered(sender, profile) for _ in range(20)], return_exceptions=True)
    assert results.count("ok") == 1
    assert sum(isinstance(result, CircuitOpen) for result in results) == 19
    assert len(server.requests) == 6


async def test_64_runs_cause_one_request_while_the_endpoint_cools_down() -> None:
    with FakeServer(failure(429, headers={"Retry-After": "300"})) as server:
        async with engine_with() as engine:
            profile = profile_for(server.url, max_concurrent=1)
            asked = [engine.complete(profile, f"hi {number}") for number in range(64)]
            results = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(result, RateLimited) for result in results)
    assert len(server.requests) == 1


async def test_who_comes_during_a_cool_down_waits_visibly() -> None:
    with FakeServer(failure(429, headers={"Retry-After": "7"}), chat("ok")) as server:
        waits: list[float] = []
        async with requests(waits=waits) as sender:
            with pytest.raises(RateLimited):
                await answered(sender, profile_for(server.url, max_retries=0))
            async with stream_of(sender, profile_for(server.url)) as stream:
                chunks = [chunk async for chunk in stream]
    notices = [chunk.retry for chunk in chunks if chunk.retry]
    assert [notice.attempt for notice in notices] == [1]
    assert waits == [7.0]
    assert stream.completion.attempts[0].waited == waits[0]


# -- several endpoints ------------------------------------------------------------------------------------------------


async def test_an_endpoint_that_is_down_is_passed_over_at_once() -> None:
    with FakeServer(failure(503)) as down, FakeServer(chat("ok")) as up:
        outcome = await ask(profile_for(down.url, urls=((down.url, 1), (up.url, 1))))
    assert outcome.done.content == "ok"
    assert outcome.waits in ([], [0.0])
    assert down.requests[0].body == up.requests[0].body


async def test_three_attempts_each_then_it_fails() -> None:
    with FakeServer(failure(503)) as one, FakeServer(failure(503)) as two:
        outcome = await ask(profile_for(one.url, urls=((one.url, 1), (two.url, 1))))
    assert isinstance(outcome.failure, ServerError)
    assert (len(one.requests), len(two.requests)) == (3, 3)


async def test_a_wrong_request_goes_to_one_endpoint_only() -> None:
    with FakeServer(failure(400)) as one, FakeServer(chat("ok")) as two:
        outcome = await ask(profile_for(one.url, urls=((one.url, 2), (two.url, 1))))
    assert isinstance(outcome.failure, RequestRejected)
    assert not two.requests


# -- a run ------------------------------------------------------------------------------------------------------------


async def test_a_run_through_an_endpoint_that_fails_every_third_request_loses_and_doubles_nothing() -> None:
    count = 0
    faults = [failure(503), Answer(pieces=[], end="reset"), failure(500)]

    def answer(request: Received) -> Answer:
        nonlocal count
        count += 1
        word = request.json()["messages"][-1]["content"].removeprefix("Say ")
        return faults[count // 3 % 3] if count % 3 == 0 else chat(f"<{word}", ">")

    items = [f"w{number}" for number in range(40)]
    with FakeServer(answer) as server:
        # The order of concurrent requests is chance: one that meets a failing turn a dozen times is not to be expected.
        profile = profile_for(server.url, max_retries=15, retry_base_delay=0.0)
        agent = Agent("Say", AgentType.COMPLETION, profile=profile, template="Say [[word]]")
        async with engine_with() as engine:
            async with engine.run(Flow(name="F", agents=(agent,)), Context({"word": items})) as run:
                events = [event async for event in run]
            assert run.finished is not None
            assert run.finished.status == "finished"
    finished = [event for event in events if isinstance(event, CompletionFinished)]
    assert sorted(event.content for event in finished) == sorted(f"<{item}>" for item in items)
    shown: dict[str, str] = {}
    for event in events:
        if isinstance(event, ChunkReceived):
            shown[event.branch] = shown.get(event.branch, "") + event.content
    assert sorted(shown.values()) == sorted(f"<{item}>" for item in items)
    assert len([event for event in events if isinstance(event, Retrying)]) == len(server.requests) - 40
    assert not [event for event in events if isinstance(event, Warned)]
    assert run.finished.statistics.requests == 40


async def test_a_cut_answer_is_kept_fails_what_comes_after_and_is_not_given_again() -> None:
    with FakeServer(Answer(pieces=[delta("Half")]), Answer(pieces=[delta("Half")]), chat("whole")) as server:
        profile = profile_for(server.url)
        first = Agent("A", AgentType.COMPLETION, profile=profile, template="Say", choose_next=lambda _: Next.to("B"))
        second = Agent("B", AgentType.COMPLETION, profile=profile, template="Again [[response]]")
        flow = Flow(name="F", agents=(first, second))
        async with engine_with(cache=MemoryCache()) as engine:
            for sent in (1, 2):
                async with engine.run(flow, Context()) as run:
                    events = [event async for event in run]
                assert run.finished is not None
                assert run.finished.status == "failed"
                (failed,) = [event.error for event in events if isinstance(event, BranchFailed)]
                assert failed.partial == "Half"
                assert {event.agent for event in events if isinstance(event, CompletionFinished)} <= {"A"}
                assert len(server.requests) == sent  # neither repeated, nor taken from the cache, nor used by B
