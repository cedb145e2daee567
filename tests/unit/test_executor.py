"""How a flow is walked: events, attempts, what agents can do, errors of branches."""

import asyncio
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, settings

from engine.completion import Chunk, Completion, FinishReason, Phase, RetryNotice
from engine.conversation import Role, ToolCall, Turn
from engine.errors import AnswerIncomplete, FlowError, FlowInvalid, HandlerError
from engine.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    BranchFailed,
    CacheHit,
    ChunkReceived,
    CompletionFinished,
    Graded,
    HandlerFailed,
    Merged,
    PhaseChanged,
    PromptReady,
    Retrying,
    RunFinished,
    RunStarted,
    SplitStarted,
    Warned,
)
from engine.flow.agent import Agent, AgentType, Next, merge_contexts
from engine.flow.context import BranchError, Context, Skip
from engine.flow.executor import Walk
from engine.flow.flow import Flow
from engine.flow.handlers import Again, Handler, HandlerResult, JsonHandler, TextHandler
from engine.profile import ProfileRef
from tests.helpers.scripted_completer import Reply, Request, ScriptedCompleter
from tests.helpers.walked_flows import COMPLETION, PROCESSING, Run, asks, boom, echo, to, works

busy_machine = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# --- events ---


async def test_the_events_of_one_request() -> None:
    pieces = Reply(
        content=[
            Chunk(phase=Phase.QUEUED),
            Chunk(retry=RetryNotice(attempt=2, attempts=3, delay=0.5, reason="busy")),
            "Hel",
            "lo",
        ],
        reasoning="I greet",
        cost=Decimal("0.5"),
    )
    run = await Run(
        [asks("A", "Hi {{n}}", overrides={"temperature": 0})], [pieces], {"n": "Ada"}, outputs=("a",)
    ).to_end()
    assert [type(event) for event in run.events] == [
        RunStarted,
        AgentStarted,
        PromptReady,
        ChunkReceived,
        PhaseChanged,
        Retrying,
        ChunkReceived,
        ChunkReceived,
        CompletionFinished,
        AgentFinished,
        RunFinished,
    ]
    assert {(event.agent, event.step, event.branch) for event in run.events[1:-1]} == {("A", 1, "")}
    assert run.of(RunStarted)[0].profiles == {"A": "profile-M"}
    assert run.of(AgentStarted)[0].category == "M"
    prompt = run.of(PromptReady)[0]
    assert (prompt.turns, prompt.profile, prompt.parameters) == ((("user", "Hi Ada"),), "profile-M", {"temperature": 0})
    assert "".join(chunk.content for chunk in run.of(ChunkReceived)) == "Hello"
    assert run.of(ChunkReceived)[0].reasoning == "I greet"
    done = run.of(CompletionFinished)[0]
    assert (done.content, done.reasoning, done.statistics.cost) == ("Hello", "I greet", Decimal("0.5"))
    assert run.of(AgentFinished)[0].values == {"n": ["Ada"], "a": ["Hello"], "a_reasoning": ["I greet"]}
    assert run.finished.status == "finished"
    assert run.finished.outputs == {"a": ["Hello"]}
    assert run.finished.agents["A"].in_tokens == run.finished.statistics.in_tokens == 10
    assert run.finished.results[0].trace == "M, A"
    assert run.contexts[0].statistic.requests == 1


async def test_the_events_of_a_fan_out_with_merge() -> None:
    fan = asks("F", "do [[f]]", merge=lambda contexts: merge_contexts(["f"], contexts), choose_next=to("E"))
    run = await Run([fan, works("E")], echo, {"f": ["x", "y"]}, max_concurrent=1).to_end()
    steps = [(type(event).__name__, event.agent, event.step, event.branch) for event in run.events]
    assert steps == [
        ("RunStarted", "", 0, ""),
        ("AgentStarted", "F", 1, ""),
        ("SplitStarted", "F", 1, "1/2"),
        ("PromptReady", "F", 1, "1/2"),
        ("ChunkReceived", "F", 1, "1/2"),
        ("CompletionFinished", "F", 1, "1/2"),
        ("SplitStarted", "F", 1, "2/2"),
        ("PromptReady", "F", 1, "2/2"),
        ("ChunkReceived", "F", 1, "2/2"),
        ("CompletionFinished", "F", 1, "2/2"),
        ("Merged", "F", 1, ""),
        ("AgentFinished", "F", 1, ""),
        ("AgentStarted", "E", 2, ""),
        ("AgentFinished", "E", 2, ""),
        ("RunFinished", "", 0, ""),
    ]
    assert [(split.index, split.count, split.label) for split in run.of(SplitStarted)] == [(1, 2, "x"), (2, 2, "y")]
    assert run.of(AgentStarted)[0].splits == 2
    assert run.of(AgentStarted)[1].from_step == 1
    assert (run.of(Merged)[0].inputs, run.of(Merged)[0].outputs) == (2, 1)
    assert [event.to for event in run.of(AgentFinished)] == ["E", None]


async def test_splits_of_splits_have_a_path() -> None:
    agents = [asks("F", "[[f]]", choose_next=to("G")), asks("G", "{{f}} [[s]]")]
    run = await Run(agents, echo, {"f": ["x", "y"], "s": ["1", "2"]}, max_concurrent=1).to_end()
    assert [event.branch for event in run.of(SplitStarted)] == [
        *("1/2", "1/2.1/2", "1/2.2/2"),
        *("2/2", "2/2.1/2", "2/2.2/2"),
    ]
    assert [context.text("g") for context in run.contexts] == ["re x 1", "re x 2", "re y 1", "re y 2"]
    assert len({event.step for event in run.of(AgentStarted)}) == 3


async def test_agents_that_do_not_stream_tell_no_chunks() -> None:
    run = await Run([asks("A", stream=False)]).to_end()
    assert not run.of(ChunkReceived)
    assert run.contexts[0].text("a") == "an answer"


async def test_a_cache_hit_is_told_and_costs_nothing() -> None:
    run = await Run([asks("A")], [Reply(content="kept", cached=True)]).to_end()
    assert len(run.of(CacheHit)) == 1
    assert run.finished.statistics.requests == 0
    assert run.finished.statistics.cached_prompts == 1


async def test_verdicts_are_told_with_their_loop() -> None:
    verdicts = iter([Next.to("W", graded=False), Next.end(graded=True)])
    agents = [asks("W", choose_next=to("G")), works("G", choose_next=lambda context: next(verdicts))]
    run = await Run(agents).to_end()
    assert [event.passed for event in run.of(Graded)] == [False, True]
    assert run.finished.results[0].trace == "M, W, ○, G, ✗, →, M, W, ○, G, ✓"


# --- what agents can do ---


async def test_an_agent_may_be_a_subclass_with_async_methods() -> None:
    class Own(Agent):
        async def before(self, context: Context) -> None:
            context.set("n", 3)

        def handler(self, context: Context) -> Handler:
            return TextHandler("own")

        async def after(self, context: Context) -> None:
            context.set("attempts", context.attempts)

        async def merge(self, contexts: list[Context]) -> list[Context]:
            return contexts

        async def choose_next(self, context: Context) -> Next:
            return Next.to("B")

        def agent_type(self, context: Context) -> AgentType:
            return AgentType.START_CONVERSATION

    run = await Run([Own("A", COMPLETION, template="n={{n}}"), works("B")], echo).to_end()
    assert dict(run.contexts[0]) == {"n": [3], "own": ["re n=3"], "attempts": [1]}
    assert run.contexts[0].trace.text() == "M, A, 1↣1, ○, B"


async def test_each_branch_may_ask_another_model() -> None:
    class Own(Agent):
        def model(self, context: Context) -> ProfileRef:
            return f"model-{context.text('size')}"

        def agent_type(self, context: Context) -> AgentType:
            return PROCESSING if context.text("size") == "none" else COMPLETION

    agent = Own("A", COMPLETION, template="[[size]]")
    run = await Run([agent], echo, {"size": ["small", "none", "large"]}, max_concurrent=1).to_end()
    assert [context.trace.text() for context in run.contexts] == [
        "⇉ 1/3, model-small, A",
        "⇉ 2/3, ○, A",
        "⇉ 3/3, model-large, A",
    ]
    assert [request.profile.name for request in run.completer.requests] == [
        "profile-model-small",
        "profile-model-large",
    ]


async def test_the_trace_names_the_category_or_the_profile() -> None:
    agents = [asks("A", category="L", choose_next=to("B")), asks("B", profile="tiny")]
    run = await Run(agents).to_end()
    assert run.contexts[0].trace.text() == "L, A, →, tiny, B"


async def test_system_prompts_have_placeholders_too() -> None:
    agent = asks("A", "about [[f]]", system_prompt="You know {{topic}} and [[f]].")
    run = await Run([agent], echo, {"f": ["x", "y"], "topic": "all"}, max_concurrent=1).to_end()
    assert [request.turns[0] for request in run.completer.requests] == [
        ["system", "You know all and x."],
        ["system", "You know all and y."],
    ]


async def test_few_shot_and_overrides_reach_the_request() -> None:
    shots = (Turn(role=Role.USER, text="2+2"), Turn(role=Role.ASSISTANT, text="4"))
    run = await Run([asks("A", few_shot=shots, stop=["."], skip_cache=True)]).to_end()
    (request,) = run.completer.requests
    assert request.turns == [["user", "2+2"], ["assistant", "4"], ["user", "go"]]
    assert request.overrides == {"stop": ["."]}
    assert request.skip_cache


async def test_skip_true_means_no_request_and_holds_once() -> None:
    def skip(context: Context) -> None:
        context.skip_next = True

    run = await Run([asks("A", before=skip, choose_next=to("B")), asks("B")]).to_end()
    assert run.contexts[0].trace.text() == "○, A, →, M, B"
    assert run.contexts[0].skip_next is Skip.NO
    assert len(run.completer.requests) == 1


async def test_an_empty_list_does_not_split_and_warns() -> None:
    run = await Run([asks("A", "[[f]] [[g]]")], echo, {"f": [], "g": ["x"]}).to_end()
    assert run.contexts[0].text("a") == "re [[f]] [[g]]"
    assert "there is no value of f" in run.of(Warned)[0].message


async def test_calls_of_unknown_tools_are_dropped_with_a_warning() -> None:
    call = ToolCall(id="1", name="search", arguments="{}")
    reply = Reply(content="no tool", tool_calls=(call,), finish_reason=FinishReason.TOOL_CALLS)
    run = await Run([asks("A")], [reply]).to_end()
    assert run.contexts[0].text("a") == "no tool"
    assert "search" in run.of(Warned)[0].message
    assert run.contexts[0].last is not None
    assert run.contexts[0].last.tool_calls == ()


# --- attempts ---


async def test_the_second_attempt_carries_the_correction_and_skips_the_cache() -> None:
    agent = asks("J", handler=lambda context: JsonHandler())
    run = await Run([agent], ["oops", '{"a": 1}']).to_end()
    first, second = run.completer.requests
    assert not first.skip_cache
    assert second.skip_cache
    assert [role for role, _ in second.turns] == ["user", "assistant", "user"]
    assert second.turns[1] == ["assistant", "oops"]
    assert "not valid JSON" in second.turns[2][1]
    assert [event.attempt for event in run.of(PromptReady)] == [1, 2]
    assert [event.attempt for event in run.of(HandlerFailed)] == [1]
    assert run.contexts[0].trace.text() == "M, J, ⚠"
    assert not run.contexts[0].skip_cache
    assert run.contexts[0].attempts == 2


async def test_a_handler_that_never_agrees_ends_as_parsing() -> None:
    class Never(Handler):
        async def handle(self, completion: Completion, context: Context) -> HandlerResult:
            raise ValueError("not to my taste")

    run = await Run([asks("A", handler=lambda context: Never(), retry_on_parsing_error=1)]).to_end()
    (context,) = run.contexts
    assert context.error is not None
    assert context.error.kind == "PARSING"
    assert isinstance(context.error.exception, HandlerError)
    assert str(context.error.exception) == 'The answer to "A" could not be used: not to my taste'
    assert len(run.completer.requests) == 4
    assert [request.turns for request in run.completer.requests] == [[["user", "go"]]] * 4
    assert context.trace.text() == "M, A, ⚠, ⚠, ⚠, ⚠, ☢"
    assert run.finished.status == "failed"
    assert run.finished.results[0].error_agent == "A"


async def test_passes_are_limited() -> None:
    class Never(Handler):
        async def handle(self, completion: Completion, context: Context) -> HandlerResult:
            return Again("no")

    run = await Run([asks("A", handler=lambda context: Never(), retry_on_parsing_error=1000)]).to_end()
    assert len(run.completer.requests) == 20


async def test_an_error_answer_with_text_is_not_repeated() -> None:
    run = await Run([asks("A")], [Reply(content="half", finish_reason=FinishReason.ERROR)]).to_end()
    (context,) = run.contexts
    assert context.error is not None
    assert context.error.kind == "GENERAL"
    assert context.text("a") == "half"
    assert context.trace.text() == "M, A, ❌"
    assert len(run.completer.requests) == 1


# --- errors of branches ---


async def test_partial_text_is_kept() -> None:
    broken = Reply(
        content=["Once ", "upon"], reasoning="A tale", error=AnswerIncomplete("Cut off.", partial="Once upon")
    )
    run = await Run([asks("A", choose_next=to("B")), asks("B")], [broken]).to_end()
    (context,) = run.contexts
    assert dict(context) == {"a": ["Once upon"], "a_reasoning": ["A tale"]}
    assert context.last is not None
    assert (context.last.content, context.last.finish_reason) == ("Once upon", FinishReason.ERROR)
    assert run.of(BranchFailed)[0].error.partial == "Once upon"
    assert len(run.completer.requests) == 1
    # The tokens were spent, so they are told and counted.
    assert run.of(CompletionFinished)[0].finish_reason is FinishReason.ERROR
    assert run.finished.statistics.out_tokens == 5
    assert context.trace.text(timed=True) == "M, A"


async def test_partial_text_of_an_answer_that_did_not_stream_is_kept_too() -> None:
    run = await Run([asks("A", stream=False)], [AnswerIncomplete("Cut off.", partial="Once")]).to_end()
    assert run.contexts[0].text("a") == "Once"


async def test_one_branch_fails_and_the_others_merge() -> None:
    def answer(request: Request) -> str | Exception:
        return AnswerIncomplete("Cut.") if request.prompt == "y" else f"re {request.prompt}"

    fan = asks(
        "F", "[[f]]", merge=lambda contexts: merge_contexts(["f", "out"], contexts), key="out", choose_next=to("E")
    )
    run = await Run([fan, works("E")], answer, {"f": ["x", "y", "z"]}, outputs=("out",)).to_end()
    good, bad = run.contexts
    assert good["out"] == ["re x", "re z"]
    assert (bad["f"], bad.trace.text()) == (["y"], "⇉ 2/3, M, F")
    assert run.of(BranchFailed)[0].branch == "2/3"
    assert run.finished.status == "failed"
    assert run.finished.outputs == {"out": ["re x", "re z"]}


@pytest.mark.parametrize(
    ("fields", "trace"),
    [
        ({"before": boom}, ""),
        ({"render": boom}, ""),
        ({"handler": boom}, "M, A"),
        ({"after": boom}, "M, A"),
        ({"merge": boom}, "M, A"),
        ({"choose_next": boom}, "M, A"),
        ({"profile": "gone"}, ""),
        ({"template": ""}, "M, A"),
    ],
)
async def test_every_fault_of_an_agent_stays_on_its_branch(fields: dict[str, object], trace: str) -> None:
    run = await Run([asks("A", **{"template": "go", **fields})], missing=frozenset({"gone"})).to_end()  # type: ignore[arg-type]
    (context,) = run.contexts
    assert context.error is not None
    assert (context.error.kind, context.error.agent) == ("GENERAL", "A")
    assert context.trace.text() == trace
    assert [type(event) for event in run.events if isinstance(event, AgentStarted | BranchFailed | AgentFinished)] == [
        AgentStarted,
        BranchFailed,
    ]


async def test_a_failed_merge_keeps_what_was_paid_for() -> None:
    run = await Run([asks("F", "[[f]]", key="out", merge=boom)], echo, {"f": ["x", "y"]}).to_end()
    assert [context.text("out") for context in run.contexts] == ["re x", "re y"]
    assert all(context.error for context in run.contexts)


async def test_a_hook_may_set_the_error_itself() -> None:
    def refuse(context: Context) -> None:
        context.error = BranchError(kind="PARSING", exception=HandlerError("not this one"))

    run = await Run([asks("A", before=refuse)]).to_end()
    assert run.contexts[0].error is not None
    assert run.contexts[0].error.kind == "PARSING"
    assert not run.completer.requests


async def test_a_step_that_cancels_itself_loses_nothing() -> None:
    async def cancel(context: Context) -> None:
        raise asyncio.CancelledError

    agents = [asks("F", "[[f]]", after=cancel)]
    run = await Run(agents, echo, {"f": ["x", "y"]}).to_end()
    assert len(run.contexts) == 2
    assert all(context.error and "cancelled itself" in str(context.error.exception) for context in run.contexts)


async def test_a_flow_with_faults_does_not_start() -> None:
    with pytest.raises(FlowInvalid):
        Run([])
    with pytest.raises(FlowError, match="no agent"):
        Run([works("A")], start="B")


async def test_a_fault_of_emit_ends_the_run() -> None:
    def emit(event: AnyEvent) -> None:
        if isinstance(event, AgentFinished):
            raise OSError("nobody listens")

    flow = Flow(name="f", agents=(asks("A", "[[f]]"),))
    walk = Walk(flow, Context({"f": ["x", "y", "z"]}), ScriptedCompleter(["r"]), run_id="r", emit=emit)
    with pytest.raises(OSError, match="nobody listens"):
        await walk.run()
