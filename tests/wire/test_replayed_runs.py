"""Whole runs from a wire tape: tools, cache, embedded server, remembered models, failures; nobody is called."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine import Agent, AgentType, Context, Engine, Flow, ProfileStore, RunHistory, Spending, Tool, ToolDefinition
from engine.cache import MemoryCache
from engine.clients.tape_file import RecordedTape
from engine.clients.transport import Transport
from engine.embedded_server import EmbeddedServer, Endpoint, ServerState
from engine.engine_settings import EngineSettings
from engine.events import AnyEvent, CacheHit, ChunkReceived, CompletionFinished, RunFinished, RunStarted, ToolCalled
from engine.flow.agent import Next
from engine.profile import ModelProfile
from engine.run_tape import prune_tapes, tape_file
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import DONE, JSON, Answer, FakeServer, Received, chat, delta, failure


@pytest.fixture(autouse=True)
def only_while_recording(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are really asked."""
    asked: list[str] = []
    really = Transport._open

    async def noted(self: Transport, method: str, url: str, *rest: Any) -> Any:
        asked.append(url)
        return await really(self, method, url, *rest)

    monkeypatch.setattr(Transport, "_open", noted)
    return asked


async def played(engine: Engine, tape: Path, flow: Flow, speed: float = 0.0) -> list[AnyEvent]:
    async with await engine.replaying(RecordedTape(tape), speed=speed) as player, player.replay(flow) as run:
        return [event async for event in run]


async def ran(engine: Engine, flow: Flow, tape: Path | None = None, **options: Any) -> list[AnyEvent]:
    async with engine.run(flow, Context({"word": "ring"}), tape=tape, **options) as run:
        return [event async for event in run]


def kind_of(events: Sequence[AnyEvent], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def told(events: Sequence[AnyEvent]) -> list[object]:
    """What a run said, without its times and numbers."""
    kept = [*kind_of(events, ToolCalled), *kind_of(events, CompletionFinished)]
    words: list[object] = [
        (event.agent, event.output) if isinstance(event, ToolCalled) else (event.agent, event.content, event.attempt)
        for event in kept
    ]
    (finished,) = kind_of(events, RunFinished)
    return [*words, finished.status, finished.outputs, [(one.trace, one.context) for one in finished.results]]


def flow_of(profile: ModelProfile, **members: Any) -> Flow:
    return Flow(
        name="Rings",
        agents=(Agent("Ask", AgentType.COMPLETION, template="Say {{word}}", profile=profile, **members),),
    )


async def test_no_tool_runs_in_a_replay_and_made_up_ids_do_not_matter(
    tmp_path: Path, only_while_recording: list[str]
) -> None:
    runs: list[str] = []

    def ring(bell: str) -> str:
        runs.append(bell)
        return f"{bell} rang {len(runs)}"

    definition = ToolDefinition.of_texts("ring", "Rings", {"bell": "Which"})
    tool = Tool(definition=definition, function=ring, side_effects=True)
    call = '```json\n{"function_name": "ring", "bell": "small"}\n```'
    tape = tmp_path / "tape.jsonl"
    with FakeServer(chat(call), chat(call), chat("It rang.")) as server:
        flow = flow_of(profile_for(server.url, function_call_type="struct_parse"), tools=[tool])
        async with Engine(profiles=ProfileStore()) as engine:
            first = await ran(engine, flow, tape, allow_tool=lambda _tool, _call: True)
    asked = list(only_while_recording)
    async with Engine(profiles=ProfileStore()) as engine:
        second = await played(engine, tape, flow)
    assert runs == ["small", "small"]
    assert [event.output for event in kind_of(second, ToolCalled)] == ["small rang 1", "small rang 2"]
    assert told(second) == told(first)
    assert only_while_recording == asked


async def test_answers_from_the_cache_come_from_the_tape(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with FakeServer(chat("one"), chat("two")) as server:
        profile = profile_for(server.url)
        last = Agent("Last", AgentType.COMPLETION, template="Then {{response}}", profile=profile)
        first = Agent("Ask", AgentType.COMPLETION, template="Say {{word}}", profile=profile, choose_next=Next(last))
        flow = Flow(name="Rings", agents=(first, last))
        async with Engine(profiles=ProfileStore(), cache=MemoryCache()) as engine:
            await ran(engine, flow_of(profile))
            recorded = await ran(engine, flow, tape)
    async with Engine(profiles=ProfileStore()) as engine:
        again = await played(engine, tape, flow)
    assert [event.agent for event in kind_of(again, CacheHit)] == ["Ask"]
    assert told(again) == told(recorded)


class Served(EmbeddedServer):
    """The embedded server, played by a scripted one."""

    def __init__(self, home: Path, url: str) -> None:
        super().__init__(data_dir=home)
        self._url = url

    @property
    def state(self) -> ServerState:
        return ServerState.READY

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(url=f"{self._url}/v1", api_key="embedded-key-123456", model="tiny", slots=1)

    async def ensure(self) -> Endpoint:
        return self.endpoint

    def served_model(self) -> tuple[str, str]:
        return "embedded:tiny", "tiny"


async def test_the_embedded_server_is_not_started_for_a_replay(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with FakeServer(chat("from within")) as server:
        flow = flow_of(profile_for("embedded", model="", api_key=""))
        served = Served(tmp_path, server.url)
        async with Engine(profiles=ProfileStore(), server=served, cache=MemoryCache()) as engine:
            recorded = await ran(engine, flow, tape)
    nobody = EmbeddedServer(data_dir=tmp_path, command=("false",))
    async with Engine(profiles=ProfileStore(), server=nobody) as engine:
        again = await played(engine, tape, flow)
        assert nobody.state is ServerState.STOPPED
    assert told(again) == told(recorded)
    assert "embedded-key" not in tape.read_text()


async def test_what_an_earlier_run_asked_is_on_the_tape_of_a_later_one(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    models = Answer(headers=JSON, pieces=[b'{"data": [{"id": "the-model"}]}'])
    with FakeServer(chat("one"), chat("two"), get=models) as server:
        flow = flow_of(profile_for(server.url, model=""))
        async with Engine(profiles=ProfileStore()) as engine:
            await ran(engine, flow)
            recorded = await ran(engine, flow, tape)
        assert len(server.gets) == 1
    async with Engine(profiles=ProfileStore()) as engine:
        assert told(await played(engine, tape, flow)) == told(recorded)


async def test_runs_at_the_same_time_have_tapes_of_their_own(tmp_path: Path) -> None:
    def echo(request: Received) -> Answer:
        return chat(request.json()["messages"][-1]["content"])

    with FakeServer(echo) as server:
        flow = flow_of(profile_for(server.url))
        async with Engine(profiles=ProfileStore()) as engine, asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(_word(engine, flow, number, tmp_path / f"{number}.jsonl"))
    for number in range(5):
        tape = RecordedTape(tmp_path / f"{number}.jsonl")
        assert len(tape.calls) == 1
        assert f"Say {number}".encode() in tape.body(tape.calls[0])
        assert tape.end is not None
        assert tape.end.status == "finished"


async def _word(engine: Engine, flow: Flow, number: int, tape: Path) -> None:
    async with engine.run(flow, Context({"word": str(number)}), tape=tape) as run:
        assert [event async for event in run]


async def test_a_replay_counts_in_no_budget_and_no_sum(tmp_path: Path) -> None:
    tape = tmp_path / "tapes"
    tape.mkdir()
    with FakeServer(chat("one", usage=(100, 50))) as server:
        flow = flow_of(profile_for(server.url))
        history = RunHistory(tmp_path / "history.sqlite")
        async with Engine(profiles=ProfileStore(), history=history) as engine:
            (started, *_) = recorded = await ran(engine, flow, tape)
            before = await history.today()
            engine.apply(EngineSettings(day_budget=Spending(requests=1)))
            again = await played(engine, tape_file(tape, started.run_id), flow)
            after = await history.today()
            assert (after.requests, after.in_tokens, after.cost) == (before.requests, before.in_tokens, before.cost)
            replayed, original = await history.runs()
            assert (replayed.origin, replayed.parent, replayed.requests) == ("replay", original.id, 0)
            assert original.requests == 1
    assert kind_of(again, RunStarted)[0].origin == "replay"
    assert told(again) == told(recorded)


async def test_a_run_that_was_stopped_breaks_off_where_it_did(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with FakeServer(Answer(pieces=[delta("Half "), delta("an answer")], end="stall")) as server:
        flow = flow_of(profile_for(server.url))
        async with (
            Engine(profiles=ProfileStore()) as engine,
            engine.run(flow, Context({"word": "x"}), tape=tape) as run,
        ):
            text = ""
            async for event in run:
                text += event.content if isinstance(event, ChunkReceived) else ""
                if text == "Half an answer":
                    run.stop()
    async with Engine(profiles=ProfileStore()) as engine:
        again = await played(engine, tape, flow)
    assert "".join(event.content for event in kind_of(again, ChunkReceived)) == "Half an answer"
    (finished,) = kind_of(again, RunFinished)
    assert finished.results[0].error.message == "The tape ends in the middle of this answer."


async def test_at_the_old_pace_it_takes_the_old_time(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    slow = Answer(pieces=[delta("a"), 0.3, delta("b", finish="stop"), DONE])
    with FakeServer(failure(503), slow) as server:
        flow = flow_of(profile_for(server.url, retry_base_delay=0.01))
        async with Engine(profiles=ProfileStore()) as engine:
            recorded = await ran(engine, flow, tape)
    async with Engine(profiles=ProfileStore()) as engine:
        again = await played(engine, tape, flow, speed=1.0)
    one, other = kind_of(again, ChunkReceived)
    assert other.time - one.time > 0.25
    assert told(again) == told(recorded)


def test_only_the_newest_tapes_are_kept(tmp_path: Path) -> None:
    import os

    for number in range(6):
        path = tape_file(tmp_path, str(number))
        path.write_bytes(b"x" * 100)
        os.utime(path, (number, number))
    prune_tapes(tmp_path, most=4, most_bytes=1000)
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["2", "3", "4", "5"]
    prune_tapes(tmp_path, most=4, most_bytes=250)
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["4", "5"]
