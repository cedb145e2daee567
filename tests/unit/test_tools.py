import asyncio
import json
import threading

import pytest

from engine.completion import Chunk, Completion, FinishReason
from engine.conversation import Role, ToolCall, ToolChoice, ToolDefinition, ToolResult, ToolUse, Turn
from engine.events import AnyEvent, PromptReady, ToolCalled, Warned
from engine.flow.agent import Agent, AgentType, Next
from engine.flow.context import Context
from engine.flow.executor import Walk
from engine.flow.flow import Flow, Limits
from engine.flow.handlers import DONE, Again, Handler, HandlerResult, JsonHandler, TextHandler, ToolCallingHandler
from engine.flow.sample_tools import CALCULATOR, calculate
from engine.flow.tools import LONGEST_OUTPUT, AllowTool, Tool, allow_named, holds_outside_text, refuse
from engine.profile import ModelProfile, ProfileOptions
from tests.helpers.scripted_completer import Answer, Reply, ScriptedCompleter

PATIENT = 5.0


def calls(*names: str, arguments: str = "{}", text: str = "") -> Reply:
    return Reply(
        content=text,
        finish_reason=FinishReason.TOOL_CALLS,
        tool_calls=tuple(
            ToolCall(id=f"c{number}", name=name, arguments=arguments) for number, name in enumerate(names, 1)
        ),
    )


def tool(name: str, function: object, **fields: object) -> Tool:
    return Tool(definition=ToolDefinition(name=name), function=function, **fields)  # type: ignore[arg-type]


async def walk(
    answers: list[Answer],
    *agents: Agent,
    context: Context | None = None,
    limits: Limits | None = None,
    allow: AllowTool = refuse,
) -> tuple[Context, ScriptedCompleter, list[AnyEvent]]:
    completer = ScriptedCompleter(answers)
    events: list[AnyEvent] = []
    flow = Flow(name="tools", agents=agents)
    made = Walk(
        flow,
        context or Context(),
        completer,
        run_id="r",
        emit=lambda event: events.append(event),
        limits=limits,
        allow_tool=allow,
    )
    (result,) = await made.run()
    return result, completer, events


def asking(*tools: Tool | ToolDefinition, **fields: object) -> Agent:
    return Agent("A", AgentType.START_CONVERSATION, template="go", tools=tools, **fields)  # type: ignore[arg-type]


def outputs(events: list[AnyEvent]) -> list[tuple[str, bool]]:
    return [(event.output, event.failed) for event in events if isinstance(event, ToolCalled)]


def warnings(events: list[AnyEvent]) -> list[str]:
    return [event.message for event in events if isinstance(event, Warned)]


async def test_a_round_of_calls_and_the_answer() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async def slow_add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    context, completer, events = await walk(
        [calls("add", "later", arguments='{"a": 2, "b": 3}', text="Let me add."), "It is 5."],
        asking(tool("add", add), tool("later", slow_add)),
    )
    assert context.text("response") == "It is 5."
    assert context.trace.text() == "M, A, 🔧"
    assert outputs(events) == [("5", False), ("5", False)]
    assert context.conversation is not None
    assert [(turn.role, turn.text, turn.tool_call_id) for turn in context.conversation.turns[1:]] == [
        (Role.ASSISTANT, "Let me add.", ""),
        (Role.TOOL, "5", "c1"),
        (Role.TOOL, "5", "c2"),
    ]
    assert [request.tools and request.tools.names for request in completer.requests] == [("add", "later")] * 2
    prompts = [event for event in events if isinstance(event, PromptReady)]
    assert [prompt.attempt for prompt in prompts] == [1, 2]
    assert prompts[0].parameters["tools"] == ["add", "later"]
    assert 'add({"a": 2, "b": 3})' in prompts[1].turns[1][1]
    assert context.statistic.requests == 2


async def test_what_goes_wrong_with_one_call_does_not_touch_the_others() -> None:
    released = threading.Event()

    def broken() -> str:
        raise ValueError("no such city")

    async def cancels_itself() -> str:
        raise asyncio.CancelledError

    context, _, events = await walk(
        [calls("broken", "hangs", "waits", "unknown", "gives_up", "leaves", "works"), "done"],
        asking(
            tool("broken", broken),
            tool("hangs", lambda: released.wait(PATIENT), timeout=0.05),
            tool("waits", lambda: asyncio.sleep(PATIENT), timeout=0.05),
            tool("gives_up", cancels_itself),
            tool("leaves", lambda: exit()),
            tool("works", lambda: {"ok": True}),
        ),
    )
    released.set()
    assert context.text("response") == "done"
    assert outputs(events) == [
        ("Error: broken failed: ValueError: no such city", True),
        ("Error: hangs took longer than 0.05 seconds.", True),
        ("Error: waits took longer than 0.05 seconds.", True),
        ("Error: Unknown tool unknown. Available: broken, hangs, waits, gives_up, leaves, works", True),
        ("Error: gives_up failed: RuntimeError: it cancelled itself", True),
        ("Error: leaves failed: RuntimeError: SystemExit", True),
        ('{"ok": true}', False),
    ]
    assert [text for text in warnings(events) if '"unknown"' in text]
    assert context.conversation is not None
    assert [turn.is_error for turn in context.conversation.turns if turn.role is Role.TOOL] == [True] * 6 + [False]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{oops", "Error: Arguments are not valid JSON: "),
        ("[1]", "Error: Arguments are not valid JSON: expected an object"),
        ("[" * 100_000, "Error: Arguments are not valid JSON: "),
        ("{}", 'Error: Arguments do not fit the tool calculator: $: "expression" is missing'),
        (
            '{"expression": 3}',
            "Error: Arguments do not fit the tool calculator: $.expression: expected string, found",
        ),
    ],
)
async def test_faulty_arguments_are_told_to_the_model(arguments: str, reason: str) -> None:
    _, _, events = await walk([calls("calculator", arguments=arguments), "sorry"], asking(CALCULATOR))
    ((output, failed),) = outputs(events)
    assert output.startswith(reason)
    assert failed


async def test_the_same_call_twice_runs_once() -> None:
    ran: list[int] = []
    answer = Reply(
        finish_reason=FinishReason.TOOL_CALLS,
        tool_calls=(
            ToolCall(id="x", name="t", arguments='{"a": 1, "b": 2}'),
            ToolCall(id="x", name="t", arguments='{"b":2,"a":1}'),
        ),
    )
    context, _, events = await walk([answer, "done"], asking(tool("t", lambda a, b: ran.append(a) or "ok")))
    assert ran == [1]
    assert outputs(events) == [("ok", False)] * 2
    assert context.conversation is not None
    assert [turn.tool_call_id for turn in context.conversation.turns[2:]] == ["x", "x_2"]


async def test_long_results_are_cut() -> None:
    _, _, events = await walk([calls("t"), "done"], asking(tool("t", lambda: "x" * 20_000)))
    ((output, _),) = outputs(events)
    assert output == "x" * LONGEST_OUTPUT + "... [truncated, 20000 characters total]"


async def test_no_more_rounds_than_allowed() -> None:
    context, completer, _ = await walk([calls("t")], asking(tool("t", lambda: "again"), max_tool_rounds=2))
    assert context.error is not None
    assert context.error.kind == "GENERAL"
    assert str(context.error.exception).startswith("The model still calls tools after 2 rounds")
    assert len(completer.requests) == 3
    assert context.trace.text() == "M, A, 🔧, 🔧, 🔧"


async def test_no_more_calls_in_a_run_than_allowed() -> None:
    ran: list[int] = []
    agent = asking(tool("t", lambda: ran.append(1)), tool("u", lambda: ran.append(1)), max_tool_rounds=100)
    context, _, _ = await walk([calls("t", "u")], agent, limits=Limits(max_tool_calls=5))
    assert context.error is not None
    assert context.error.info.facts == {"limit": "max_tool_calls", "spent": "4"}
    assert len(ran) == 4


async def test_what_writes_runs_only_when_it_was_allowed() -> None:
    ran: list[str] = []
    agent = asking(tool("send", lambda: ran.append("sent") or "sent", side_effects=True))
    _, _, events = await walk([calls("send"), "done"], agent)
    assert outputs(events) == [("Error: send was not allowed.", True)]
    assert not ran
    _, _, events = await walk([calls("send"), "done"], agent, allow=allow_named(["send"]))
    assert outputs(events) == [("sent", False)]

    async def ask(asked: Tool, call: ToolCall) -> bool:
        return asked.name == "send" and call.id == "c1"

    _, _, events = await walk([calls("send"), "done"], agent, allow=ask)
    assert outputs(events) == [("sent", False)]


async def test_a_handler_may_run_the_calls_itself() -> None:
    def run(completion: object, context: Context) -> list[ToolResult]:
        context.set("seen", "yes")
        return [ToolResult(call_id="c2", output="rain"), ToolResult(call_id="other", output="?")]

    agent = asking(
        ToolDefinition(name="a"), ToolDefinition(name="b"), handler=lambda _: ToolCallingHandler(function=run)
    )
    context, _, events = await walk([calls("a", "b"), "It rains."], agent)
    assert outputs(events) == [("Error: the call gave no result", True), ("rain", False)]
    assert context.text("seen") == "yes"

    def fails(completion: object, context: Context) -> list[ToolResult]:
        raise OSError("disk full")

    agent = asking(ToolDefinition(name="a"), handler=lambda _: ToolCallingHandler(function=fails))
    _, _, events = await walk([calls("a"), "Sorry."], agent)
    assert outputs(events) == [("Error: OSError: disk full", True)]


async def test_calls_that_nobody_takes_are_the_final_answer() -> None:
    agent = asking(ToolDefinition(name="a"))
    context, completer, events = await walk([calls("a", text="I would call a.")], agent)
    assert context.text("response") == "I would call a."
    assert len(completer.requests) == 1
    assert any("nothing runs here (a)" in text for text in warnings(events))


async def test_later_agents_of_a_conversation_remember_the_tools() -> None:
    first = asking(CALCULATOR, choose_next=lambda _: Next.to("B"))
    text = Agent("B", AgentType.CONVERSATION, template="and?", choose_next=lambda _: Next.to("C"))
    again = Agent(
        "C",
        AgentType.CONVERSATION,
        template="more",
        handler=lambda _: ToolCallingHandler(TextHandler("sum")),
        choose_next=lambda _: Next.to("D"),
    )
    fresh = Agent("D", AgentType.COMPLETION, template="new")
    sum_ = json.dumps({"expression": "1 + 1"})
    context, completer, events = await walk(
        ["one", calls("calculator", arguments=sum_), calls("calculator", arguments=sum_), "2", "new"],
        first,
        text,
        again,
        fresh,
    )
    used = [request.tools.use if request.tools else None for request in completer.requests]
    assert used == [ToolUse.AUTO, ToolUse.NONE, ToolUse.AUTO, ToolUse.AUTO, None]
    assert outputs(events) == [("1 + 1 = 2", False)]
    assert context.text("sum") == "2"


async def test_tools_of_the_context_win() -> None:
    other = ToolChoice.required([CALCULATOR.definition])
    agent = asking(CALCULATOR, tool("t", lambda: "t"))
    sum_ = json.dumps({"expression": "2 * 3"})
    context, completer, events = await walk(
        [calls("calculator", arguments=sum_), "6"], agent, context=Context({"_toolCallData": [other]})
    )
    assert context.text("response") == "6"
    assert [request.tools for request in completer.requests] == [other, other.choosing(ToolUse.AUTO)]
    assert outputs(events) == [("2 * 3 = 6", False)]


async def test_a_tool_that_must_be_called_is_asked_for_once_more() -> None:
    agent = asking(CALCULATOR, forced_tool="calculator")
    context, completer, _ = await walk(["seven"], agent)
    assert context.error is not None
    assert "it calls no tool" in str(context.error.exception)
    assert [request.tools.forced for request in completer.requests if request.tools] == ["calculator"] * 2
    sum_ = json.dumps({"expression": "3 + 4"})
    context, completer, _ = await walk([calls("calculator", arguments=sum_), "7"], agent)
    assert context.text("response") == "7"
    assert completer.requests[1].tools == ToolChoice.auto([CALCULATOR.definition])


async def test_a_profile_without_tools_is_asked_without_them() -> None:
    profile = ModelProfile(name="p", category="M", provider="X", options=ProfileOptions(supports_tools=False))
    context, completer, events = await walk(["plain"], asking(CALCULATOR, profile=profile))
    assert context.text("response") == "plain"
    assert completer.requests[0].tools is None
    assert any("takes none" in text for text in warnings(events))


async def test_an_unusable_final_answer_is_asked_again_with_fresh_eyes() -> None:
    class Never(Handler):
        calls_tools = True

        async def handle(self, completion: object, context: Context) -> HandlerResult:
            return Again("never content")

    agent = asking(tool("t", lambda: 1), handler=lambda _: Never())
    context, completer, _ = await walk([calls("t"), "x", calls("t"), "y"], agent)
    assert context.error is not None
    assert context.error.kind == "PARSING"
    assert [request.skip_cache for request in completer.requests] == [False, False, True, True]
    assert context.trace.text() == "M, A, 🔧, ⚠, 🔧, ⚠, ☢"


async def test_the_final_answer_goes_through_the_other_handler() -> None:
    agent = asking(tool("t", lambda: 1), handler=lambda _: ToolCallingHandler(JsonHandler("j_")))
    context, _, _ = await walk([calls("t"), '{"a": 1}'], agent)
    assert context.text("j_a") == "1"


async def test_stopping_a_run_leaves_no_tool_behind() -> None:
    began = asyncio.Event()
    ended = asyncio.Event()

    async def forever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(walk([calls("t"), "x"], asking(tool("t", forever))))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("17 * 23", "17 * 23 = 391"),
        ("96 / 8", "96 / 8 = 12"),
        ("0.1 + 0.2", "0.1 + 0.2 = 0.3"),
        ("-(2 + 3) ** 2", "-(2 + 3) ** 2 = -25"),
        ("2^10 =", "2^10 = 1024"),
        ("1,234 × 2", "1,234 × 2 = 2468"),
        ("7 // 2 + 7 % 4", "7 // 2 + 7 % 4 = 6"),
        ("10 / 4", "10 / 4 = 2.5"),
    ],
)
def test_calculations(expression: str, result: str) -> None:
    assert calculate(expression) == result


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1 +",
        "__import__('os')",
        "a + 1",
        "True + 1",
        "1 / 0",
        "9 ** 9 ** 9",
        "1e308 * 10 ** 400",
        "(-8) ** 0.5",
        "3,5 * 2",
        "1" * 201,
        "'a' * 3",
        "(" * 150,
    ],
)
def test_what_is_no_calculation(expression: str) -> None:
    with pytest.raises(ValueError, match=r"calculation|calculated|divides|too large|no number|characters"):
        calculate(expression)


async def test_the_other_handler_sees_the_stream() -> None:
    context = Context({"response": ["old"]})
    handler = ToolCallingHandler()
    handler.before_stream(context)
    handler.on_chunk(Chunk(content="half"), context)
    assert context.text("response") == "half"
    handler.keep(Completion(content="half an answer"), context)
    assert context.text("response") == "half an answer"
    assert await handler.handle(Completion(content="new"), context) is DONE
    assert context.text("response") == "new"


def test_text_from_outside_is_known_by_the_tool_that_brought_it() -> None:
    def tool(name: str, *, side_effects: bool) -> Tool:
        return Tool(definition=ToolDefinition(name=name), function=str, side_effects=side_effects)

    tools = {one.name: one for one in (tool("add", side_effects=False), tool("fetch", side_effects=True))}
    for name, outside in (("add", False), ("fetch", True), ("unknown", True)):
        turns = [
            Turn(role=Role.USER, text="q"),
            Turn(role=Role.ASSISTANT, tool_calls=(ToolCall(id="c1", name=name, arguments="{}"),)),
            Turn(role=Role.TOOL, text="3", tool_call_id="c1"),
        ]
        assert holds_outside_text(turns, tools) is outside
        assert not holds_outside_text(turns[:2], tools)
