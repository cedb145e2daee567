"""How a flow is walked: order and concurrency, limits, cancellation, gathering, walking on."""

import asyncio
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import AnswerIncomplete, BudgetExceeded
from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    BranchFailed,
    ChunkReceived,
    Merged,
    RunFinished,
    Warned,
)
from engine.flow.agent import Agent, AgentType, Next, merge_contexts
from engine.flow.context import Context
from engine.flow.event_buffer import EventBuffer
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.flow.handlers import TextHandler
from tests.helpers.scripted_completer import Reply, Request, ScriptedCompleter
from tests.helpers.walked_flows import Run, asks, boom, echo, to, works

busy_machine = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# --- order and concurrency ---


async def test_results_are_in_branch_order_however_they_end() -> None:
    gates = {name: asyncio.Event() for name in "wxyz"}
    gates["z"].set()

    def answer(request: Request) -> Reply:
        error = AnswerIncomplete("Cut.") if request.prompt in "xz" else None
        return Reply(content=request.prompt, gate=gates[request.prompt], error=error)

    run = Run([asks("F", "[[f]]")], answer, {"f": list("wxyz")})
    task = asyncio.create_task(run.to_end())
    for name, before in ("zy", "yx", "xw"):
        while not any(event.branch == f"{'wxyz'.index(name) + 1}/4" for event in ended(run)):
            await asyncio.sleep(0)
        gates[before].set()
    await task
    assert [event.branch for event in ended(run)] == ["4/4", "3/4", "2/4", "1/4"]
    assert [context.text("f") for context in run.contexts] == ["w", "y", "x", "z"]
    assert [bool(context.error) for context in run.contexts] == [False, False, True, True]


def ended(run: Run) -> list[AnyEvent]:
    return [event for event in run.events if isinstance(event, AgentFinished | BranchFailed)]


async def test_a_branch_goes_on_before_its_siblings_begin() -> None:
    agents = [asks("F", "f [[f]]", choose_next=to("G")), asks("G", "g {{f}}")]
    run = await Run(agents, echo, {"f": ["x", "y"]}, max_concurrent=1).to_end()
    assert [request.prompt for request in run.completer.requests] == ["f x", "g x", "f y", "g y"]


async def test_no_more_requests_and_tasks_than_the_profile_allows() -> None:
    tasks_before = len(asyncio.all_tasks())
    most_tasks = 0

    async def look(context: Context) -> None:
        nonlocal most_tasks
        most_tasks = max(most_tasks, len(asyncio.all_tasks()) - tasks_before)
        await asyncio.sleep(0)

    agents = [asks("F", "[[f]]", after=look, choose_next=to("G")), asks("G", "[[s]]", after=look)]
    values: dict[str, object] = {"f": list(range(50)), "s": list(range(5))}
    run = await Run(agents, echo, values, max_concurrent=3).to_end()
    assert len(run.contexts) == 250
    assert run.completer.peak == 3
    assert most_tasks == 3


async def test_every_profile_has_its_own_workers() -> None:
    gate, started = asyncio.Event(), asyncio.Event()

    def answer(request: Request) -> Reply | str:
        if request.profile.category == "slow":
            return Reply(content="s", gate=gate, started=started)
        if started.is_set():
            gate.set()  # only reached when the fast profile does not wait for the slow one
        return "q"

    def route(context: Context) -> Next:
        return Next.to("Slow" if context.text("f") == "1" else "Quick")

    agents = [
        works("F", template="[[f]]", choose_next=route),
        asks("Slow", profile="slow"),
        asks("Quick", profile="quick"),
    ]
    run = await asyncio.wait_for(Run(agents, answer, {"f": [1, 2, 3]}, max_concurrent=1).to_end(), 10)
    assert [context.text("slow") + context.text("quick") for context in run.contexts] == ["s", "q", "q"]


async def test_merged_none_leaves_the_branches() -> None:
    agents = [asks("F", "[[f]]", merge=lambda contexts: None)]
    run = await Run(agents, echo, {"f": ["x", "y"]}).to_end()
    assert [context.trace.text() for context in run.contexts] == ["⇉ 1/2, M, F", "⇉ 2/2, M, F"]


async def test_a_merge_may_leave_several() -> None:
    agents = [asks("F", "[[f]]", merge=lambda contexts: contexts[::2], choose_next=to("E")), works("E")]
    run = await Run(agents, echo, {"f": ["x", "y", "z"]}).to_end()
    assert [context.trace.text() for context in run.contexts] == ["⇉ 1/3, M, F, 3↣2, ○, E", "⇉ 3/3, M, F, 3↣2, ○, E"]
    assert {event.branch for event in run.of(AgentStarted)} == {"", "1/2", "2/2"}


async def test_a_slow_reader_gets_every_event() -> None:
    agents = [asks("F", "[[f]]", choose_next=to("G")), asks("G")]
    values: dict[str, object] = {"f": list(range(30))}
    told = await Run(agents, echo, values).to_end()
    buffer = EventBuffer(4)
    walk = Walk(
        Flow(name="f", agents=tuple(agents)), Context(values), ScriptedCompleter(echo), run_id="r", emit=buffer.put
    )

    async def produce() -> None:
        await walk.run()
        buffer.close()

    task = asyncio.create_task(produce())
    seen: Counter[str] = Counter()
    async for event in buffer:
        seen[type(event).__name__] += 1
        await asyncio.sleep(0)
    await task
    assert seen == Counter(type(event).__name__ for event in told.events)


@busy_machine
@given(
    items=st.lists(st.sampled_from(["good", "bad", "worse"]), min_size=1, max_size=8),
    at_once=st.integers(1, 4),
    merges=st.booleans(),
)
def test_nothing_is_lost_and_the_order_is_kept(items: list[str], at_once: int, merges: bool) -> None:
    """`bad` fails in the first step, `worse` in the second; every context comes back, in the order of its branch."""
    names = [f"{kind} {number}" for number, kind in enumerate(items)]

    def answer(request: Request) -> str | Exception:
        failing = "bad" if request.prompt.startswith("F") else "worse"
        return AnswerIncomplete("Cut.") if failing in request.prompt else "fine"

    merge = (lambda contexts: merge_contexts(["f"], contexts)) if merges else None
    agents = [asks("F", "F [[f]]", merge=merge, choose_next=to("G")), asks("G", "G {{f}}")]
    run = Run(agents, answer, {"f": names}, max_concurrent=at_once)
    asyncio.run(run.to_end())
    if merges:
        joined = [name for name in names if "bad" not in name]
        second = [(joined, "worse" in " ".join(joined))] if joined else []
        expected = [*second, *(([name], True) for name in names if "bad" in name)]
    else:
        expected = [([name], "good" not in name) for name in names]
    expected.sort(key=lambda result: result[1])
    assert [(context["f"], context.error is not None) for context in run.contexts] == expected


# --- limits ---


async def test_a_loop_ends_at_the_step_limit() -> None:
    run = await Run([works("A", choose_next=to("A"))], limits=Limits(max_steps=5)).to_end()
    (context,) = run.contexts
    assert context.trace.text() == "○, A, ○, A, ○, A, ○, A, ○, A"
    assert context.error is not None
    assert isinstance(context.error.exception, BudgetExceeded)
    assert context.error.exception.facts == {"limit": "max_steps", "spent": "5"}
    assert run.finished.status == "budget"
    assert "after 5 steps" in run.finished.reason


async def test_each_branch_counts_its_own_steps() -> None:
    agents = [works("F", template="[[f]]", choose_next=to("E")), works("E")]
    run = await Run(agents, values={"f": list(range(10))}, limits=Limits(max_steps=2)).to_end()
    assert run.finished.status == "finished"


async def test_money_stops_the_next_request() -> None:
    reply = Reply(content="r", cost=Decimal("0.4"))
    run = await Run(
        [asks("A", "[[f]]")], [reply], {"f": list(range(10))}, limits=Limits(max_cost=Decimal(1)), max_concurrent=1
    ).to_end()
    assert len(run.completer.requests) == 3
    assert [bool(context.error) for context in run.contexts] == [False] * 3 + [True] * 7
    assert run.finished.status == "budget"
    assert run.finished.statistics.cost == Decimal("1.2")


async def test_nothing_to_spend_still_allows_what_is_free() -> None:
    run = await Run([asks("A", choose_next=to("B")), asks("B")], limits=Limits(max_cost=Decimal(0))).to_end()
    assert run.finished.status == "finished"


async def test_time_ends_the_run_and_keeps_what_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    never = Reply(content=["half"], gate=asyncio.Event())
    run = Run([asks("A", "[[f]]")], [never], {"f": list(range(6))}, limits=Limits(max_seconds=3600))
    task = asyncio.create_task(run.to_end())
    while len(run.of(ChunkReceived)) < 4:
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now + 3601)
    await task
    assert [context.text("a") for context in run.contexts] == ["half"] * 4 + [""] * 2
    assert all(context.error and isinstance(context.error.exception, BudgetExceeded) for context in run.contexts)
    assert run.finished.status == "budget"
    assert "longer than the 3600 seconds" in run.finished.reason
    assert run.completer.running == 0


async def test_a_timeout_of_a_hook_is_its_own_error() -> None:
    async def late(context: Context) -> None:
        raise TimeoutError("the database is slow")

    run = await Run([works("A", before=late)], limits=Limits(max_seconds=60)).to_end()
    assert run.of(BranchFailed)[0].error.message == "TimeoutError: the database is slow"
    assert run.finished.status == "failed"


# --- cancellation ---


async def test_cancelling_ends_all_branches_and_loses_no_event() -> None:
    started = asyncio.Event()

    def answer(request: Request) -> Reply | str:
        if request.prompt == "0":
            return "done"
        return Reply(content=["half"], gate=asyncio.Event(), started=started if request.prompt == "4" else None)

    run = Run([asks("A", "[[f]]")], answer, {"f": list(range(100))})
    task = asyncio.create_task(run.to_end())
    await started.wait()
    while len(run.of(ChunkReceived)) < 5:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.completer.running == 0
    assert not run.of(BranchFailed)
    assert not run.of(RunFinished)
    assert [context.text("a") for context in run.walk.contexts] == ["done"]
    last = run.walk.finished("stopped", "by you")
    assert (last.status, last.reason, len(last.results)) == ("stopped", "by you", 1)
    assert last.agents["A"].requests == 5  # the one that ended, and four that had cost something


async def test_what_a_client_warns_of_is_told() -> None:
    run = await Run([asks("A")], [Reply(content="Fine.", warnings=["The server refuses top_p."])]).to_end()
    assert [(event.agent, event.message) for event in run.of(Warned)] == [("A", "The server refuses top_p.")]


async def test_a_profile_without_limit_asks_for_all_branches_at_once() -> None:
    everyone = asyncio.Event()
    asked = []

    def answer(request: Request) -> Reply:
        asked.append(request)
        if len(asked) == 20:
            everyone.set()
        return Reply(content="r", gate=everyone)

    run = Run([asks("A", "[[f]]")], answer, {"f": list(range(20))}, max_concurrent=0)
    await asyncio.wait_for(run.to_end(), 10)
    assert run.completer.peak == 20


# --- gathering ---


def gathers(name: str = "Table", **fields: object) -> Agent:
    return works(name, gather=True, merge=lambda contexts: merge_contexts(["f", "d", "p"], contexts), **fields)


def sorting() -> list[Agent]:
    def route(context: Context) -> Next:
        return Next.to({"d": "D", "p": "P"}[context.text("f")[0]])

    return [
        works("Sort", template="[[f]]", choose_next=route, targets=["D", "P"]),
        asks("D", "{{f}}", choose_next=to("Table"), targets=["Table"]),
        asks("P", "{{f}}", choose_next=to("Table"), targets=["Table"]),
        gathers(choose_next=to("End")),
        works("End"),
    ]


async def test_a_gathering_agent_waits_for_all_paths_and_runs_once() -> None:
    run = await Run(sorting(), echo, {"f": ["d1", "p1", "d2"]}).to_end()
    (context,) = run.contexts
    assert dict(context) == {"f": ["d1", "p1", "d2"], "d": ["re d1", "re d2"], "p": ["re p1"]}
    assert context.trace.text() == "⇉ 1/3, ○, Sort, →, M, D, 3↣1, ○, Table, ○, End"
    assert [event.agent for event in run.of(AgentStarted)].count("Table") == 1
    merged = run.of(Merged)[0]
    assert (merged.agent, merged.inputs, merged.outputs, merged.branch) == ("Table", 3, 1, "")


async def test_failed_and_ended_branches_are_not_waited_for() -> None:
    def answer(request: Request) -> str | Exception:
        return AnswerIncomplete("Cut.") if request.prompt == "p1" else f"re {request.prompt}"

    run = await Run(sorting(), answer, {"f": ["d1", "p1"]}).to_end()
    good, bad = run.contexts
    assert good.trace.text() == "⇉ 1/2, ○, Sort, →, M, D, 1↣1, ○, Table, ○, End"
    assert bad.text("f") == "p1"
    run = await Run(sorting(), [AnswerIncomplete("Cut.")], {"f": ["d1", "p1"]}).to_end()
    assert [bool(context.error) for context in run.contexts] == [True, True]


async def test_a_gathering_agent_does_not_wait_for_what_cannot_reach_it() -> None:
    gate = asyncio.Event()

    def answer(request: Request) -> Reply | str:
        return Reply(content="slow", gate=gate) if request.prompt == "side" else "quick"

    def open_gate(context: Context) -> None:
        gate.set()  # the side branch ends only after the gathering agent ran

    agents = [
        works("F", template="[[f]]", choose_next=lambda context: Next.to(context.text("f")), targets=["Side", "D"]),
        asks("Side", "side"),
        asks("D", choose_next=to("Table"), targets=["Table"]),
        gathers(after=open_gate),
    ]
    run = await asyncio.wait_for(Run(agents, answer, {"f": ["Side", "D"]}).to_end(), 10)
    assert [context.text("f") for context in run.contexts] == ["Side", "D"]


async def test_gathering_agents_in_a_row_wait_for_each_other() -> None:
    def route(context: Context) -> Next:
        return Next.to("G2" if context.text("f") == "z" else "G1")

    agents = [
        works("F", template="[[f]]", choose_next=route, targets=["G1", "G2"]),
        gathers("G2"),
        gathers("G1", choose_next=to("G2"), targets=["G2"]),
    ]
    run = await Run(agents, values={"f": ["x", "y", "z"]}).to_end()
    (context,) = run.contexts
    assert context["f"] == ["x", "y", "z"]
    assert context.trace.text() == "⇉ 1/3, ○, F, 2↣1, ○, G1, 2↣1, ○, G2"


async def test_a_gathering_agent_waits_for_one_that_is_still_merging() -> None:
    merging = asyncio.Event()
    left = asyncio.Event()

    async def slow_merge(contexts: list[Context]) -> list[Context]:
        merging.set()
        await left.wait()
        await asyncio.sleep(0)
        return merge_contexts(["f"], contexts)

    async def after_merging_began(context: Context) -> None:
        await merging.wait()
        asyncio.get_running_loop().call_soon(left.set)

    agents = [
        works("F", template="[[f]]", choose_next=lambda context: Next.to(context.text("f")), targets=["G1", "G2", "E"]),
        works("E", after=after_merging_began),
        works("G1", gather=True, merge=slow_merge, choose_next=to("G2"), targets=["G2"]),
        gathers("G2"),
    ]
    run = await asyncio.wait_for(Run(agents, values={"f": ["G1", "G1", "G2", "E"]}).to_end(), 10)
    assert [context["f"] for context in run.contexts] == [["G1", "G1", "G2"], ["E"]]


async def test_gathering_agents_in_a_circle_do_not_hang() -> None:
    tries = iter(range(3))
    agents = [
        works("F", template="[[f]]", choose_next=lambda context: Next.to(context.text("f"))),
        gathers("G1", choose_next=lambda context: Next.to("G2") if next(tries, None) is not None else Next.end()),
        gathers("G2", choose_next=to("G1")),
    ]
    run = await asyncio.wait_for(Run(agents, values={"f": ["G1", "G2"]}).to_end(), 10)
    assert len(run.contexts) == 1


async def test_a_failed_gathering_keeps_all_contexts() -> None:
    agents = [works("F", template="[[f]]", choose_next=to("G")), works("G", gather=True, merge=boom)]
    run = await Run(agents, values={"f": ["x", "y"]}).to_end()
    assert [(context.text("f"), bool(context.error)) for context in run.contexts] == [("x", True), ("y", True)]


# --- walking on ---


async def test_a_second_walk_goes_on_where_the_first_ended() -> None:
    agents = [
        asks("A", "one"),
        Agent("B", AgentType.CONVERSATION, template="two", handler=lambda context: TextHandler("b")),
    ]
    (context,) = (await Run(agents, echo).to_end()).contexts
    seconds = context.statistic.effective_seconds
    run = await Run(agents, echo, context, start="B").to_end()
    (again,) = run.contexts
    assert again is context
    assert run.completer.requests[0].turns == [["user", "one"], ["assistant", "re one"], ["user", "two"]]
    assert again.trace.text() == "M, A, ‖, M, B"
    assert again.statistic.requests == 2
    assert again.statistic.effective_seconds > seconds
    assert run.finished.statistics.requests == 1


async def test_the_answer_of_a_failed_walk_is_not_taken_along() -> None:
    agents = [asks("A", "one", after=boom), Agent("B", AgentType.CONVERSATION, template="two")]
    (context,) = (await Run(agents, echo).to_end()).contexts
    run = await Run(agents, echo, context, start="B").to_end()
    assert run.completer.requests[0].turns == [["user", "one\ntwo"]]
