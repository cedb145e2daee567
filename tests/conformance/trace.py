"""Vectors of trace.json: whole flows with a scripted model."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from engine.completion import Completion, FinishReason
from engine.conversation import Conversation, ToolCall, ToolDefinition, ToolResult
from engine.errors import FlowError, RequestError
from engine.flow.agent import Agent, AgentType, Next, merge_contexts
from engine.flow.context import Context, Skip
from engine.flow.executor import Walk
from engine.flow.flow import Flow
from engine.flow.graders import GRADERS
from engine.flow.handlers import Handler, JsonHandler, TextHandler, ToolCallingHandler
from tests.conformance.cases import Case, Kinds
from tests.helpers.scripted_completer import Answer, Reply, Request, ScriptedCompleter

Map = Mapping[str, object]


class NotSupported(Exception):
    """The vector needs something this runner does not build."""


class Script:
    """Answers by the agent that asks; which that is, the run's events tell."""

    def __init__(self, responses: Sequence[Map]) -> None:
        self._responses = responses
        self._used: dict[int, int] = {}
        self.asked: list[str] = []
        self.agent = ""

    def __call__(self, request: Request) -> Answer:
        texts = [turn.text for turn in request.conversation.turns]
        self.asked.append(self.agent)
        for number, entry in enumerate(self._responses):
            wanted = cast("str | None", entry.get("when_prompt_contains"))
            if entry["agent"] == self.agent and (wanted is None or any(wanted in text for text in texts)):
                replies = cast("list[object]", entry["replies"])
                used = self._used.get(number, 0)
                self._used[number] = used + 1
                return _answer(replies[min(used, len(replies) - 1)])
        raise AssertionError(f"nothing is scripted for {self.agent}: {texts}")

    def see(self, event: object) -> None:
        """Note which agent is about to ask: PromptReady comes right before the request, with no wait between."""
        if hasattr(event, "turns"):
            self.agent = cast("str", getattr(event, "agent", ""))


def _answer(reply: object) -> Answer:
    if isinstance(reply, str):
        return reply
    fields = cast("Map", reply)
    if "raise" in fields:
        return RequestError(str(fields["raise"]))
    if unknown := fields.keys() - {"text", "reasoning", "finish_reason", "tool_calls"}:
        raise NotSupported(f"replies with {sorted(unknown)}")
    return Reply(
        content=str(fields.get("text", "")),
        reasoning=str(fields.get("reasoning", "")),
        finish_reason=FinishReason(str(fields.get("finish_reason", "DONE"))),
        tool_calls=tuple(
            ToolCall(id=call["id"], name=call["name"], arguments="{}")
            for call in cast("list[Mapping[str, str]]", fields.get("tool_calls") or [])
        ),
    )


def _agent(fields: Map) -> Agent:
    if "grader" in fields:
        return GRADERS[str(fields["grader"])]()
    known = {"name", "type", "category", "system", "template", "handler", "pre", "post", "merge", "next", "tools"}
    if unknown := fields.keys() - known:
        raise NotSupported(f"agents with {sorted(unknown)}")
    merge = cast("list[str] | None", fields.get("merge"))
    return Agent(
        str(fields["name"]),
        AgentType(str(fields["type"])),
        category=str(fields.get("category", "M")),
        system_prompt=str(fields.get("system") or ""),
        template=str(fields.get("template") or ""),
        handler=_handler(cast("Map", fields.get("handler") or {"kind": "text", "key": "response"})),
        before=_hook(cast("Map | None", fields.get("pre"))),
        after=_hook(cast("Map | None", fields.get("post"))),
        merge=None if merge is None else lambda contexts: merge_contexts(merge, contexts),
        choose_next=_route(fields.get("next")),
        tools=[ToolDefinition(name=name) for name in cast("list[str]", fields.get("tools") or [])],
    )


def _handler(fields: Map) -> Callable[[Context], Handler]:
    match fields["kind"]:
        case "text":
            return lambda context: TextHandler(str(fields["key"]))
        case "json":
            return lambda context: JsonHandler(str(fields.get("prefix") or ""))
        case "tool":
            delegate = _handler(cast("Map", fields["delegate"]))
            outputs = cast("Mapping[str, str]", fields["results"])
            return lambda context: ToolCallingHandler(delegate(context), function=_function(outputs))
    raise NotSupported(f"the handler {fields['kind']}")


def _function(outputs: Mapping[str, str]) -> Callable[[Completion, Context], list[ToolResult]]:
    def run(completion: Completion, _context: Context) -> list[ToolResult]:
        return [
            ToolResult(call_id=call.id, output=outputs[call.name])
            for call in completion.tool_calls
            if call.name in outputs
        ]

    return run


def _hook(fields: Map | None) -> Callable[[Context], None] | None:
    if fields is None:
        return None

    def run(context: Context) -> None:
        for key, values in cast("Mapping[str, list[object]]", fields.get("set") or {}).items():
            context[key] = values
        if "skip" in fields:
            context.skip_next = Skip(str(fields["skip"]))
        if "raise" in fields:
            raise FlowError(str(fields["raise"]))

    return run


def _route(value: object) -> Callable[[Context], Next]:
    choices = iter(value if isinstance(value, list) else [value])
    last: object = None

    def choose(_context: Context) -> Next:
        nonlocal last
        last = next(choices, last)
        if isinstance(last, dict):
            return Next(last["name"], last["grading"])
        return Next(cast("str | None", last))

    return choose


async def run_flow(case: Case) -> object:
    """Walk the flow of a vector, once for each name in `first`."""
    given = case.given
    script = Script(cast("list[Map]", given["responses"]))
    completer = ScriptedCompleter(script)
    flow = Flow(name=case.id, agents=tuple(_agent(fields) for fields in cast("list[Map]", given["agents"])))
    first = given["first"]
    contexts = [Context(cast("Map", given.get("context") or {}))]
    for name in cast("list[str]", first if isinstance(first, list) else [first]):
        contexts = await Walk(flow, contexts[0], completer, run_id=case.id, emit=script.see, start=name).run()
    expect = cast("Map", case.expect)
    wanted = cast("list[Map]", expect["results"])
    found: dict[str, object] = {
        "results": [
            _result(context, wanted[index] if index < len(wanted) else {}) for index, context in enumerate(contexts)
        ],
        "requests_total": contexts[0].statistic.requests,
    }
    if "request_agents" in expect:
        found["request_agents"] = script.asked
    if "requests" in expect:
        found["requests"] = _requests(script, completer, expect, ordered=not given.get("unordered"))
    return found


def _result(context: Context, wanted: Map) -> dict[str, object]:
    values = dict(context)
    contains = cast("Mapping[str, str]", wanted.get("context_contains") or {})
    for key in ("qaOutputFormat", *contains):
        values.pop(key, None)
    found: dict[str, object] = {
        "graph": context.trace.text(),
        "graph_timed": re.sub(r"\(\d+ ms\)", "(* ms)", context.trace.text(timed=True)),
        "error": context.error.kind if context.error else None,
        "context": values,
    }
    if contains:
        found["context_contains"] = {key: text for key, text in contains.items() if text in context.text(key)}
    if "turns" in wanted:
        turns = None if context.conversation is None else _turns(context.conversation)
        found["turns"] = _with_corrections(turns, wanted["turns"])
    return found


def _turns(conversation: Conversation) -> list[list[str]]:
    return [[turn.role.value, turn.text] for turn in conversation.turns]


def _with_corrections(turns: list[list[str]] | None, wanted: object) -> list[list[str]] | None:
    """Write `<correction>` where one is wanted and there is any user text."""
    expected = wanted if isinstance(wanted, list) else []
    for turn, other in zip(turns or (), expected, strict=False):
        if other == ["user", "<correction>"] and turn[0] == "user" and turn[1].strip():
            turn[1] = "<correction>"
    return turns


def _requests(script: Script, completer: ScriptedCompleter, expect: Map, *, ordered: bool) -> list[object]:
    wanted = cast("list[dict[str, object]]", expect["requests"])
    found: list[dict[str, object]] = [
        {"agent": agent, "turns": request.turns}
        for agent, request in zip(script.asked, completer.requests, strict=True)
    ]
    if not ordered:
        found.sort(key=lambda item: (str(item["agent"]), str(item["turns"])))
        if wanted != sorted(wanted, key=lambda item: (str(item["agent"]), str(item["turns"]))):
            raise NotSupported("unordered requests that are not written in order")
    for request, item, other in zip(completer.requests, found, wanted, strict=False):
        item["turns"] = _with_corrections(cast("list[list[str]]", item["turns"]), other.get("turns"))
        if "skip_cache" in other:
            if not ordered:
                raise NotSupported("skip_cache of unordered requests")
            item["skip_cache"] = request.skip_cache
    return list(found)


KINDS: Kinds = {"flow": run_flow}
