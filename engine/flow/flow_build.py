"""Builds the flow that runs from the declarative form: operations, handlers, merges and routes become functions."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from decimal import Decimal

from engine.conversation import Role, ToolCall, Turn
from engine.errors import EngineError, FlowInvalid, TemplateError
from engine.flow import expressions
from engine.flow.agent import MAX_TOOL_ROUNDS, Agent, Hook, Merge, Next, merge_contexts
from engine.flow.agent_check import is_ignored_override, is_secret
from engine.flow.context import Context, Skip, text_of
from engine.flow.csv_handlers import CsvHandler
from engine.flow.evaluator import IN_PROCESS, Evaluator, at_once
from engine.flow.flow import Flow, Limits
from engine.flow.flow_check import check_flow
from engine.flow.flow_spec import (
    AgentSpec,
    AgentType,
    FlowSpec,
    HandlerSpec,
    LimitsSpec,
    MergeSpec,
    ModelSpec,
    OperationSpec,
    ShotSpec,
)
from engine.flow.graders import GRADERS
from engine.flow.handlers import AccumulateHandler, Handler, JsonHandler, TextHandler, ToolCallingHandler
from engine.flow.plugin_steps import call_function, call_merge, plugin_handler
from engine.flow.plugin_tools import find_tool
from engine.flow.subflow import SubflowAgent
from engine.flow.subflow_files import FlowFiles
from engine.flow.template import Parts, expand, literal
from engine.plugins import Plugins
from engine.profile import Category, ModelProfile, ProfileRef
from engine.profile_builder import inline_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tools:
    """What the functions of a flow are made with."""

    plugins: Plugins
    evaluator: Evaluator


def build_flow(
    spec: FlowSpec,
    *,
    origin: str = "",
    trusted: bool = False,
    plugins: Plugins | None = None,
    evaluator: Evaluator = IN_PROCESS,
) -> Flow:
    """The flow that runs; raises FlowInvalid with all problems when the spec has an error.

    Args:
        origin: that of the LoadedFlow: the files of flows that run as nodes lie beside it.
        trusted: whether those files may lie elsewhere, too.
        plugins: missing = those of installed packages.
        evaluator: where expressions and templates are evaluated.
    """
    files = FlowFiles(origin, trusted=trusted)
    tools = _Tools(plugins=plugins or Plugins(), evaluator=evaluator)
    problems = check_flow(spec, plugins=tools.plugins, files=files)
    if any(problem.severity == "error" for problem in problems):
        raise FlowInvalid.of(problems)
    return _Builder(files, tools).flow(spec, files.origin)


def build_agent(spec: AgentSpec, *, plugins: Plugins, evaluator: Evaluator = IN_PROCESS) -> Agent:
    """One agent by itself, whose fields are as they should be."""
    return _agent(spec, frozenset(), _Tools(plugins=plugins, evaluator=evaluator))


class _Builder:
    """Builds a flow and those inside of it, each of these once."""

    def __init__(self, files: FlowFiles, tools: _Tools) -> None:
        self._files = files
        self._tools = tools
        self._inner: dict[str, Flow] = {}

    def flow(self, spec: FlowSpec, origin: str) -> Flow:
        muted = frozenset(agent.name for agent in spec.agents if agent.state == "mute")
        return Flow(
            name=spec.name,
            agents=tuple(self._agent(agent, muted, origin) for agent in spec.agents if agent.name not in muted),
            start=spec.start,
            inputs=spec.inputs,
            outputs=spec.outputs,
            limits=_limits(spec.limits or LimitsSpec()),
            origin=origin,
        )

    def _agent(self, spec: AgentSpec, muted: frozenset[str], origin: str) -> Agent:
        if spec.flow is None or spec.state is not None:
            return _agent(spec, muted, self._tools)
        loaded = self._files.open(spec.flow, origin)
        if loaded.origin not in self._inner:
            self._inner[loaded.origin] = self.flow(loaded.spec, loaded.origin)
        tools, jinja = self._tools, spec.syntax == "jinja"
        return SubflowAgent(
            spec.name,
            self._inner[loaded.origin],
            inputs=spec.with_,
            outputs=spec.outputs,
            before=_hook(spec.before, tools),
            after=_hook(spec.after, tools),
            merge=_merge(spec.merge, tools, jinja=jinja),
            choose_next=_routes(spec, muted, tools.evaluator),
            targets=_route_targets(spec, muted),
            gather=spec.gather,
            jinja=jinja,
            evaluator=tools.evaluator,
        )


def few_shot_turns(shots: tuple[ShotSpec, ...]) -> list[Turn]:
    """The earlier exchanges as turns; calls of tools get numbered ids."""
    turns: list[Turn] = []
    for number, shot in enumerate(shots, 1):
        turns.append(Turn(role=Role.USER, text=shot.user))
        if shot.tool_calls:
            calls = tuple(
                ToolCall(id=f"shot_{number}_{index}", name=str(call.get("name", "")), arguments=_arguments(call))
                for index, call in enumerate(shot.tool_calls, 1)
            )
            turns.append(Turn(role=Role.ASSISTANT, tool_calls=calls))
            turns += [
                Turn(role=Role.TOOL, text=result, tool_call_id=call.id)
                for call, result in zip(calls, shot.tool_results, strict=True)
            ]
        turns.append(Turn(role=Role.ASSISTANT, text=shot.assistant, reasoning=shot.reasoning))
    return turns


def _arguments(call: Mapping[str, object]) -> str:
    arguments = call.get("arguments", {})
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _limits(spec: LimitsSpec) -> Limits:
    defaults = Limits()
    return Limits(
        max_steps=defaults.max_steps if spec.max_steps is None else spec.max_steps,
        max_seconds=spec.max_seconds,
        max_cost=None if spec.max_cost is None else Decimal(repr(spec.max_cost)),
        max_tool_calls=defaults.max_tool_calls if spec.max_tool_calls is None else spec.max_tool_calls,
    )


def _agent(spec: AgentSpec, muted: frozenset[str], tools: _Tools) -> Agent:
    choose_next = _routes(spec, muted, tools.evaluator)
    targets = _route_targets(spec, muted)
    if spec.state == "bypass":
        return Agent(spec.name, AgentType.PROCESSING_ONLY, choose_next=choose_next, targets=targets)
    if spec.grader is not None:
        return _grader(spec, muted, tools)
    assert spec.type is not None  # noqa: S101 - checked: graders, patterns and sub-flows do not get here
    model = spec.model or ModelSpec()
    jinja, evaluator = spec.syntax == "jinja", tools.evaluator
    kind = _RemoteAgent if jinja and evaluator.suspends else Agent
    handler = spec.handler or HandlerSpec()
    agent = kind(
        spec.name,
        spec.type,
        category=model.category or "M",
        profile=_profile(spec.name, model),
        system_prompt=spec.system_prompt,
        template=spec.template,
        few_shot=few_shot_turns(spec.few_shot),
        images=spec.images,
        handler=_handler(handler, tools.plugins),
        before=_hook(spec.before, tools),
        after=_hook(spec.after, tools),
        merge=_merge(spec.merge, tools, jinja=jinja),
        choose_next=choose_next,
        targets=targets,
        gather=spec.gather,
        retry_on_parsing_error=spec.retry_on_parsing_error,
        overrides={key: value for key, value in model.overrides.items() if not is_ignored_override(key)},
        stop=spec.stop,
        response_schema=handler.schema if spec.response_format else None,
        timeout=spec.timeout,
        tools=[find_tool(name, tools.plugins) for name in spec.tools],
        max_tool_rounds=spec.max_tool_call_rounds or MAX_TOOL_ROUNDS,
        stream=spec.stream,
        skip_cache=spec.skip_cache,
        render=expressions.render if jinja and not evaluator.suspends else None,
    )
    if isinstance(agent, _RemoteAgent):
        agent.evaluator = evaluator
    return agent


def _grader(spec: AgentSpec, muted: frozenset[str], tools: _Tools) -> Agent:
    """A grader; its own prompts, handler and examples replace the built-in ones, its routes decide in the end."""
    model, evaluator, handler = spec.model or ModelSpec(), tools.evaluator, spec.handler
    jinja = spec.syntax == "jinja"
    given: Mapping[str, object] = {"descriptions": True, "feedback_to": ""} | spec.with_
    back = "" if given["feedback_to"] in muted else str(given["feedback_to"] or "")
    question, answer = (None if name not in given else str(given[name]) for name in ("question", "answer"))
    follow = _router(spec, muted, evaluator)
    return GRADERS[spec.grader or ""](
        spec.name,
        question=question,
        answer=answer,
        descriptions=bool(given["descriptions"]),
        feedback_to=back,
        system_prompt=spec.system_prompt,
        template=spec.template,
        handler=None if handler is None else _handler(handler, tools.plugins),
        before=_hook(spec.before, tools),
        after=_hook(spec.after, tools),
        decide=lambda context, passed: follow(context, passed),
        render=evaluator.render if jinja else None,
        category=model.category or "M",
        profile=_profile(spec.name, model),
        few_shot=few_shot_turns(spec.few_shot),
        targets=[name for name in (back, *(route.to for route in spec.routes)) if name and name not in muted],
        merge=_merge(spec.merge, tools, jinja=jinja),
        gather=spec.gather,
        retry_on_parsing_error=spec.retry_on_parsing_error,
        overrides={key: value for key, value in model.overrides.items() if not is_ignored_override(key)},
        stop=spec.stop,
        timeout=spec.timeout,
        stream=spec.stream,
        **({"response_schema": handler.schema} if spec.response_format and handler is not None else {}),
    )


class _RemoteAgent(Agent):
    """Its prompts are expanded elsewhere."""

    evaluator = IN_PROCESS

    async def prompt(self, context: Context) -> tuple[Parts, Parts]:
        """System prompt and text of the user turn."""
        system = await self.evaluator.render(self.system_prompt, context) if self.system_prompt else ()
        return system, await self.evaluator.render(self.template, context) if self.template else ()


def _route_targets(spec: AgentSpec, muted: frozenset[str]) -> list[str]:
    return [route.to for route in spec.routes if route.to is not None and route.to not in muted]


def _profile(agent: str, model: ModelSpec) -> ProfileRef | None:
    if model.inline is None:
        return model.profile
    return inline_profile(agent, {key: value for key, value in model.inline.items() if not is_secret(key)})


def asked_profile(agent: AgentSpec, resolve: Callable[[ProfileRef], ModelProfile]) -> ModelProfile | None:
    """The profile that answers for an agent as things stand, without its overrides; None when nobody does."""
    model = agent.model or ModelSpec(category="M")
    try:
        profile = _profile(agent.name, model)
        return resolve(Category.named(model.category or "M") if profile is None else profile)
    except EngineError:
        return None


def _handler(spec: HandlerSpec, plugins: Plugins) -> Callable[[Context], Handler]:
    key = spec.key or "response"
    match spec.type:
        case "text":
            return lambda _: TextHandler(key)
        case "json":
            return lambda _: JsonHandler(spec.prefix or "", schema=spec.schema)
        case "accumulate":
            return lambda _: AccumulateHandler(key)
        case "csv":
            return lambda _: CsvHandler(spec.headings, spec.prefix or "", separator=spec.separator or ";")
        case "tools":
            then = _handler(spec.then or HandlerSpec(), plugins)
            return lambda context: ToolCallingHandler(then(context))
        case name:
            return plugin_handler(plugins.get("handlers", name), spec)


def _hook(operations: tuple[OperationSpec, ...], tools: _Tools) -> Hook | None:
    if not operations:
        return None

    async def apply(context: Context) -> None:
        for operation in operations:
            if operation.when is None or await tools.evaluator.holds(operation.when, context):
                await _operate(operation, context, tools)

    waits = tools.evaluator.suspends or any(operation.call is not None for operation in operations)
    return apply if waits else at_once(apply)


async def _operate(operation: OperationSpec, context: Context, tools: _Tools) -> None:
    if operation.set is not None and operation.to is not None:
        value = await tools.evaluator.evaluate(operation.to, context)
        if value is None:
            context.remove(operation.set)
        else:
            context[operation.set] = list(value) if isinstance(value, list) else [value]
    elif operation.delete is not None:
        context.remove(operation.delete)
    elif operation.skip is not None:
        context.skip_next = Skip(operation.skip)
    elif operation.call is not None:
        await call_function(tools.plugins.get("functions", operation.call), context)


def _routes(
    spec: AgentSpec, muted: frozenset[str], evaluator: Evaluator
) -> Callable[[Context], Awaitable[Next] | Next] | None:
    if not spec.routes:
        return None
    # A grader that is passed through has no verdict; its good way is taken.
    passed = True if spec.state == "bypass" and spec.grader else None
    follow = _router(spec, muted, evaluator)
    waits = evaluator.suspends and any(route.when is not None for route in spec.routes)
    return (lambda context: follow(context, passed)) if waits else at_once(lambda context: follow(context, passed))


def _router(
    spec: AgentSpec, muted: frozenset[str], evaluator: Evaluator
) -> Callable[[Context, bool | None], Coroutine[object, object, Next]]:
    async def follow(context: Context, passed: bool | None) -> Next:
        for route in spec.routes:
            if route.when is None or await evaluator.holds(route.when, context, passed=passed):
                return Next(None if route.to in muted else route.to, route.graded)
        return Next()

    return follow


def merge_of(spec: MergeSpec, *, jinja: bool = False) -> Merge:
    """The function of a merge as flow files write it; `jinja` is about its template."""
    merge = _merge(spec, _Tools(plugins=Plugins(), evaluator=IN_PROCESS), jinja=jinja)
    assert merge is not None  # noqa: S101 - there is a spec
    return merge


def _merge(spec: MergeSpec | None, tools: _Tools, *, jinja: bool) -> Merge | None:
    if spec is None:
        return None
    evaluator = tools.evaluator
    match spec.type:
        case "concat":
            return lambda contexts: merge_contexts(spec.keys, contexts)
        case "first":
            return lambda contexts: contexts[:1]
        case "vote":
            return lambda contexts: _vote(spec, contexts)
        case "join":
            return _evaluated(lambda contexts: _join(spec, contexts, evaluator, jinja=jinja), evaluator)
        case "best":
            return _evaluated(lambda contexts: _best(spec, contexts, evaluator), evaluator)
        case name:
            plugin = tools.plugins.get("merges", name)
            return lambda contexts: call_merge(plugin, contexts)


def _evaluated(
    merge: Callable[[list[Context]], Coroutine[object, object, list[Context]]], evaluator: Evaluator
) -> Merge:
    return merge if evaluator.suspends else at_once(merge)


def _vote(spec: MergeSpec, contexts: list[Context]) -> list[Context]:
    """The first context with the value most contexts have; of equal counts the one that came first."""
    key = spec.key or ""
    votes = [context[key][0] for context in contexts if context.get(key)]
    first = contexts[0]
    if votes:
        winner = Counter(map(text_of, votes)).most_common(1)[0][0]
        first.set(key, next(vote for vote in votes if text_of(vote) == winner))
    return [first]


async def _join(spec: MergeSpec, contexts: list[Context], evaluator: Evaluator, *, jinja: bool) -> list[Context]:
    """One text made of a line for each context; other keys are concatenated in the same order."""
    order, template = contexts, spec.template or ""
    if spec.sort_by is not None:
        order = await _sorted(spec.sort_by, contexts, evaluator)
    lines = [
        literal(await evaluator.render(template, context) if jinja else expand(template, context)) for context in order
    ]
    values = {key: [value for context in order for value in context.get(key, ())] for key in spec.keys}
    first = contexts[0]
    first.update(values)
    first.set(spec.key or "", (spec.header or "") + ("\n" if spec.separator is None else spec.separator).join(lines))
    return [first]


async def _sorted(expression: str, contexts: list[Context], evaluator: Evaluator) -> list[Context]:
    keys = [await evaluator.evaluate(expression, context) for context in contexts]
    if all(isinstance(key, int | float) for key in keys):
        places: list[tuple[float, str]] = [(_number(expression, key), "") for key in keys]
    else:
        places = [(0, text_of(key)) for key in keys]
    return [contexts[index] for index in sorted(range(len(contexts)), key=lambda index: places[index])]


async def _best(spec: MergeSpec, contexts: list[Context], evaluator: Evaluator) -> list[Context]:
    """The context whose `by` is the largest number; of equal ones the first."""
    by = spec.by or ""
    numbers = [_number(by, await evaluator.evaluate(by, context)) for context in contexts]
    return [contexts[numbers.index(max(numbers))]]


def _number(expression: str, value: object) -> float:
    if isinstance(value, int | float) and value == value:
        return value
    raise TemplateError(
        f"The expression `{expression[:80]}` gave {text_of(value)[:40]!r}, expected a number.",
        hint="Values in answers of models are texts: add `| int` or `| float`.",
        facts={"expression": expression, "value": text_of(value)[:2000]},
    )
