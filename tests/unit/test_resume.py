"""A run goes on from wherever it broke off, with everything finished kept and nothing paid for twice."""

from collections import Counter
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.checkpoints import Checkpoint
from engine.errors import ConnectFailed, FlowError
from engine.events import (
    AgentStarted,
    CacheHit,
    CompletionFinished,
    Grade,
    GradeOutcome,
    Merged,
    RunFinished,
    RunStarted,
    SplitStarted,
)
from engine.flow.agent import Agent, AgentType, Next, merge_contexts
from engine.flow.context import Context
from engine.flow.flow import Flow, Limits
from engine.flow.graders import AnswerGraderBinary
from engine.flow.handlers import JsonHandler, TextHandler
from engine.recorded_runs import resume_point, start_point, visits
from tests.helpers.recorded import RecordedWalk, Told, stored
from tests.helpers.scripted_completer import Answer, Reply, Request, ScriptedCompleter

busy_machine = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
COST = Decimal("0.5")


def asks(name: str, template: str, **fields: object) -> Agent:
    fields.setdefault("handler", lambda context: TextHandler(name.lower()))
    return Agent(name, AgentType.COMPLETION, template=template, **fields)  # type: ignore[arg-type]


def to(name: str) -> Callable[[Context], Next]:
    return lambda context: Next.to(name)


def big_flow() -> Flow:
    """A split, a merge, a second split whose branches loop, and an agent that gathers them."""

    def again(context: Context) -> Next:
        rounds = context.trace.text().count("Improve")
        return Next("Join", True) if rounds >= int(context.text("item")[-1]) else Next("Improve", False)

    return Flow(
        name="big",
        agents=(
            asks("Split", "look at [[item]]", merge=lambda contexts: merge_contexts(["split"], contexts),
                 choose_next=to("Spread"), targets=["Spread"]),
            Agent("Spread", AgentType.PROCESSING_ONLY, template="[[split]]", choose_next=to("Improve"),
                  targets=["Improve"], before=lambda context: context.set("item", "a1", "b2", "c1")),
            Agent("Name", AgentType.PROCESSING_ONLY, template="[[item]]"),
            asks("Improve", "improve {{split}} {{improve}}", choose_next=again, targets=["Improve", "Join"],
                 before=lambda context: context.set("item", f"x{len(context.text('split')) % 3}")),
            asks("Join", "join {{improve}}", gather=True, merge=lambda contexts: merge_contexts(["improve"], contexts)),
        ),
        outputs=("join",),
    )  # fmt: skip


def echo(request: Request) -> Reply:
    return Reply(content=f"<{request.prompt}>", cost=COST)


def results(walk: RecordedWalk) -> list[tuple[str, dict[str, list[object]]]]:
    return [(context.trace.text(), context.values_copy()) for context in walk.contexts]


def finished_calls(told: list[Told]) -> int:
    return sum(isinstance(event, CompletionFinished) and event.statistics.requests > 0 for event in told)


async def run(flow: Flow, answers: Callable[[Request], Answer] = echo, **more: object) -> RecordedWalk:
    values: dict[str, object] = {"item": ["a", "b", "c"]}
    return await RecordedWalk(flow, ScriptedCompleter(answers), values, **more).to_end()  # type: ignore[arg-type]


async def resumed(told: list[Told], flow: Flow, answers: Callable[[Request], Answer] = echo) -> RecordedWalk:
    completer = ScriptedCompleter(answers)
    return await RecordedWalk(flow, completer, restart=resume_point(stored(told), flow), run_id="again").to_end()


async def test_a_run_cut_anywhere_ends_as_if_it_had_not_been() -> None:
    """Whatever had been recorded when it died: the same results, and no answered request is sent again."""
    whole = await run(big_flow())
    requests = finished_calls(whole.told)
    assert requests == len(whole.completer.requests)  # type: ignore[attr-defined]
    first = next(place for place, told in enumerate(whole.told) if isinstance(told, Checkpoint))
    last = max(place for place, told in enumerate(whole.told) if isinstance(told, Checkpoint))
    for cut in range(first + 1, last + 1):
        told = whole.told[:cut]
        again = await resumed(told, big_flow())
        assert results(again) == results(whole), cut
        assert len(again.completer.requests) == requests - finished_calls(told), cut  # type: ignore[attr-defined]
        end = again.events[-1]
        assert isinstance(end, RunFinished)
        assert end.statistics.cost == COST * len(again.completer.requests)  # type: ignore[attr-defined]
        assert end.before is not None
        assert end.before.cost + end.statistics.cost == COST * requests


async def test_a_resumed_run_can_be_cut_and_resumed_too() -> None:
    whole = await run(big_flow())
    places = [place for place, told in enumerate(whole.told) if isinstance(told, Checkpoint)]
    told = whole.told[: places[len(places) // 3]]
    calls = finished_calls(told)
    for share in (0.4, 0.6, 0.9):
        again = RecordedWalk(big_flow(), ScriptedCompleter(echo), restart=resume_point(stored(told), big_flow()))
        await again.to_end()
        kept = again.events[0].kept if isinstance(again.events[0], RunStarted) else 0
        new = finished_calls(again.told[:]) - finished_calls(list(again.events[1 : kept + 1]))
        assert calls + new == finished_calls(whole.told)
        places = [place for place, one in enumerate(again.told) if isinstance(one, Checkpoint)]
        told = again.told[: max(places[int(len(places) * share)], kept + len(places) // 2)]
        calls = finished_calls(told)
        assert results(again) == results(whole)


async def test_the_events_of_a_resumed_run_tell_the_whole_run() -> None:
    whole = await run(big_flow())
    cut = len(whole.told) // 2
    again = await resumed(whole.told[:cut], big_flow())

    def told(walk: RecordedWalk) -> Counter[tuple[str, int, str, str]]:
        kinds = (AgentStarted, SplitStarted, CompletionFinished, Merged)
        found = [event for event in walk.events if isinstance(event, kinds)]
        return Counter((event.agent, 0, event.branch, type(event).__name__) for event in found)

    assert told(again) == told(whole)
    started = again.events[0]
    assert isinstance(started, RunStarted)
    assert (started.origin, started.parent) == ("resume", "run")
    assert started.kept > 0
    assert {event.run_id for event in again.events} == {"again"}


async def test_only_the_failed_branch_is_asked_again_and_merged_with_the_others() -> None:
    def fails(request: Request) -> Answer:
        return ConnectFailed("nobody there") if request.prompt == "look at b" else echo(request)

    broken = await run(big_flow(), fails)
    assert [context.error is None for context in broken.contexts] == [True, False]
    whole = await run(big_flow())
    again = await resumed(broken.told, big_flow())
    assert results(again) == results(whole)
    asked = [request.prompt for request in again.completer.requests]  # type: ignore[attr-defined]
    assert asked[0] == "look at b"
    assert not {"look at a", "look at c"} & set(asked)


async def test_a_failure_of_what_had_gathered_without_a_branch_is_made_again_with_it() -> None:
    """The gathering agent ran with two of three; once the third is there, it runs with all."""
    flow = Flow(
        name="gathers",
        agents=(
            asks("Each", "do [[item]]", choose_next=to("All"), targets=["All"]),
            asks("All", "sum {{each}}", gather=True, merge=lambda contexts: merge_contexts(["each"], contexts)),
        ),
    )
    broken = await run(flow, lambda request: ConnectFailed("no") if request.prompt == "do c" else echo(request))
    again = await resumed(broken.told, flow)
    whole = await run(flow)
    assert results(again) == results(whole)
    asked = [request.prompt for request in again.completer.requests]  # type: ignore[attr-defined]
    assert asked == ["do c", "sum <do a>\n\n<do b>\n\n<do c>"]


async def test_a_route_that_failed_is_tried_again_without_asking() -> None:
    broken_route = True

    def choose(context: Context) -> Next:
        if broken_route:
            raise ValueError("no way")
        return Next("B", True)

    flow = Flow(name="route", agents=(asks("A", "go", choose_next=choose, targets=["B"]), asks("B", "on {{a}}")))
    broken = await run(flow)
    assert broken.contexts[0].error is not None
    broken_route = False
    again = await resumed(broken.told, flow)
    assert [request.prompt for request in again.completer.requests] == ["on <go>"]  # type: ignore[attr-defined]
    assert again.contexts[0].trace.text() == "M, A, ✓, →, M, B"


async def test_an_attempt_that_was_answered_is_not_paid_again() -> None:
    """The first answer was no JSON, the second request was under way when the run died."""
    replies = ["no json", '{"x": 1}']
    flow = Flow(name="json", agents=(asks("J", "give json", handler=lambda context: JsonHandler()),))

    def answer(request: Request) -> Answer:
        return Reply(content=replies[len(request.conversation.turns) // 2], cost=COST)

    whole = await run(flow, answer)
    first = next(place for place, told in enumerate(whole.told) if isinstance(told, CompletionFinished))
    again = await resumed(whole.told[: first + 1], flow, answer)
    assert len(again.completer.requests) == 1  # type: ignore[attr-defined]
    assert again.contexts[0]["x"] == whole.contexts[0]["x"]
    assert sum(isinstance(event, CacheHit) for event in again.events) == 1


async def test_answers_of_no_use_are_asked_for_again() -> None:
    flow = Flow(name="json", agents=(asks("J", "give json", handler=lambda context: JsonHandler()),))
    broken = await run(flow, lambda request: "no json")
    again = await resumed(broken.told, flow, lambda request: '{"x": 1}')
    assert again.contexts[0]["x"] == ["1"]
    assert len(again.completer.requests) == 1  # type: ignore[attr-defined]


async def test_a_loop_stopped_by_its_limit_goes_on_with_a_higher_one() -> None:
    def again_until(context: Context) -> Next:
        return Next.end() if context.steps >= 6 else Next.to("A")

    flow = Flow(name="loop", agents=(asks("A", "{{a}}+", choose_next=again_until, targets=["A"]),))
    short = await run(flow, limits=Limits(max_steps=3))
    assert short.events[-1].status == "budget"  # type: ignore[union-attr]
    again = await resumed(short.told, flow)
    assert len(again.completer.requests) == 3  # type: ignore[attr-defined]
    whole = await run(flow)
    assert results(again) == results(whole)


async def test_a_complete_run_has_nothing_to_resume() -> None:
    whole = await run(big_flow())
    with pytest.raises(FlowError, match="nothing is left"):
        resume_point(stored(whole.told), big_flow())


async def test_a_flow_without_an_agent_of_the_record_is_refused() -> None:
    whole = await run(big_flow())
    other = Flow(name="other", agents=(asks("Else", "x"),))
    with pytest.raises(FlowError, match='no agent "Split"'):
        resume_point(stored(whole.told[: len(whole.told) // 2]), other)


async def test_running_from_an_agent_uses_the_contexts_it_had() -> None:
    whole = await run(big_flow())
    reached = stored(whole.told)
    restart = start_point(reached, big_flow(), "Join")
    assert [arrival.output for _, arrival in restart.waiting] == [0, 1, 2]
    again = await RecordedWalk(big_flow(), ScriptedCompleter(echo), restart=restart).to_end()
    assert results(again) == results(whole)
    assert len(again.completer.requests) == 1  # type: ignore[attr-defined]
    started = again.events[0]
    assert isinstance(started, RunStarted)
    assert (started.origin, started.edited, started.kept) == ("from", False, 0)


async def test_a_pass_and_a_branch_can_be_chosen() -> None:
    whole = await run(big_flow())
    reached = stored(whole.told)
    passes = visits(reached, "Improve")
    assert list(passes) == list(range(1, len(passes) + 1))
    assert len(passes[1]) == 3
    branch = passes[1][1].contexts[0].branch
    restart = start_point(reached, big_flow(), "Improve", visit=1, branch=branch)
    assert [begun.context.branch for begun in restart.begins] == [branch]
    with pytest.raises(FlowError, match="has no pass 99"):
        start_point(reached, big_flow(), "Improve", visit=99)
    with pytest.raises(FlowError, match='branch "9/9"'):
        start_point(reached, big_flow(), "Improve", branch="9/9")
    with pytest.raises(FlowError, match='never came to "Name"'):
        start_point(reached, big_flow(), "Name")


async def test_an_edited_context_marks_the_run() -> None:
    flow = Flow(name="two", agents=(asks("A", "go", choose_next=to("B"), targets=["B"]), asks("B", "on {{a}}")))
    reached = stored((await run(flow)).told)
    restart = start_point(reached, flow, "B", edits={"a": ["mine"]})
    again = await RecordedWalk(flow, ScriptedCompleter(echo), restart=restart).to_end()
    assert again.contexts[0].text("b") == "<on mine>"
    assert isinstance(again.events[0], RunStarted)
    assert again.events[0].edited
    assert not start_point(reached, flow, "B", edits={"a": ["<go>"]}).edited


shapes = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), min_size=1, max_size=5)


@busy_machine
@given(shapes, st.sets(st.integers(0, 12), max_size=4), st.floats(0, 1))
async def test_random_flows_with_random_faults_come_to_the_end(
    shape: list[tuple[bool, bool, int]], faults: set[int], share: float
) -> None:
    """`shape`: per agent whether it splits, merges, and how many agents it skips ahead of time."""
    agents: list[Agent] = []
    names = [f"N{number}" for number in range(len(shape))]
    for number, (splits, merges, _) in enumerate(shape):
        target = names[number + 1] if number + 1 < len(names) else None
        merge = (lambda contexts: merge_contexts(["out"], contexts)) if merges else None
        template = f"{number} " + ("[[out]]" if splits else "{{out}}")
        agents.append(
            asks(
                names[number],
                template,
                handler=lambda context: TextHandler("out"),
                merge=merge,
                gather=merges and not splits and number > 0,
                choose_next=to(target) if target else None,
                targets=[target] if target else [],
            )
        )
    flow = Flow(name="random", agents=tuple(agents))
    values: dict[str, object] = {"out": ["p", "q", "r"]}
    whole = await RecordedWalk(flow, ScriptedCompleter(echo), values).to_end()
    count = 0

    def faulty(request: Request) -> Answer:
        nonlocal count
        count += 1
        return ConnectFailed("gone") if count in faults else echo(request)

    first = await RecordedWalk(flow, ScriptedCompleter(faulty), values).to_end()
    places = [place for place, told in enumerate(first.told) if isinstance(told, Checkpoint)]
    told = first.told[: max(places[0] + 1, int(len(first.told) * share))]
    try:
        restart = resume_point(stored(told), flow)
    except FlowError:  # nothing is left to do
        assert results(first) == results(whole)
        return
    again = await RecordedWalk(flow, ScriptedCompleter(echo), restart=restart).to_end()
    assert results(again) == results(whole)


async def test_a_verdict_is_remembered_when_only_the_way_on_had_failed() -> None:
    """A failed answer must not pass because the run was resumed."""
    broken, seen = True, []

    def decide(context: Context, passed: bool) -> Next:
        seen.append(passed)
        if broken:
            raise ValueError("no way")
        return Next.end()

    def verdict(request: Request) -> Reply:
        return Reply(content='{"qaPassed": false, "qaExplanation": "too short"}', cost=COST)

    flow = Flow(name="check", agents=(AnswerGraderBinary("Check", decide=decide),))
    walk = await run(flow, verdict)
    assert walk.contexts[0].error is not None
    broken = False
    again = await resumed(walk.told, flow, verdict)
    assert not again.completer.requests  # type: ignore[attr-defined]
    assert seen == [False, False]
    (context,) = again.contexts
    assert context.grades == {"Check": Grade(outcome=GradeOutcome.FAILED, explanation="too short", iteration=1)}
    assert context.trace.text().endswith("Check, ✗")
