"""What stands around completions, on a scripted server: order, failures, hits, what each of the built-in ones does."""

import asyncio
import logging
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from engine import Agent, AgentType, Context, Engine, Flow
from engine.cache import MemoryCache
from engine.completion import Completion, Phase
from engine.conversation import Conversation
from engine.engine_settings import EngineSettings
from engine.errors import BudgetExceeded, CircuitOpen, EngineError, RequestError
from engine.events import PhaseChanged, RunFinished
from engine.flow.agent import Next
from engine.folders import data_folders
from engine.guards import Budget, RateLimit, Spending
from engine.interceptors import Call, LoggingInterceptor, SensitiveFilter
from engine.profile import ModelProfile
from engine.profile_store import ProfileStore
from engine.statistics import Prices
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import FakeServer, Received, chat, failure

HELLO = chat("Hel", "lo!", usage=(7, 3))
PRICED = Prices(input=Decimal(2), cached_input=Decimal(1), output=Decimal(8))


def engine_with(*interceptors: Any, **parts: Any) -> Engine:
    return Engine(profiles=ProfileStore(), interceptors=interceptors, **parts)


class Noting:
    """Notes when it is called, and adds its name on both ways."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    async def before(self, profile: ModelProfile, conversation: Conversation) -> Conversation:
        self.notes.append(f"before {self.name}")
        return conversation.add_user(self.name)

    async def after(self, profile: ModelProfile, conversation: Conversation, completion: Completion) -> Completion:
        self.notes.append(f"after {self.name}: {conversation.turns[-1].text}")
        return replace(completion, content=f"{completion.content} {self.name}")


async def test_all_before_then_the_request_then_all_after_in_the_same_order() -> None:
    notes: list[str] = []
    with FakeServer(HELLO) as server:
        engine = engine_with(Noting("a", notes), Noting("b", notes))
        async with engine, engine.stream(profile_for(server.url), "hi") as stream:
            texts = [chunk.content async for chunk in stream if chunk.content]
            answer = stream.completion
    assert notes == ["before a", "before b", "after a: b", "after b: b"]
    assert texts == ["Hel", "lo!"]  # chunks pass untouched
    assert answer.content == "Hello! a b"
    assert [message["content"] for message in server.requests[0].json()["messages"]] == ["hi", "a", "b"]


async def test_they_run_on_hits_too_and_the_key_is_that_of_what_they_made() -> None:
    notes: list[str] = []
    cache = MemoryCache()
    with FakeServer(HELLO) as server:
        profile = profile_for(server.url)
        async with engine_with(Noting("a", notes), cache=cache) as engine:
            await engine.complete(profile, "hi")
            again = await engine.complete(profile, "hi")
        async with engine_with(cache=cache) as engine:
            plain = await engine.complete(profile, Conversation.create("", "hi").add_user("a"))
    assert len(notes) == 4
    assert again.content == "Hello! a"  # not twice: what is kept is the answer itself
    assert again.statistics.cached
    assert plain.content == "Hello!"
    assert plain.statistics.cached
    assert len(server.requests) == 1


async def test_no_hook_after_a_request_that_failed() -> None:
    notes: list[str] = []
    with FakeServer(failure(400)) as server:
        async with engine_with(Noting("a", notes)) as engine:
            with pytest.raises(RequestError):
                await engine.complete(profile_for(server.url), "hi")
    assert notes == ["before a"]


class Raising:
    """Raises where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    async def before(self, profile: ModelProfile, conversation: Conversation) -> Conversation:
        if self.where == "before":
            raise LookupError("nothing there")
        return conversation

    async def after(self, profile: ModelProfile, conversation: Conversation, completion: Completion) -> Completion:
        if self.where == "after":
            raise LookupError("nothing there")
        return None if self.where == "nothing" else completion  # type: ignore[return-value]


@pytest.mark.parametrize(("where", "words"), [("before", "nothing there"), ("after", "nothing there"), ("nothing", "")])
async def test_what_one_raises_fails_the_branch(where: str, words: str) -> None:
    with FakeServer(HELLO) as server:
        agent = Agent("A", AgentType.COMPLETION, profile=profile_for(server.url), template="hi")
        engine = engine_with(Raising(where))
        async with engine, engine.run(Flow(name="F", agents=(agent,)), Context()) as run:
            events = [event async for event in run]
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert last.status == "failed"
    error = last.results[0].error
    assert error is not None
    assert error.type == "GENERAL"
    assert words in error.message
    assert len(server.requests) == (0 if where == "before" else 1)
    assert last.statistics.requests == len(server.requests)  # what was paid is counted all the same


async def test_what_is_no_answer_is_told_with_its_name() -> None:
    with FakeServer(HELLO) as server:
        async with engine_with(Raising("nothing")) as engine:
            with pytest.raises(EngineError, match="Raising gave NoneType from after, expected Completion"):
                await engine.complete(profile_for(server.url), "hi")


def test_what_is_no_interceptor_is_refused() -> None:
    for wrong in (object(), Noting, "text"):
        with pytest.raises(TypeError, match="is no interceptor"):
            engine_with(wrong)


# -- guards -----------------------------------------------------------------------------------------------------------


class Watching:
    """A guard that only looks."""

    def __init__(self) -> None:
        self.left: list[tuple[str, int, str]] = []

    def enter_now(self, call: Call) -> bool:
        return True

    async def enter(self, call: Call) -> None:
        raise AssertionError("never blocked")

    def leave(self, call: Call, completion: Completion, error: BaseException | None) -> None:
        self.left.append((call.run_id, completion.statistics.requests, type(error).__name__))


async def test_guards_see_what_goes_out_and_how_it_ends() -> None:
    watching = Watching()
    with FakeServer(HELLO, HELLO, failure(400)) as server:
        profile = profile_for(server.url)
        agent = Agent("A", AgentType.COMPLETION, profile=profile, template="in a run")
        async with engine_with(watching, cache=MemoryCache()) as engine:
            for _ in range(3):
                await engine.complete(profile, "hi")
            async with engine.run(Flow(name="F", agents=(agent,)), Context()) as run:
                async for _ in run:
                    pass
            with pytest.raises(RequestError):
                await engine.complete(profile, "something else")
    assert watching.left == [("", 1, "NoneType"), (run.id, 1, "NoneType"), ("", 0, "RequestRejected")]


async def test_waiting_for_the_rate_limit_is_shown_and_can_be_stopped() -> None:
    with FakeServer(HELLO) as server:
        agents = (
            Agent(
                "A",
                AgentType.COMPLETION,
                profile=profile_for(server.url),
                template="1",
                choose_next=lambda _: Next("B"),
            ),
            Agent("B", AgentType.COMPLETION, profile=profile_for(server.url), template="2"),
        )
        engine = engine_with(RateLimit(requests=1))
        async with engine, engine.run(Flow(name="F", agents=agents), Context()) as run:
            events = []
            async for event in run:
                events.append(event)
                if isinstance(event, PhaseChanged) and event.phase is Phase.QUEUED:
                    run.stop()
    assert isinstance(events[-1], RunFinished)
    assert events[-1].status == "stopped"
    assert len(server.requests) == 1


async def test_hits_do_not_count_for_limits() -> None:
    budget = Budget(day=Spending(requests=1))
    with FakeServer(HELLO) as server:
        async with engine_with(RateLimit(requests=1), budget, cache=MemoryCache()) as engine:
            for _ in range(5):
                await engine.complete(profile_for(server.url), "hi")
            with pytest.raises(BudgetExceeded):
                await asyncio.wait_for(engine.complete(profile_for(f"{server.url}/other"), "hi"), 10)


async def test_a_run_ends_at_its_budget_with_the_status_budget() -> None:
    with FakeServer(HELLO) as server:
        profile = replace(profile_for(server.url, max_concurrent=2), prices=PRICED)
        agent = Agent("A", AgentType.COMPLETION, profile=profile, template="say [[k]]")
        settings = EngineSettings(run_budget=Spending(cost=Decimal(100)))
        async with engine_with(settings=settings) as engine:
            words = [str(number) for number in range(20)]
            async with engine.run(Flow(name="F", agents=(agent,)), Context({"k": words})) as run:
                async for _ in run:
                    pass
    assert run.finished is not None
    assert run.finished.status == "budget"
    assert "of the 100 it may cost" in run.finished.reason
    # Each costs 38; the third brings it above, and one more may have been under way.
    assert 3 <= len(server.requests) <= 4
    assert [context.text("response") for context in run.contexts[:3]] == ["Hello!"] * 3  # what came is kept


async def test_a_budget_of_the_day_holds_for_all_runs_on_the_folder(tmp_path: Path) -> None:
    folders = data_folders(tmp_path)
    EngineSettings(day_budget=Spending(requests=2), cache=False).save(folders.engine_settings)
    statuses = []
    with FakeServer(HELLO) as server:
        agent = Agent("A", AgentType.COMPLETION, profile=profile_for(server.url), template="hi")
        for _ in range(3):
            async with Engine.on_folders(folders) as engine:
                async with engine.run(Flow(name="F", agents=(agent,)), Context()) as run:
                    async for _ in run:
                        pass
                assert run.finished is not None
                statuses.append(run.finished.status)
    assert statuses == ["finished", "finished", "budget"]
    assert len(server.requests) == 2


async def test_a_server_that_fails_is_left_alone_for_a_while() -> None:
    with FakeServer(failure(500)) as server:
        profile = profile_for(server.url, max_retries=0)
        async with engine_with() as engine:
            for _ in range(5):
                with pytest.raises(RequestError):
                    await engine.complete(profile, "hi")
            with pytest.raises(CircuitOpen):
                await engine.complete(profile, "hi")
            assert len(server.requests) == 5
            assert [status.state.value for status in engine.endpoints(profile)] == ["open"]
            engine.apply(EngineSettings(breaker=False))
            with pytest.raises(RequestError, match="500"):
                await engine.complete(profile, "hi")


async def test_each_request_is_one_line_in_the_log_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "engine.interceptors")
    with FakeServer(HELLO, failure(400, "the prompt was: secret question")) as server:
        profile = profile_for(server.url)
        async with engine_with(LoggingInterceptor(), cache=MemoryCache()) as engine:
            await engine.complete(profile, "secret question")
            await engine.complete(profile, "secret question")
            with pytest.raises(RequestError):
                await engine.complete(profile, "other")
    lines = [record.getMessage() for record in caplog.records if record.name == "engine.interceptors"]
    assert len(lines) == 3
    assert lines[0].startswith("tested: 1 turns, 7 tokens in, 3 out, ")
    assert lines[1] == "tested: 1 turns, 7 tokens in, 3 out, 0.0 s, DONE, from the cache"
    assert lines[2] == "tested: RequestRejected"
    assert "secret" not in "".join(lines)


async def test_at_the_level_debug_the_log_has_texts_cut_and_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "engine.interceptors")
    with FakeServer(HELLO) as server:
        async with engine_with(LoggingInterceptor()) as engine:
            await engine.complete(profile_for(server.url), "x" * 1990 + " sk-1234567890abcdef " + "y" * 3000)
    prompt, *answer, line = [record.getMessage() for record in caplog.records if record.name == "engine.interceptors"]
    assert prompt == "tested: user: " + "x" * 1990 + " sk-***" + " yy"
    assert answer == ["tested: thinking: ", "tested: answer: Hello!"]
    assert line.startswith("tested: 1 turns")


# -- sensitive text ---------------------------------------------------------------------------------------------------

MAIL = {"EMAIL": r"[\w.]+@[\w.]+\w"}


async def test_what_is_sensitive_does_not_leave_and_comes_back() -> None:
    def echo(request: Received) -> Any:
        return chat(f"I write to {request.json()['messages'][-1]['content'].split()[-1]}")

    with FakeServer(echo) as server:
        async with engine_with(SensitiveFilter(MAIL)) as engine:
            async with engine.stream(profile_for(server.url), "cc ann@x.org and bob@x.org ann@x.org") as stream:
                texts = [chunk.content async for chunk in stream if chunk.content]
            answer = stream.completion
    sent = server.requests[0].json()["messages"][0]["content"]
    assert sent == "cc [EMAIL_1] and [EMAIL_2] [EMAIL_1]"
    assert b"ann" not in server.requests[0].body
    assert texts == ["I write to [EMAIL_1]"]
    assert answer.content == "I write to ann@x.org"


def test_marks_are_put_back_only_where_the_filter_made_them() -> None:
    one = SensitiveFilter({**MAIL, "NUMBER": r"\d{4,}"})
    masked = one.mask("a@b.cc 12345 [EMAIL_9] 12345")
    assert masked == "[EMAIL_1] [NUMBER_1] [EMAIL_9] [NUMBER_1]"
    assert one.unmask(masked) == "a@b.cc 12345 [EMAIL_9] 12345"
    assert one.unmask("[OTHER_1] [EMAIL_2]") == "[OTHER_1] [EMAIL_2]"
    assert SensitiveFilter({}).mask("a@b.cc") == "a@b.cc"
    with pytest.raises(ValueError, match="letters, digits and _"):
        SensitiveFilter({"no name": "x"})


async def test_without_restoring_the_marks_stay() -> None:
    with FakeServer(chat("[EMAIL_1]!")) as server:
        async with engine_with(SensitiveFilter(MAIL, restore=False)) as engine:
            assert (await engine.complete(profile_for(server.url), "a@b.cc")).content == "[EMAIL_1]!"


# -- settings ---------------------------------------------------------------------------------------------------------


def test_settings_come_back_as_they_were_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "folder" / "engine.json"
    assert EngineSettings.load(path) == EngineSettings()
    settings = EngineSettings(
        cache=False,
        cache_days=0,
        requests_per_minute=5,
        run_budget=Spending(cost=Decimal("1.50"), tokens=9),
        breaker=False,
    )
    settings.save(path)
    assert EngineSettings.load(path) == settings
    for wrong in ("{", "[]", '{"cache_days": -1}', '{"cache": "maybe"}'):
        path.write_text(wrong)
        assert EngineSettings.load(path) == EngineSettings()
    assert len(caplog.records) == 4
    with pytest.raises(ValueError, match="0 or more"):
        EngineSettings(tokens_per_minute=-1)


async def test_switching_the_cache_off_and_on_while_the_engine_lives() -> None:
    with FakeServer(HELLO) as server:
        profile = profile_for(server.url)
        async with engine_with(cache=MemoryCache()) as engine:
            await engine.complete(profile, "hi")
            engine.apply(EngineSettings(cache=False))
            assert not (await engine.complete(profile, "hi")).statistics.cached
            engine.apply(EngineSettings(cache_megabytes=1))
            assert (await engine.complete(profile, "hi")).statistics.cached
            assert engine.cache is not None
            assert engine.cache.max_bytes == 1_000_000  # type: ignore[attr-defined]
