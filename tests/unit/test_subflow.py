"""A flow as one node: what goes in and comes back, what is shared, how its events and errors are told."""

import asyncio
from decimal import Decimal

import pytest

from engine.errors import FlowError, ServerError
from engine.events import (
    AgentStarted,
    AnyEvent,
    BranchFailed,
    CompletionFinished,
    RunFinished,
    RunStarted,
    SplitStarted,
)
from engine.flow.agent import Agent, Next, merge_contexts
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.flow.flow_spec import AgentType, InputSpec
from engine.flow.handlers import AccumulateHandler, JsonHandler, TextHandler
from engine.flow.subflow import SubflowAgent
from tests.helpers.scripted_completer import Answers, Reply, Request, ScriptedCompleter

ONE = AgentType.COMPLETION


def ask(name: str, template: str, key: str, to: str | None = None, **more: object) -> Agent:
    """An agent that stores its answer under a key."""
    fields: dict[str, object] = {"handler": lambda _: TextHandler(key), "choose_next": lambda _: Next(to)}
    return Agent(name, ONE, template=template, **(fields | more))  # type: ignore[arg-type]


def chapter(**more: object) -> Flow:
    """A flow of two agents: an outline, then the text."""
    agents = (
        ask("Outline", "Outline {{topic}} in {{words}}", "outline", "Write"),
        ask("Write", "Write {{outline}}", "text"),
    )
    inputs = (InputSpec(key="topic", required=True), InputSpec(key="words", type="number", default=50))
    return Flow(name="Chapter", agents=agents, inputs=inputs, outputs=("text",), **more)  # type: ignore[arg-type]


async def walk(
    flow: Flow, answers: Answers, values: dict[str, object], **more: object
) -> tuple[list[Context], list[AnyEvent], ScriptedCompleter]:
    completer = ScriptedCompleter(answers)
    events: list[AnyEvent] = []
    going = Walk(flow, Context(values), completer, run_id="r", emit=events.append, **more)  # type: ignore[arg-type]
    return await going.run(), events, completer


def echo(request: Request) -> str:
    return f"<{request.prompt}>"


def last(events: list[AnyEvent]) -> RunFinished:
    assert isinstance(events[-1], RunFinished)
    assert sum(isinstance(event, RunFinished | RunStarted) for event in events) == 2
    return events[-1]


async def test_a_node_maps_in_and_out() -> None:
    node = SubflowAgent("Part", chapter(), inputs={"topic": "{{subject}}!"}, outputs={"part": "text"})
    flow = Flow(name="Book", agents=(node,), outputs=("part",))
    contexts, events, completer = await walk(flow, echo, {"subject": "cats", "outline": "kept"})
    assert [request.prompt for request in completer.requests] == ["Outline cats! in 50", "Write <Outline cats! in 50>"]
    assert contexts[0].values_copy() == {
        "subject": ["cats"],
        "outline": ["kept"],
        "part": ["<Write <Outline cats! in 50>>"],
    }
    assert contexts[0].trace.text() == "Part"
    assert contexts[0].trace.unfolded() == "Part {M, Outline, →, M, Write}"
    done = last(events)
    assert done.results[0].trace == "Part"
    assert done.results[0].trace_unfolded == "Part {M, Outline, →, M, Write}"
    assert list(done.agents) == ["Part"]
    assert done.agents["Part"].requests == done.statistics.requests == 2
    assert contexts[0].statistic.requests == 2


async def test_its_events_tell_where_they_are() -> None:
    node = SubflowAgent("Part", chapter(), inputs={"topic": "[[subject]]"})
    flow = Flow(name="Book", agents=(ask("First", "x", "y", "Part"), node))
    contexts, events, _ = await walk(flow, echo, {"subject": ["cats", "dogs"]})
    started = [event for event in events if isinstance(event, AgentStarted)]
    assert [(event.agent, event.within) for event in started[:2]] == [("First", 0), ("Part", 0)]
    assert sorted((event.agent, event.within, event.branch) for event in started[2:]) == [
        ("Part/Outline", 2, "1/2"),
        ("Part/Outline", 2, "2/2"),
        ("Part/Write", 2, "1/2"),
        ("Part/Write", 2, "2/2"),
    ]
    assert len({event.step for event in started}) == 6
    begun = events[0]
    assert isinstance(begun, RunStarted)
    assert list(begun.profiles) == ["First", "Part/Outline", "Part/Write"]
    assert [context["text"] for context in contexts] == [
        ["<Write <Outline cats in 50>>"],
        ["<Write <Outline dogs in 50>>"],
    ]
    assert [context.trace.text() for context in contexts] == [
        "M, First, ⇉ 1/2, Part",
        "M, First, ⇉ 2/2, Part",
    ]


async def test_a_node_merges_and_goes_on_in_the_conversation() -> None:
    node = SubflowAgent(
        "Part",
        chapter(),
        inputs={"topic": "[[subject]]"},
        merge=lambda contexts: merge_contexts(["text"], contexts),
        choose_next=lambda _: Next("End"),
    )
    first = Agent("First", AgentType.START_CONVERSATION, template="Hi", choose_next=lambda _: Next("Part"))
    end = Agent("End", AgentType.CONVERSATION, template="{{{text}}}")
    flow = Flow(name="Book", agents=(first, node, end))
    contexts, _, completer = await walk(flow, lambda request: request.prompt[-4:], {"subject": ["cats", "dogs"]})
    assert completer.requests[-1].turns == [
        ["user", "Hi"],
        ["assistant", "Hi"],
        ["user", '["n 50","n 50"]'],
    ]
    assert contexts[0].trace.text() == "M, First, ⇉ 1/2, Part, 2↣1, ↴, M, End"


async def test_lists_pass_as_they_are_to_inputs_that_take_them() -> None:
    inner = Flow(
        name="Inner",
        agents=(ask("A", "[[items]] {{data}} {{{text}}}", "out", merge=lambda all_: merge_contexts(["out"], all_)),),
        inputs=(InputSpec(key="items", type="list"), InputSpec(key="data", type="json"), InputSpec(key="text")),
        outputs=("out",),
    )
    node = SubflowAgent("N", inner, inputs={"items": "{{it}}", "data": {"a": [1]}, "text": "{{it}}"})
    contexts, events, _ = await walk(Flow(name="F", agents=(node,)), echo, {"it": ["a", 2]})
    assert contexts[0]["out"] == ['<a {"a":[1]} ["a\\n\\n2"]>', '<2 {"a":[1]} ["a\\n\\n2"]>']
    assert [event.branch for event in events if isinstance(event, SplitStarted)] == ["1/2", "2/2"]


async def test_a_file_input_of_a_node_is_text_never_a_path(tmp_path: object) -> None:
    inner = Flow(name="I", agents=(ask("A", "{{doc}}", "out"),), inputs=(InputSpec(key="doc", type="file"),))
    _, _, completer = await walk(
        Flow(name="F", agents=(SubflowAgent("N", inner, inputs={"doc": "{{doc}}"}),)), echo, {"doc": "/etc/hostname"}
    )
    assert completer.requests[0].prompt == "/etc/hostname"


async def test_what_an_input_does_not_take_fails_the_branch() -> None:
    node = SubflowAgent("N", chapter(), inputs={"topic": "x", "words": "many"})
    contexts, _, completer = await walk(Flow(name="F", agents=(node,)), echo, {})
    assert completer.requests == []
    assert contexts[0].error is not None
    assert isinstance(contexts[0].error.exception, FlowError)
    assert str(contexts[0].error.exception) == (
        '"N" cannot give the input "words": found "many", expected a number with a decimal point.'
    )


async def test_outputs_may_be_expressions_over_several_results() -> None:
    fan = Flow(name="I", agents=(ask("A", "[[n]]", "out"),), inputs=(InputSpec(key="n", type="list"),))
    node = SubflowAgent("N", fan, inputs={"n": [1, 2, 3]}, outputs={"all": "out", "len": "out | length", "no": "gone"})
    contexts, _, _ = await walk(Flow(name="F", agents=(node,)), echo, {"no": "before"})
    assert contexts[0].values_copy() == {"all": ["<1>", "<2>", "<3>"], "len": [3, 3, 3]}


async def test_an_error_inside_names_the_agent_inside() -> None:
    error = ServerError("The server said 500.", facts={"url": "http://x"})
    node = SubflowAgent("Part", chapter(), inputs={"topic": "t"})
    outer = SubflowAgent("Outer", Flow(name="Mid", agents=(node,)))
    contexts, events, _ = await walk(Flow(name="F", agents=(outer,)), ["ok", error], {})
    found = contexts[0].error
    assert found is not None
    assert (found.agent, found.kind, found.exception) == ("Outer/Part/Write", "GENERAL", error)
    failed = [event for event in events if isinstance(event, BranchFailed)]
    assert [event.agent for event in failed] == ["Outer/Part/Write", "Outer/Part", "Outer"]
    done = last(events)
    assert (done.status, done.results[0].error_agent) == ("failed", "Outer/Part/Write")


async def test_parsing_errors_stay_parsing_errors() -> None:
    inner = Flow(name="I", agents=(Agent("J", ONE, template="x", handler=lambda _: JsonHandler()),))
    contexts, _, _ = await walk(Flow(name="F", agents=(SubflowAgent("N", inner),)), ["no json"], {})
    assert contexts[0].error is not None
    assert (contexts[0].error.kind, contexts[0].error.agent) == ("PARSING", "N/J")
    assert contexts[0].trace.unfolded() == "N {M, J, ⚠, ⚠, ☢}"


async def test_the_good_branches_inside_go_on() -> None:
    fan = Flow(name="I", agents=(ask("A", "[[n]]", "out"),), outputs=("out",))
    node = SubflowAgent("N", fan, inputs={"n": [1, 2, 3]}, choose_next=lambda _: Next("After"))
    flow = Flow(name="F", agents=(node, ask("After", "{{{out}}}", "end")))

    def answer(request: Request) -> str | Exception:
        return ServerError("broken") if request.prompt == "2" else echo(request)

    contexts, events, _ = await walk(flow, answer, {})
    assert [context.get("end") for context in contexts] == [['<["<1>","<3>"]>'], None]
    assert contexts[1].error is not None
    assert contexts[1].error.agent == "N/A"
    assert last(events).status == "failed"


async def test_limits_are_shared() -> None:
    inner = chapter(limits=Limits(max_steps=50))
    node = SubflowAgent("Part", inner, inputs={"topic": "t"}, choose_next=lambda _: Next("Part"))
    flow = Flow(name="F", agents=(node,), limits=Limits(max_steps=7))
    contexts, events, completer = await walk(flow, echo, {})
    # Node, two inside, node, two inside, node: then the one inside would be the eighth.
    assert len(completer.requests) == 5
    done = last(events)
    assert done.status == "budget"
    assert contexts[0].error is not None
    assert contexts[0].error.agent == "Part/Outline"
    money = Flow(name="F", agents=(node,), limits=Limits(max_cost=Decimal("0.3")))
    _, events, completer = await walk(money, lambda _: Reply(content="x", cost=Decimal("0.1")), {})
    assert len(completer.requests) == 3
    assert last(events).status == "budget"


async def test_its_own_limit_of_steps_holds_inside() -> None:
    loop = Flow(
        name="I",
        agents=(ask("A", "x", "y", "A", handler=lambda _: AccumulateHandler("y")),),
        limits=Limits(max_steps=3),
    )
    node = SubflowAgent("N", loop)
    _, events, completer = await walk(Flow(name="F", agents=(ask("First", "x", "z", "N"), node)), echo, {})
    assert len(completer.requests) == 1 + 3
    assert last(events).status == "budget"


async def test_gathering_inside_and_around() -> None:
    """The node counts as one live step: what gathers behind it waits."""
    node = SubflowAgent("N", chapter(), inputs={"topic": "{{t}}"}, choose_next=lambda _: Next("G"), targets=["G"])
    split = Agent(
        "S",
        AgentType.PROCESSING_ONLY,
        template="[[t]]",
        choose_next=lambda context: Next("N" if context.split_index == 1 else "G"),
        targets=["N", "G"],
    )
    gather = Agent(
        "G",
        ONE,
        template="{{text}}",
        gather=True,
        merge=lambda contexts: merge_contexts(["text"], contexts),
    )
    contexts, events, _ = await walk(Flow(name="F", agents=(split, node, gather)), echo, {"t": ["a", "b"]})
    assert len(contexts) == 1
    assert contexts[0].trace.text() == "⇉ 1/2, ○, S, N, →, 2↣1, M, G"
    asked = [event.agent for event in events if isinstance(event, CompletionFinished)]
    assert asked == ["N/Outline", "N/Write", "G"]


async def test_the_time_of_the_run_ends_what_a_node_does(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()

    def much_later(context: Context) -> None:
        monkeypatch.setattr(loop, "time", lambda: now + 61)

    inside = Flow(name="Inside", agents=(Agent("Work", AgentType.PROCESSING_ONLY, before=much_later),))
    flow = Flow(name="F", agents=(SubflowAgent("Node", inside),), limits=Limits(max_seconds=60))
    _, events, _ = await walk(flow, echo, {})
    assert last(events).status == "budget"
    assert "longer than the 60 seconds" in last(events).reason
    assert {event.error.name for event in events if isinstance(event, BranchFailed)} == {"BudgetExceeded"}
