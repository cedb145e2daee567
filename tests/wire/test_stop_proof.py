"""After a stop: whether the server really stopped, as its slots tell, and what is said when it cannot tell."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine import Agent, AgentType, Engine, Flow
from engine.events import AnyEvent, ChunkReceived, RunFinished, StopProof, StopProved
from engine.flow.context import Context
from engine.profile import Provider
from engine.stop_proof import stop_text
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import JSON, Answer, FakeServer, Received, delta

HALF = Answer(pieces=[delta("half an answer")], end="stall")


class Slots:
    """Gives these states of its slots one after the other, the last one again and again."""

    def __init__(self, *states: Sequence[bool], more: dict[str, Any] | None = None) -> None:
        self.states = list(states)
        self.asked: list[Received] = []
        self.more = more or {}

    def __call__(self, request: Received) -> Answer:
        if request.path != "/slots":
            return Answer(status=404, headers=JSON, pieces=[b"{}"], framing="length")
        state = self.states[min(len(self.asked), len(self.states) - 1)]
        self.asked.append(request)
        slots = [{"id": number, "is_processing": busy} | self.more for number, busy in enumerate(state)]
        return Answer(headers=JSON, pieces=[json.dumps(slots).encode()], framing="length")


def refuses(status: int) -> Callable[[Received], Answer]:
    return lambda _request: Answer(
        status=status, headers=JSON, pieces=[b'{"error": {"message": "no"}}'], framing="length"
    )


async def stopped(
    server: FakeServer, engine: Engine, flow: Flow | None = None
) -> tuple[list[AnyEvent], list[StopProved]]:
    """Stop a run as soon as its first words are there; all events, and what was told of the servers."""
    events: list[AnyEvent] = []
    async with engine.run(flow or one_agent(server), Context({"part": ["a", "b"]})) as run:
        async for event in run:
            events.append(event)
            if isinstance(event, ChunkReceived):
                run.stop()
    assert isinstance(events[-1], RunFinished)
    assert events[-1].status == "stopped"
    return events, [event for event in events if isinstance(event, StopProved)]


def one_agent(server: FakeServer, template: str = "say", **settings: Any) -> Flow:
    return Flow(
        name="t",
        agents=[Agent("Writer", AgentType.COMPLETION, template=template, profile=profile_for(server.url, **settings))],
    )


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with Engine() as made:
        yield made


async def test_the_server_is_asked_until_its_slots_are_idle(engine: Engine) -> None:
    slots = Slots([True, False], [True, False], [False, False], more={"prompt": "somebody's secret"})
    with FakeServer(HALF, get=slots) as server:
        _, told = await stopped(server, engine)
    assert [(one.proof, one.busy, one.slots, one.agent, one.attempt, one.profile) for one in told] == [
        (StopProof.STOPPED, 0, 2, "Writer", 1, "tested")
    ]
    assert len(slots.asked) == 3
    assert slots.asked[0].method == "GET"
    assert stop_text(told[0]) == "the server stopped"


async def test_a_server_that_works_on_is_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.stop_proof.INTERVAL", 0.02)
    monkeypatch.setattr("engine.stop_proof.MOST", 0.2)
    slots = Slots([False, True, True])
    with FakeServer(HALF, get=slots) as server:
        _, told = await stopped(server, engine)
    assert [(one.proof, one.busy, one.slots) for one in told] == [(StopProof.WORKING, 2, 3)]
    assert len(slots.asked) > 1
    assert stop_text(told[0]) == "the server still works (2 of 3 slots), perhaps for somebody else"


@pytest.mark.parametrize(
    "get", [refuses(404), refuses(501), refuses(401), Slots([])], ids=["404", "501", "401", "none"]
)
async def test_a_server_that_cannot_tell(engine: Engine, get: Callable[[Received], Answer]) -> None:
    with FakeServer(HALF, get=get) as server:
        _, told = await stopped(server, engine)
        assert [request.path for request in server.gets].count("/slots") == 1
    assert [(one.proof, one.slots) for one in told] == [(StopProof.CLOSED, 0)]
    assert stop_text(told[0]).startswith("connection closed; the server cannot tell")


async def test_a_server_that_does_not_answer_any_more(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.stop_proof.MOST", 0.2)
    with FakeServer(HALF, get=Answer(headers=JSON, end="stall")) as server:
        _, told = await stopped(server, engine)
    assert [one.proof for one in told] == [StopProof.SILENT]
    assert "did not answer" in stop_text(told[0])


async def test_only_servers_that_may_know_slots_are_asked(engine: Engine) -> None:
    slots = Slots([False])
    with FakeServer(
        Answer(
            pieces=[b'{"message": {"content": "half"}}\n'],
            headers={"Content-Type": "application/x-ndjson"},
            end="stall",
        ),
        get=slots,
    ) as server:
        profile = replace(profile_for(server.url), provider=Provider.OLLAMA)
        flow = Flow(name="t", agents=[Agent("Writer", AgentType.COMPLETION, template="say", profile=profile)])
        _, told = await stopped(server, engine, flow)
    assert [one.proof for one in told] == [StopProof.CLOSED]
    assert slots.asked == []


async def test_branches_on_one_server_ask_it_once_and_all_are_told(engine: Engine) -> None:
    slots = Slots([False, False])
    with FakeServer(HALF, get=slots) as server:
        arrived: list[AnyEvent] = []
        async with engine.run(
            one_agent(server, "say [[part]]", max_concurrent=2), Context({"part": ["a", "b"]})
        ) as run:
            async for event in run:
                arrived.append(event)
                if sum(isinstance(one, ChunkReceived) for one in arrived) == 2:
                    run.stop()
    told = [event for event in arrived if isinstance(event, StopProved)]
    assert sorted((one.branch, one.proof) for one in told) == [("1/2", StopProof.STOPPED), ("2/2", StopProof.STOPPED)]
    assert len(slots.asked) == 1


async def test_who_leaves_the_run_does_not_wait_for_a_proof(engine: Engine) -> None:
    slots = Slots([True])
    with FakeServer(HALF, get=slots) as server:
        async with engine.run(one_agent(server), Context({})) as run:
            async for event in run:
                if isinstance(event, ChunkReceived):
                    break
        assert run.finished is not None
        assert run.finished.status == "stopped"
        assert slots.asked == []


async def test_leaving_ends_the_asking(engine: Engine) -> None:
    slots = Slots([True])
    with FakeServer(HALF, get=slots) as server:
        async with engine.run(one_agent(server), Context({})) as run:
            async for event in run:
                if isinstance(event, ChunkReceived):
                    run.stop()
                    break
            async with asyncio.timeout(20):
                while not slots.asked:
                    await asyncio.sleep(0.01)
        assert run.finished is not None
        assert run.finished.status == "stopped"


async def test_a_run_that_ends_by_itself_asks_nobody(engine: Engine) -> None:
    slots = Slots([False])
    done = Answer(pieces=[delta("all"), delta(finish="stop"), b"data: [DONE]\n\n"], framing="chunked")
    with FakeServer(done, get=slots) as server:
        async with engine.run(one_agent(server), Context({})) as run:
            events = [event async for event in run]
    assert not [event for event in events if isinstance(event, StopProved)]
    assert slots.asked == []
