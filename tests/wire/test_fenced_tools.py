"""Tools in fenced JSON on a scripted server: what is sent, what is shown live, corrections, refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine import Agent, AgentType, Context, Engine, Flow, ProfileStore, Tool, ToolDefinition
from engine.cache import MemoryCache
from engine.conversation import ToolChoice
from engine.errors import RequestRejected
from engine.events import AnyEvent, ChunkReceived, PromptShortened, RunFinished, RunStarted, ToolCalled, Warned
from engine.flow.agent import Next
from engine.profile import ModelProfile
from engine.prompt_library import PromptLibrary
from engine.run_prompts import TOOL_FORMAT
from tests.helpers.asking import bodies, profile_for
from tests.helpers.fake_server import Answer, FakeServer, Received, chat, failure

ADD = Tool(
    definition=ToolDefinition.of_texts("add", "Adds two numbers", {"a": "One", "b": "The other"}),
    function=lambda a, b: int(a) + int(b),
)


def block(**members: Any) -> str:
    return f"```json\n{json.dumps({'function_name': 'add', **members})}\n```"


CALL = (
    "Let me ",
    "add.\n``",
    "`js",
    "on\n",
    json.dumps({"function_name": "add", "a": "2", "b": "3"}),
    "\n```\nIt is 99.",
)


async def events_of(profile: ModelProfile, **parts: Any) -> list[AnyEvent]:
    agent = Agent("Ask", AgentType.COMPLETION, template="What is 2 + 3?", profile=profile, tools=[ADD])
    async with (
        Engine(profiles=ProfileStore(), **parts) as engine,
        engine.run(Flow(name="Sums", agents=(agent,)), Context()) as run,
    ):
        return [event async for event in run]


def of_kind(events: list[AnyEvent], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_a_call_in_the_text_is_made_and_never_shown() -> None:
    with FakeServer(chat(*CALL), chat("It is 5.")) as server:
        events = await events_of(profile_for(server.url, function_call_type="struct_parse"))
    first, second = bodies(server.requests)
    assert "tools" not in first
    assert "`add`" in first["messages"][0]["content"]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert second["messages"][2]["content"] == "".join(CALL)
    assert second["messages"][3]["content"].endswith(":\n5")
    assert "".join(event.content for event in of_kind(events, ChunkReceived)) == "Let me add.\nIt is 5."
    (called,) = of_kind(events, ToolCalled)
    assert (called.name, json.loads(called.arguments), called.output) == ("add", {"a": "2", "b": "3"}, "5")
    assert of_kind(events, RunFinished)[0].status == "finished"


async def test_the_users_prompt_holds_from_the_next_run_on(tmp_path: Path) -> None:
    prompts = PromptLibrary(tmp_path)
    first = prompts.save(TOOL_FORMAT, "en", "Call tools so:\n")

    def answer(request: Received) -> Answer:
        prompts.save(TOOL_FORMAT, "en", "Call tools otherwise:\n")  # while the run goes on
        return chat(block(a="2", b="3")) if len(request.json()["messages"]) == 2 else chat("5")

    with FakeServer(answer) as server:
        profile = profile_for(server.url, function_call_type="struct_parse")
        events = await events_of(profile, prompts=prompts)
        later = await events_of(profile, prompts=prompts)
    heads = [body["messages"][0]["content"].partition("\n")[0] for body in bodies(server.requests)]
    assert heads == ["Call tools so:"] * 2 + ["Call tools otherwise:"] * 2
    assert of_kind(events, RunStarted)[0].prompts == {TOOL_FORMAT: f"en {first.version}"}
    assert of_kind(later, RunStarted)[0].prompts == {TOOL_FORMAT: f"en {prompts.find(TOOL_FORMAT).version}"}


async def test_a_prompt_that_cannot_be_read_fails_the_branch_that_needs_it(tmp_path: Path) -> None:
    (tmp_path / f"{TOOL_FORMAT}.en.md").write_bytes(b"\xff")
    with FakeServer(chat("5")) as server:
        native = await events_of(profile_for(server.url), prompts=PromptLibrary(tmp_path))
        fenced = await events_of(
            profile_for(server.url, function_call_type="struct_parse"), prompts=PromptLibrary(tmp_path)
        )
    assert of_kind(native, RunFinished)[0].status == "finished"
    assert "no UTF-8" in of_kind(fenced, RunFinished)[0].results[0].error.message


async def test_arguments_are_checked_like_those_of_native_calls() -> None:
    with FakeServer(chat(block(a="2")), chat("Sorry.")) as server:
        events = await events_of(profile_for(server.url, function_call_type="struct_parse"))
    (called,) = of_kind(events, ToolCalled)
    assert called.failed
    assert "do not fit the tool add" in called.output
    assert "do not fit" in bodies(server.requests)[1]["messages"][3]["content"]


async def test_what_cannot_be_read_is_asked_for_again_twice() -> None:
    broken = '```json\n{"function_name": "add", "a": }\n```'
    with FakeServer(chat(broken), chat(block(a="2", b="3")), chat("5")) as server:
        events = await events_of(profile_for(server.url, function_call_type="struct_parse"))
    told = bodies(server.requests)[1]["messages"]
    assert [message["content"] for message in told[2:3]] == [broken]
    assert "invalid JSON" in told[3]["content"]
    assert len(of_kind(events, ToolCalled)) == 1
    with FakeServer(chat(broken)) as server:
        events = await events_of(profile_for(server.url, function_call_type="struct_parse"))
    assert len(server.requests) == 3
    (finished,) = of_kind(events, RunFinished)
    assert finished.results[0].error.facts["kind"] == "bad_tool_json"


async def test_a_good_call_is_made_and_the_bad_one_beside_it_told() -> None:
    both = block(a="2", b="3") + '\n```json\n{"function_name": "add", '
    with FakeServer(chat(both), chat("5")) as server:
        await events_of(profile_for(server.url, function_call_type="struct_parse"))
    result = bodies(server.requests)[1]["messages"][3]["content"]
    assert "\n5\n\n" in result
    assert "truncated JSON" in result


async def test_a_server_without_tools_is_asked_once_and_then_in_the_prompt() -> None:
    refused = failure(400, "this model does not support tools")
    with FakeServer(refused, chat(*CALL), chat("It is 5.")) as server:
        events = await events_of(profile_for(server.url, max_retries=0))
    sent = bodies(server.requests)
    assert ["tools" in body for body in sent] == [True, False, False]
    assert "functionCallType=struct_parse" in of_kind(events, Warned)[0].message
    assert of_kind(events, ToolCalled)[0].output == "5"


async def test_another_refusal_stays_one() -> None:
    with FakeServer(failure(400, "no such thing")) as server:
        async with Engine(profiles=ProfileStore()) as engine:
            with pytest.raises(RequestRejected):
                await engine.complete(profile_for(server.url), "hi", tools=ToolChoice.auto([ADD.definition]))
    assert len(server.requests) == 1


async def test_an_answer_from_the_cache_calls_again() -> None:
    cache = MemoryCache()
    with FakeServer(chat(*CALL)) as server:
        profile = profile_for(server.url, function_call_type="struct_parse")
        async with Engine(profiles=ProfileStore(), cache=cache) as engine:
            choice = ToolChoice.auto([ADD.definition])
            first = await engine.complete(profile, "2 + 3?", tools=choice)
            second = await engine.complete(profile, "2 + 3?", tools=choice)
    assert len(server.requests) == 1
    assert second.statistics.cached
    assert [call.arguments for call in second.tool_calls] == [call.arguments for call in first.tool_calls]
    assert (first.content, second.content) == ("Let me add.", "Let me add.")


async def test_a_shortened_prompt_is_told_as_an_event() -> None:
    with FakeServer(chat("one " * 20), chat("done")) as server:
        profile = profile_for(server.url, max_input_tokens=130)
        first = Agent(
            "First",
            AgentType.START_CONVERSATION,
            template="word " * 60,
            profile=profile,
            choose_next=lambda _: Next("Second"),
            targets=["Second"],
        )
        second = Agent("Second", AgentType.CONVERSATION, template="again " * 20, profile=profile)
        flow = Flow(name="Long", agents=(first, second))
        async with Engine(profiles=ProfileStore()) as engine, engine.run(flow, Context()) as run:
            events = [event async for event in run]
    (cut,) = of_kind(events, PromptShortened)
    assert (cut.agent, cut.dropped, cut.budget) == ("Second", (0, 1), 130)
    assert "2 turns were left out" in cut.message
    assert len(bodies(server.requests)[1]["messages"]) == 1
