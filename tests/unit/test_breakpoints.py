"""Breakpoints: where a run waits, how it goes on, and what may be changed meanwhile."""

import asyncio

from engine.events import AgentStarted, AnyEvent, Event, Paused, PromptReady, Warned
from engine.flow.agent import Agent, AgentType, Next
from engine.flow.breakpoints import Breakpoints
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.flow.handlers import TextHandler
from tests.helpers.scripted_completer import ScriptedCompleter


def asks(name: str, template: str, to: str | None) -> Agent:
    return Agent(
        name,
        AgentType.COMPLETION,
        template=template,
        handler=lambda context: TextHandler(name.lower()),
        choose_next=lambda context: Next(to),
    )


class Held:
    """Three agents one after the other, run with breakpoints."""

    def __init__(self, *names: str, seconds: float | None = None) -> None:
        self.breakpoints = Breakpoints(names)
        self.events: list[AnyEvent] = []
        agents = (
            asks("A", "about {{topic}}", "B"),
            asks("B", "more of {{topic}}", "C"),
            asks("C", "end {{topic}}", None),
        )
        flow = Flow(name="test", agents=agents, limits=Limits(max_seconds=seconds))
        self.walk = Walk(
            flow,
            Context({"topic": "tea"}),
            ScriptedCompleter(("an answer",) * 3),
            run_id="run",
            emit=self.events.append,
            breakpoints=self.breakpoints,
        )
        self.task = asyncio.create_task(self.walk.run())

    async def until_waiting(self, agent: str) -> None:
        async with asyncio.timeout(5):
            while not any(one.agent == agent for one in self.breakpoints.waiting):
                await asyncio.sleep(0)

    def names(self, kind: type[Event]) -> list[str]:
        return [event.agent for event in self.events if isinstance(event, kind)]

    def prompts(self) -> list[str]:
        return [event.turns[-1][1] for event in self.events if isinstance(event, PromptReady)]


async def test_a_run_waits_before_an_agent_and_goes_on() -> None:
    run = Held("B")
    await run.until_waiting("B")
    assert run.names(AgentStarted) == ["A"]
    run.breakpoints.resume()
    await run.task
    assert run.names(AgentStarted) == ["A", "B", "C"]
    assert run.names(Paused) == ["B"]
    assert run.walk.contexts[0].error is None


async def test_a_step_waits_again_before_the_next_agent() -> None:
    run = Held("A")
    await run.until_waiting("A")
    for name in ("B", "C"):
        run.breakpoints.step()
        await run.until_waiting(name)
    run.breakpoints.resume()
    await run.task
    assert run.names(Paused) == ["A", "B", "C"]


async def test_breakpoints_may_be_removed_while_it_runs() -> None:
    run = Held("A", "C")
    await run.until_waiting("A")
    run.breakpoints.set(())
    run.breakpoints.resume()
    await run.task
    assert run.names(Paused) == ["A"]


async def test_what_is_edited_is_sent_and_told() -> None:
    run = Held("B")
    await run.until_waiting("B")
    run.breakpoints.waiting[0].edit({"topic": ["coffee"]})
    run.breakpoints.resume()
    await run.task
    assert run.prompts() == ["about tea", "more of coffee", "end coffee"]
    told = [event.message for event in run.events if isinstance(event, Warned)]
    assert told == ['The context was edited before "B": topic.']


async def test_the_time_of_a_pause_is_no_time_of_the_run() -> None:
    run = Held("B", seconds=0.3)
    await run.until_waiting("B")
    await asyncio.sleep(0.4)
    run.breakpoints.resume()
    await run.task
    assert run.walk.contexts[0].error is None


async def test_a_paused_run_can_be_stopped() -> None:
    run = Held("B")
    await run.until_waiting("B")
    run.task.cancel()
    await asyncio.wait([run.task])
    assert run.task.cancelled()
    assert run.breakpoints.waiting == ()
