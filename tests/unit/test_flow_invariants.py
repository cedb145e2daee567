"""What holds for every run of every flow: nothing is lost, the order is fixed, the sums are right, each end is told."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.completion import Completion
from engine.errors import ServerError
from engine.events import AgentFinished, AgentStarted, AnyEvent, BranchFailed, RunFinished, RunStarted, SplitStarted
from engine.flow.agent import Agent, Next, merge_contexts
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.flow.flow_spec import AgentType
from engine.flow.handlers import DONE, Again, Handler, HandlerResult
from engine.flow.subflow import SubflowAgent
from tests.helpers.scripted_completer import Reply, Request, ScriptedCompleter

NAMES = ("A", "B", "C", "D")
TEMPLATES = ("go {{note}}", "[[items]] go", "[[items]] and [[more|hidden]]", "[[empty]] go", "[[note]]")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One agent of a random flow."""

    kind: AgentType
    template: str
    merge: str
    gather: bool
    targets: tuple[str | None, ...]
    graded: bool | None
    inner: "tuple[Plan, ...]" = ()
    fault: int
    """Which of the branches break: 0 none, else those whose text has this remainder."""
    where: str


@dataclass
class Script:
    """Answers by the text of the question alone, and counts what it answered."""

    seed: int
    answered: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def answer(self, request: Request) -> str | Reply | Exception:
        place = sum(map(ord, request.prompt)) % 11
        if place == 3:
            self.faults["refused"] += 1
            return ServerError("refused")
        self.answered += 1
        if place == 5:
            self.faults["broken"] += 1
            return Reply(content="half", error=ServerError("broken off"))
        return f"answer {place}"


class Choosy(Handler):
    """Refuses some answers."""

    async def handle(self, completion: Completion, context: Context) -> HandlerResult:
        if completion.content == "answer 7":
            return Again("seven")
        context["note"] = [completion.content]
        return DONE


def agent_of(name: str, plan: Plan, script: Script) -> Agent:
    """The agent; it waits for a random while before it goes on, by the seed of the script."""
    waits = random.Random(f"{script.seed} {name}")

    def breaks(context: Context) -> bool:
        return plan.fault > 0 and (len(context.branch) + context.steps) % 4 == plan.fault

    async def after(context: Context) -> None:
        for _ in range(waits.randrange(4)):
            await asyncio.sleep(0)
        if plan.where == "after" and breaks(context):
            raise ValueError("after")

    def before(context: Context) -> None:
        if plan.where == "before" and breaks(context):
            raise ValueError("before")

    def merge(contexts: list[Context]) -> list[Context] | None:
        if plan.where == "merge" and plan.fault == 1:
            raise ValueError("merge")
        if plan.merge == "concat":
            return merge_contexts(["items"], contexts)
        return contexts[:2] if plan.merge == "two" else None

    def choose(context: Context) -> Next:
        target = plan.targets[(context.split_index + context.steps) % len(plan.targets)] if plan.targets else None
        return Next(target, plan.graded)

    shared: dict[str, object] = {
        "before": before,
        "after": after,
        "merge": merge if plan.merge or plan.gather else None,
        "choose_next": choose,
        "targets": [target for target in plan.targets if target is not None],
        "gather": plan.gather,
    }
    if plan.inner:
        inner = Flow(
            name="inner",
            agents=tuple(agent_of(NAMES[index], part, script) for index, part in enumerate(plan.inner)),
            outputs=("note",),
        )
        given = {"items": ["x", "y"], "note": "{{note}}", "more": [1, 2, 3], "empty": [], "all": plan.template}
        return SubflowAgent(name, inner, inputs=given, **shared)  # type: ignore[arg-type]
    return Agent(name, plan.kind, template=plan.template, handler=lambda _: Choosy(), **shared)  # type: ignore[arg-type]


def plans(depth: int = 1) -> st.SearchStrategy[Plan]:
    inner = st.just(()) if depth == 0 else st.just(()) | st.lists(plans(depth - 1), min_size=1, max_size=2).map(tuple)
    targets = st.lists(st.none() | st.sampled_from([*NAMES, "Nobody"]), max_size=3).map(tuple)
    return st.builds(
        Plan,
        kind=st.sampled_from(AgentType),
        template=st.sampled_from(TEMPLATES),
        merge=st.sampled_from(["", "concat", "two", "none"]),
        gather=st.booleans(),
        targets=targets,
        graded=st.sampled_from([None, True, False]),
        inner=inner,
        fault=st.integers(0, 3),
        where=st.sampled_from(["before", "after", "merge"]),
    )


flows = st.lists(plans(), min_size=1, max_size=4)


async def run(
    parts: list[Plan], seed: int, stop_after: int | None = None
) -> tuple[list[AnyEvent], Walk, Script, ScriptedCompleter]:
    script = Script(seed)
    completer = ScriptedCompleter(script.answer, max_concurrent=3)
    agents = tuple(agent_of(NAMES[index], part, script) for index, part in enumerate(parts))
    flow = Flow(name="random", agents=agents, limits=Limits(max_steps=6), outputs=("note",))
    context = Context({"items": ["a", "b", "c"], "more": [1, 2], "note": "n", "empty": []})
    events: list[AnyEvent] = []
    task: asyncio.Task[list[Context]]

    def emit(event: AnyEvent) -> None:
        events.append(event)
        if len(events) == stop_after:
            task.cancel()

    walk = Walk(flow, context, completer, run_id="r", emit=emit)
    task = asyncio.ensure_future(walk.run())
    await asyncio.wait([task], timeout=60)
    assert task.done(), "the run hangs"
    if not task.cancelled():
        task.result()
    return events, walk, script, completer


def check_ends(events: list[AnyEvent], parts: list[Plan]) -> None:
    """Every execution that began ended, each of its branches once."""
    started = {event.step: event for event in events if isinstance(event, AgentStarted)}
    ends = Counter(event.step for event in events if isinstance(event, AgentFinished | BranchFailed))
    assert ends.keys() == started.keys()
    for step, event in started.items():
        plan = plan_of(event.agent, parts)
        if not (plan.merge or plan.gather):
            assert ends[step] == event.splits, event


def plan_of(path: str, parts: list[Plan]) -> Plan:
    first, _, rest = path.partition("/")
    plan = parts[NAMES.index(first)]
    return plan_of(rest, list(plan.inner)) if rest else plan


def check_results(events: list[AnyEvent]) -> None:
    """Every branch that ended is a result, and there is no other."""
    started = {event.step: event for event in events if isinstance(event, AgentStarted)}
    ended = [event for event in events if isinstance(event, AgentFinished) and not event.to]
    failed = [event for event in events if isinstance(event, BranchFailed)]
    splits: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, SplitStarted):
            splits.setdefault(event.step, []).append(event.branch)

    def node_of(event: AnyEvent) -> tuple[int, str]:
        """Execution and branch of the node an event happened inside of."""
        node = started[event.step].within
        branches = splits.get(node, [started[node].branch] if node else [])
        around = [name for name in branches if not name or f"{event.branch}.".startswith(f"{name}.")]
        return node, max(around, key=len, default="")

    outer = [event for event in (*ended, *failed) if not started[event.step].within]
    # What fails inside of a node is a result of its own when another branch inside ended well; else the node fails.
    good = {node_of(event) for event in ended}
    inner = [event for event in failed if started[event.step].within and node_of(event) in good]
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert len(last.results) == len(outer) + len(inner)
    fine = [result.error is None for result in last.results]
    assert fine == sorted(fine, reverse=True)


async def check(parts: list[Plan], seed: int) -> None:
    events, walk, script, completer = await run(parts, seed)
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert isinstance(events[0], RunStarted)
    assert sum(isinstance(event, RunStarted | RunFinished) for event in events) == 2
    check_ends(events, parts)
    check_results(events)
    assert last.statistics.requests == script.answered == sum(own.requests for own in last.agents.values())
    assert last.statistics.in_tokens == 10 * script.answered
    assert walk.contexts == [] or walk.contexts[0].statistic.requests == script.answered
    assert completer.running == 0
    assert {name.partition("/")[0] for name in last.agents} == set(last.agents)
    again, *_ = await run(parts, seed + 1)
    other = again[-1]
    assert isinstance(other, RunFinished)
    assert [(result.trace, result.context, result.error and result.error.message) for result in last.results] == [
        (result.trace, result.context, result.error and result.error.message) for result in other.results
    ]


async def check_stopped(parts: list[Plan], seed: int, stop_after: int) -> None:
    events, walk, _, completer = await run(parts, seed, stop_after)
    last = events[-1] if isinstance(events[-1], RunFinished) else walk.finished("stopped")
    assert completer.running == 0
    assert last.statistics.requests == sum(own.requests for own in last.agents.values())
    outer = {event.step for event in events if isinstance(event, AgentStarted) and not event.within}
    ended = [event for event in events if isinstance(event, AgentFinished) and not event.to and event.step in outer]
    assert len([result for result in last.results if result.error is None]) == len(ended)
    assert len(asyncio.all_tasks()) == 1


quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
long = settings(max_examples=3_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(flows, st.integers(0, 1000))
def test_every_run_keeps_what_it_began(parts: list[Plan], seed: int) -> None:
    asyncio.run(check(parts, seed))


@quick
@given(flows, st.integers(0, 1000), st.integers(2, 60))
def test_every_stopped_run_keeps_what_it_had(parts: list[Plan], seed: int, stop_after: int) -> None:
    asyncio.run(check_stopped(parts, seed, stop_after))


@pytest.mark.soak
@long
@given(flows, st.integers(0, 1000))
def test_every_run_keeps_what_it_began_often(parts: list[Plan], seed: int) -> None:
    asyncio.run(check(parts, seed))


@pytest.mark.soak
@long
@given(flows, st.integers(0, 1000), st.integers(2, 300))
def test_every_stopped_run_keeps_what_it_had_often(parts: list[Plan], seed: int, stop_after: int) -> None:
    asyncio.run(check_stopped(parts, seed, stop_after))
