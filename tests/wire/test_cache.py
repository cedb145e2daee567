"""Completions and runs with a cache in front of a server: hits, who shares a request, who pays, what stays out."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from engine import Agent, AgentType, Context, Engine, Flow
from engine.cache import MemoryCache
from engine.cli import main
from engine.completion import Chunk, Phase
from engine.embedded_server import EmbeddedServer
from engine.errors import ConnectFailed, LocalModelError, RequestError
from engine.events import AnyEvent, CacheHit, CompletionFinished, RunFinished
from engine.flow.agent import Next
from engine.flow.handlers import JsonHandler
from engine.folders import data_folders
from engine.profile import EMBEDDED_URL, ModelProfile
from engine.sqlite_cache import SqliteCache
from engine.statistics import CostProvenance
from tests.helpers.asking import profile_for
from tests.helpers.cached import HELLO, PRICED, SLOW, STALLED, drain, engine_with
from tests.helpers.fake_server import DONE, Answer, FakeServer, chat, delta, failure
from tests.helpers.model_answers import write_profile


async def test_a_hit_gives_the_answer_at_once_in_one_piece_for_nothing() -> None:
    pieces = [delta(reasoning_content="Hm."), delta("Hel"), delta("lo!"), delta(finish="stop"), DONE]
    with FakeServer(Answer(pieces=pieces, framing="chunked")) as server:
        profile = replace(profile_for(server.url), prices=PRICED)
        async with engine_with(MemoryCache()) as engine:
            paid = await engine.complete(profile, "hi")
            async with engine.stream(profile, "hi") as stream:
                chunks = await drain(stream)
                hit = stream.completion
            whole = await engine.complete(profile, "hi")  # streamed and not, they share what is kept
    assert chunks[1:] == [Chunk(content="Hello!", reasoning="Hm.")]  # no phases: nobody was asked
    assert [request.body for request in server.requests] == [chunk.formed.data for chunk in chunks if chunk.formed]
    assert paid.statistics.cost > 0
    assert not paid.statistics.cached
    for answer in (hit, whole):
        assert (answer.content, answer.reasoning, answer.model) == (paid.content, paid.reasoning, paid.model)
        used = answer.statistics
        assert (used.requests, used.duration, used.cost, used.cached) == (0, 0.0, Decimal(0), True)
        assert (used.in_tokens, used.out_tokens) == (paid.statistics.in_tokens, paid.statistics.out_tokens)
        assert used.provenance is CostProvenance.FREE


async def test_without_a_cache_every_request_goes_out() -> None:
    with FakeServer(HELLO) as server:
        async with engine_with(None) as engine:
            for _ in range(2):
                assert not (await engine.complete(profile_for(server.url), "hi")).statistics.cached
    assert len(server.requests) == 2


async def test_hits_need_no_server(tmp_path: Path) -> None:
    with FakeServer(HELLO) as server:
        profile = profile_for(server.url, max_retries=0)
        async with engine_with(SqliteCache(tmp_path / "cache.sqlite")) as engine:
            await engine.complete(profile, "hi")
    async with engine_with(SqliteCache(tmp_path / "cache.sqlite"), offline=True) as engine:
        assert (await engine.complete(profile, "hi")).content == "Hello!"
        with pytest.raises(ConnectFailed):
            await engine.complete(profile, "something else")


async def test_skipping_asks_anew_and_keeps_the_new_answer() -> None:
    with FakeServer(chat("first"), chat("second")) as server:
        profile = profile_for(server.url)
        async with engine_with(MemoryCache()) as engine:
            answers = [
                await engine.complete(profile, "hi"),
                await engine.complete(profile, "hi", skip_cache=True),
                await engine.complete(profile, "hi"),
            ]
    assert [(answer.content, answer.statistics.cached) for answer in answers] == [
        ("first", False),
        ("second", False),
        ("second", True),
    ]


async def test_not_using_the_cache_leaves_it_alone() -> None:
    with FakeServer(chat("first"), chat("second")) as server:
        profile = profile_for(server.url)
        cache = MemoryCache()
        async with engine_with(cache) as engine:
            await engine.complete(profile, "hi", use_cache=False)
            assert (await cache.info()).entries == 0
            await engine.complete(profile, "hi")
            assert [kept.entry.content for kept in await cache.entries()] == ["second"]
            assert not (await engine.complete(profile, "hi", use_cache=False)).statistics.cached


CUT = Answer(pieces=[delta("half"), delta(finish="length"), DONE], framing="chunked")
FILTERED = Answer(pieces=[delta("half"), delta(finish="content_filter"), DONE], framing="chunked")
BROKEN = Answer(pieces=[delta("half")], framing="chunked", end="cut")
EMPTY = Answer(pieces=[delta(finish="stop"), DONE], framing="chunked")
GARBLED = Answer(pieces=[delta("half"), b"data: {oops\n\n", delta(finish="stop"), DONE], framing="chunked")


@pytest.mark.parametrize(
    "answer",
    [failure(400), failure(500), CUT, FILTERED, BROKEN, EMPTY, GARBLED],
    ids=["rejected", "failed", "cut", "filtered", "incomplete", "empty", "words missing"],
)
async def test_only_whole_answers_are_kept(answer: Answer) -> None:
    with FakeServer(answer) as server:
        cache = MemoryCache()
        async with engine_with(cache) as engine:
            profile = profile_for(server.url, max_retries=0)
            for count in (1, 2):
                with suppress(RequestError):
                    assert not (await engine.complete(profile, "hi")).statistics.cached
                assert len(server.requests) == count
                assert (await cache.info()).entries == 0


async def test_a_cancelled_answer_is_not_kept_and_frees_the_server() -> None:
    with FakeServer(STALLED) as server:
        cache = MemoryCache()
        async with engine_with(cache) as engine:
            async with engine.stream(profile_for(server.url), "hi") as stream:
                async for chunk in stream:
                    if chunk.content:
                        break
            assert await asyncio.to_thread(server.hung_up.wait, 10)
            assert stream.so_far.content == "half"
            assert stream.so_far.statistics.requests == 1  # it was sent and is paid
            assert (await cache.info()).entries == 0
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "completion"]


async def test_an_answer_to_a_shortened_prompt_is_not_kept() -> None:
    from engine.conversation import Conversation

    turns = Conversation.create("", "old " * 50).add_assistant("sure").add_user("new")
    too_long = failure(400, "context length exceeded", code="context_length_exceeded")
    with FakeServer(too_long, HELLO) as server:
        cache = MemoryCache()
        async with engine_with(cache) as engine:
            assert (await engine.complete(profile_for(server.url), turns)).content == "Hello!"
            assert (await cache.info()).entries == 0
    assert len(server.requests) == 2


# -- the embedded server ----------------------------------------------------------------------------------------------


class OtherServer(EmbeddedServer):
    """Another server in place of the embedded one; counts how often it is started."""

    def __init__(self, folder: Path, model: Path, url: str) -> None:
        super().__init__(data_dir=folder, model_file=model)
        self.url = url
        self.starts = 0

    async def ensure(self) -> Any:
        from engine.embedded_server import Endpoint

        self.starts += 1
        if not self.url:
            raise LocalModelError("It cannot start.")
        return Endpoint(url=f"{self.url}/v1", api_key=f"random-key-{self.starts}", model="tiny", slots=1)


async def test_a_hit_does_not_start_the_embedded_server(tmp_path: Path) -> None:
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF and so on")
    profile = profile_for(EMBEDDED_URL, model="")
    path = tmp_path / "cache.sqlite"
    with FakeServer(HELLO) as server:
        async with engine_with(SqliteCache(path), server=OtherServer(tmp_path, model, server.url)) as engine:
            async with engine.stream(profile, "hi") as stream:
                phases = [chunk.phase for chunk in await drain(stream) if chunk.phase]
            assert phases[0] is Phase.LOADING_MODEL
        body = server.requests[0].json()
        assert body["model"] == "tiny"
        assert server.requests[0].headers["authorization"] == "Bearer random-key-1"
    with FakeServer(HELLO) as server:  # on another port, as after each start
        other = OtherServer(tmp_path, model, server.url)
        async with engine_with(SqliteCache(path), server=other) as engine:
            assert (await engine.complete(profile, "hi")).statistics.cached
            assert other.starts == 0
            model.write_bytes(b"GGUF another model")
            assert not (await engine.complete(profile, "hi")).statistics.cached
            assert other.starts == 1
    assert b"random-key" not in path.read_bytes()


async def test_a_missing_model_is_the_same_error_with_a_cache(tmp_path: Path) -> None:
    server = OtherServer(tmp_path, tmp_path / "gone.gguf", "")
    async with engine_with(MemoryCache(), server=server) as engine:
        with pytest.raises(LocalModelError):
            await engine.complete(profile_for(EMBEDDED_URL), "hi")


# -- runs -------------------------------------------------------------------------------------------------------------


def two(profile: ModelProfile) -> Flow:
    first = Agent("A", AgentType.COMPLETION, profile=profile, template="hello {{n}}", choose_next=lambda _: Next("B"))
    return Flow(name="Two", agents=(first, Agent("B", AgentType.COMPLETION, profile=profile, template="again {{n}}")))


async def events_of(engine: Engine, flow: Flow, **options: Any) -> list[AnyEvent]:
    async with engine.run(flow, Context({"n": "1"}), **options) as run:
        return [event async for event in run]


def finished(events: list[AnyEvent]) -> RunFinished:
    assert isinstance(events[-1], RunFinished)
    return events[-1]


async def test_a_run_repeated_is_answered_from_the_cache() -> None:
    with FakeServer(HELLO) as server:
        profile = replace(profile_for(server.url), prices=PRICED)
        async with engine_with(MemoryCache()) as engine:
            first = await events_of(engine, two(profile))
            again = await events_of(engine, two(profile))
            fresh = await events_of(engine, two(profile), skip_cache=True)
            without = await events_of(engine, two(profile), use_cache=False)
    assert len(server.requests) == 6
    assert [sum(isinstance(event, CacheHit) for event in one) for one in (first, again, fresh, without)] == [0, 2, 0, 0]
    used = finished(again).statistics
    assert (used.requests, used.cached_prompts, used.in_tokens, used.out_tokens, used.cost) == (0, 2, 0, 0, 0)
    assert finished(first).statistics.cached_prompts == 0
    assert finished(again).results[0].trace == finished(first).results[0].trace
    done = [event for event in again if isinstance(event, CompletionFinished)]
    assert [event.statistics.cached_prompts for event in done] == [1, 1]
    hits = [place for place, event in enumerate(again) if isinstance(event, CacheHit)]
    assert all(isinstance(again[place + 1], CompletionFinished) for place in hits)


async def test_an_answer_that_could_not_be_used_is_asked_for_anew() -> None:
    with FakeServer(chat("no json"), chat('{"a": 1}')) as server:
        agent = Agent(
            "A",
            AgentType.COMPLETION,
            profile=profile_for(server.url),
            template="give json",
            handler=lambda _: JsonHandler(),
        )
        wanted = Flow(name="Json", agents=(agent,))
        async with engine_with(MemoryCache()) as engine:
            events = await events_of(engine, wanted)
            assert finished(events).status == "finished"
            assert len(server.requests) == 2
            again = await events_of(engine, wanted)
    assert finished(again).status == "finished"
    assert len(server.requests) == 3  # the first question has the useless answer; the second one is asked again


async def test_branches_with_the_same_prompt_pay_once() -> None:
    with FakeServer(lambda request: SLOW if b"the same" in request.body else HELLO) as server:
        profile = profile_for(server.url, max_concurrent=3)
        split = Agent("A", AgentType.COMPLETION, profile=profile, template="say [[k]]", choose_next=lambda _: Next("B"))
        same = Agent("B", AgentType.COMPLETION, profile=profile, template="the same for all")
        async with engine_with(MemoryCache()) as engine:
            flow = Flow(name="Fan", agents=(split, same))
            async with engine.run(flow, Context({"k": ["a", "b", "c"]})) as run:
                async for _ in run:
                    pass
            assert [context.text("response") for context in run.contexts] == ["one two"] * 3
    assert sorted(request.body.count(b"the same") for request in server.requests) == [0, 0, 0, 1]
    assert (run.statistic.requests, run.statistic.cached_prompts) == (4, 2)


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_command_line_keeps_answers_unless_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    flow = tmp_path / "hello.flow.json"
    agents = [{"name": "Greet", "type": "COMPLETION", "template": "Say hello."}]
    flow.write_text(json.dumps({"format": "workbench.flow", "version": 1, "name": "hello", "agents": agents}))
    hits = []
    with FakeServer(HELLO) as server:
        write_profile(data_folders(tmp_path), "mine", server.url)
        for options in ([], [], ["--no-cache"], []):
            assert main(["run", str(flow), "--profile", "mine", "--json", "--quiet", *options]) == 0
            hits.append(json.loads(capsys.readouterr().out)["statistics"]["cached_prompts"])
    assert hits == [0, 1, 0, 1]
    assert len(server.requests) == 2
    assert main(["cache", "list", "--json"]) == 0
    (kept,) = json.loads(capsys.readouterr().out)
    assert (kept["profile"], kept["question"], kept["hits"]) == ("mine", "Say hello.", 2)
    assert main(["cache", "list"]) == 0
    assert "Say hello." in capsys.readouterr().out
    assert main(["cache", "info", "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["entries"], info["hits"], info["max_bytes"]) == (1, 2, 200_000_000)
    assert info["saved"] > 0
    assert main(["cache", "info"]) == 0
    assert "of 200 MB" in capsys.readouterr().out
    assert main(["cache", "clear", "zzz"]) == 2
    assert "found 0 answers" in capsys.readouterr().err
    assert main(["cache", "clear", kept["key"][:12]]) == 0
    assert main(["cache", "clear"]) == 0
    assert "0 answers forgotten" in capsys.readouterr().err


def test_secrets_are_nowhere_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    flow = tmp_path / "hello.flow.json"
    agents = [{"name": "G", "type": "COMPLETION", "template": "Say hello."}]
    flow.write_text(json.dumps({"format": "workbench.flow", "version": 1, "name": "h", "agents": agents}))
    canary = "canary-0123456789"
    with FakeServer(HELLO) as server:
        settings = {"apiKey": canary, "header.X-Secret": f"{canary}-header"}
        write_profile(data_folders(tmp_path), "mine", f"{server.url}/{canary}", **settings)
        assert main(["run", str(flow), "--profile", "mine", "--json", "--quiet"]) == 0
    assert server.requests
    capsys.readouterr()
    found = [path for path in tmp_path.rglob("*") if path.is_file() and canary.encode() in path.read_bytes()]
    assert [path.name for path in found] == ["mine.properties"]
    assert (tmp_path / "cache.sqlite").exists()
