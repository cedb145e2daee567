"""The life of a run: it ends once, whatever happens to who reads it."""

import asyncio
import gc
from decimal import Decimal
from pathlib import Path
from types import TracebackType

import pytest

from engine import Agent, AgentType, Context, Engine, Flow, ProfileStore, Run, RunHistory
from engine.events import AnyEvent, ChunkReceived, CompletionFinished, RunFinished
from engine.flow.agent import Next
from engine.run import EVENTS_AHEAD
from engine.statistics import CostProvenance
from tests.helpers.scripted_completer import Answers, Reply, ScriptedCompleter

ONE = Flow(name="One", agents=(Agent("A", AgentType.COMPLETION, template="Say hello."),))


def running(flow: Flow, answers: Answers, history: RunHistory | None = None) -> Run:
    return Run(flow, Context(), ScriptedCompleter(answers), history=history)


async def rest(run: Run) -> list[AnyEvent]:
    return [event async for event in run]


def ends(events: list[AnyEvent]) -> list[str]:
    return [event.status for event in events if isinstance(event, RunFinished)]


async def test_the_last_event_is_the_end() -> None:
    async with running(ONE, ["Hello"]) as run:
        events = await rest(run)
    assert ends(events) == ["finished"]
    assert run.finished is events[-1]
    assert run.contexts[0].text("response") == "Hello"
    assert (run.statistic.requests, run.statistic.in_tokens, run.statistic.out_tokens) == (1, 10, 5)
    assert run.trace.text() == "M, A"
    assert run.statistic.effective_seconds == run.finished.statistics.effective_seconds  # it stands still


async def test_a_run_stopped_before_it_began_ends() -> None:
    async with running(ONE, ["Hello"]) as run:
        run.stop()
        events = await rest(run)
    assert ends(events) == ["stopped"]
    assert events[-1].statistics.effective_seconds < 60


async def test_a_run_left_before_it_began_is_recorded_as_stopped(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    async with running(ONE, ["Hello"], history) as run:
        pass
    assert run.finished is not None
    assert [row.status for row in await history.runs()] == ["stopped"]
    await history.close()


async def test_stopping_twice_ends_once() -> None:
    started = asyncio.Event()
    async with running(ONE, [Reply(content="Hel", started=started, gate=asyncio.Event())]) as run:
        await started.wait()
        run.stop()
        run.stop()
        events = await rest(run)
        run.stop()
    assert ends(events) == ["stopped"]


async def test_a_stopped_run_leaves_no_frames_to_collect() -> None:
    flow = Flow(name="Wide", agents=(Agent("A", AgentType.COMPLETION, template="[[x]]"),))
    replies = [Reply(content="Hel", gate=asyncio.Event()) for _ in range(4)]
    gc.collect()
    gc.disable()  # frames that hold each other would stay until it runs, and it would hold the window up
    try:
        async with Run(flow, Context({"x": list("abcd")}), ScriptedCompleter(replies)) as run:
            words = 0
            async for event in run:
                words += isinstance(event, ChunkReceived)
                if words == 4:
                    run.stop()
        traces = [found for found in gc.get_objects() if isinstance(found, TracebackType)]
        assert not [found for found in traces if found.tb_frame.f_code.co_name == "_run_split"]
    finally:
        gc.enable()


async def test_what_a_stopped_answer_cost_is_recorded(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    async with running(ONE, [Reply(content="Hel", cost=Decimal("0.25"), gate=asyncio.Event())], history) as run:
        async for event in run:
            if isinstance(event, ChunkReceived):
                run.stop()
        assert run.finished is not None
        assert run.finished.statistics.cost == Decimal("0.25")
    (row,) = await history.runs()
    assert (row.status, row.cost, row.provenance) == ("stopped", Decimal("0.25"), CostProvenance.MEASURED)
    assert (await history.today_cost()).cost == Decimal("0.25")
    recorded = await history.run(row.id)
    assert [event.content for event in recorded.events if isinstance(event, CompletionFinished)] == ["Hel"]
    await history.close()


def busy(events: int) -> Flow:
    """A flow with about this many events."""
    steps = events // 2

    def again(context: Context) -> Next:
        return Next.end() if context.steps >= steps else Next.to("Loop")

    return Flow(name="Busy", agents=(Agent("Loop", AgentType.PROCESSING_ONLY, choose_next=again, targets=("Loop",)),))


async def test_leaving_at_the_last_event_of_a_full_buffer_keeps_its_status() -> None:
    # RunStarted, two events a step, RunFinished: the last one finds the buffer full.
    flow = busy(EVENTS_AHEAD - 2)
    async with running(flow, []) as run:
        while run.finished is None:
            await asyncio.sleep(0)
    assert run.finished.status == "finished"


async def test_stopping_with_a_full_buffer_loses_nothing() -> None:
    async with running(busy(2 * EVENTS_AHEAD), []) as run:
        for _ in range(5):
            await asyncio.sleep(0)
        run.stop()
        assert ends(await rest(run)) == ["stopped"]


async def test_a_fault_of_the_program_ends_the_run_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = RunHistory(tmp_path / "history.sqlite")
    monkeypatch.setattr("engine.flow.gathering.Gathering.release", lambda *_: 1 / 0)
    run = running(ONE, ["Hello"], history)
    with pytest.raises(ZeroDivisionError):
        await read_to_the_end(run)
    assert run.finished is not None
    assert (run.finished.status, run.finished.reason) == ("failed", "division by zero")
    assert [row.status for row in await history.runs()] == ["failed"]
    await history.close()


async def read_to_the_end(run: Run) -> None:
    async with run:
        await rest(run)


async def test_closing_closes_every_part_even_when_cancelled(tmp_path: Path) -> None:
    closed: list[str] = []

    class Server:
        async def stop(self) -> None:
            closed.append("server")

    class History:
        async def close(self) -> bool:
            closed.append("history")
            return True

    engine = Engine(profiles=ProfileStore(), server=Server(), history=History())  # type: ignore[arg-type]
    waiting = asyncio.Event()

    async def slowly() -> None:
        waiting.set()
        await asyncio.Event().wait()

    close_transport = engine._transport.aclose
    engine._transport.aclose = slowly  # type: ignore[method-assign]
    task = asyncio.create_task(engine.close())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["server", "history"]
    await close_transport()


async def test_capabilities_are_those_of_the_profile() -> None:
    async with Engine(profiles=ProfileStore()) as engine:
        found = await engine.capabilities("embedded-chat")
    assert found.streaming
