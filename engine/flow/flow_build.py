"""Builds the flow that runs from the declarative form: operations, handlers, merges and routes become functions."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal

from engine.conversation import Role, ToolCall, Turn
from engine.errors import FlowInvalid, TemplateError
from engine.flow import expressions
from engine.flow.agent import Agent, Hook, Merge, Next, merge_contexts
from engine.flow.agent_check import is_ignored_override, is_secret
from engine.flow.context import Context, Skip, text_of
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
from engine.flow.handlers import AccumulateHandler, Handler, JsonHandler, TextHandler
from engine.flow.template import Parts, expand, literal
from engine.profile import ProfileRef
from engine.profile_builder import inline_profile

Render = Callable[[str, Context], Parts]


def build_flow(spec: FlowSpec) -> Flow:
    """The flow that runs; raises FlowInvalid with all problems when the spec has an error."""
    problems = check_flow(spec)
    if any(problem.severity == "error" for problem in problems):
        raise FlowInvalid.of(problems)
    muted = frozenset(agent.name for agent in spec.agents if agent.state == "mute")
    return Flow(
        name=spec.name,
        agents=tuple(_agent(agent, muted) for agent in spec.agents if agent.name not in muted),
        start=spec.start,
        inputs=spec.inputs,
        outputs=spec.outputs,
        limits=_limits(spec.limits or LimitsSpec()),
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


def _agent(spec: AgentSpec, muted: frozenset[str]) -> Agent:
    choose_next = _routes(spec, muted)
    targets = [route.to for route in spec.routes if route.to is not None and route.to not in muted]
    if spec.state == "bypass":
        return Agent(spec.name, AgentType.PROCESSING_ONLY, choose_next=choose_next, targets=targets)
    assert spec.type is not None  # noqa: S101 - checked: graders, patterns and sub-flows do not get here
    model = spec.model or ModelSpec()
    render: Render | None = expressions.render if spec.syntax == "jinja" else None
    handler = spec.handler or HandlerSpec()
    return Agent(
        spec.name,
        spec.type,
        category=model.category or "M",
        profile=_profile(spec.name, model),
        system_prompt=spec.system_prompt,
        template=spec.template,
        few_shot=few_shot_turns(spec.few_shot),
        handler=_handler(handler),
        before=_hook(spec.before),
        after=_hook(spec.after),
        merge=_merge(spec.merge, render or expand),
        choose_next=choose_next,
        targets=targets,
        gather=spec.gather,
        retry_on_parsing_error=spec.retry_on_parsing_error,
        overrides={key: value for key, value in model.overrides.items() if not is_ignored_override(key)},
        stop=spec.stop,
        response_schema=handler.schema if spec.response_format else None,
        timeout=spec.timeout,
        stream=spec.stream,
        skip_cache=spec.skip_cache,
        render=render,
    )


def _profile(agent: str, model: ModelSpec) -> ProfileRef | None:
    if model.inline is None:
        return model.profile
    return inline_profile(agent, {key: value for key, value in model.inline.items() if not is_secret(key)})


def _handler(spec: HandlerSpec) -> Callable[[Context], Handler]:
    key = spec.key or "response"
    match spec.type:
        case "json":
            return lambda _: JsonHandler(spec.prefix or "", schema=spec.schema)
        case "accumulate":
            return lambda _: AccumulateHandler(key)
        case _:
            return lambda _: TextHandler(key)


def _hook(operations: tuple[OperationSpec, ...]) -> Hook | None:
    if not operations:
        return None

    def apply(context: Context) -> None:
        for operation in operations:
            if operation.when is None or expressions.holds(operation.when, context):
                _operate(operation, context)

    return apply


def _operate(operation: OperationSpec, context: Context) -> None:
    if operation.set is not None and operation.to is not None:
        value = expressions.evaluate(operation.to, context)
        if value is None:
            context.remove(operation.set)
        else:
            context[operation.set] = list(value) if isinstance(value, list) else [value]
    elif operation.delete is not None:
        context.remove(operation.delete)
    elif operation.skip is not None:
        context.skip_next = Skip(operation.skip)


def _routes(spec: AgentSpec, muted: frozenset[str]) -> Callable[[Context], Next] | None:
    if not spec.routes:
        return None
    # A grader that is passed through has no verdict; its good way is taken.
    passed = True if spec.state == "bypass" and spec.grader else None

    def choose(context: Context) -> Next:
        for route in spec.routes:
            if route.when is None or expressions.holds(route.when, context, passed=passed):
                return Next(None if route.to in muted else route.to, route.graded)
        return Next()

    return choose


def _merge(spec: MergeSpec | None, render: Render) -> Merge | None:
    if spec is None:
        return None
    match spec.type:
        case "concat":
            return lambda contexts: merge_contexts(spec.keys, contexts)
        case "vote":
            return lambda contexts: _vote(spec, contexts)
        case "join":
            return lambda contexts: _join(spec, contexts, render)
        case "best":
            return lambda contexts: _best(spec, contexts)
        case _:
            return lambda contexts: contexts[:1]


def _vote(spec: MergeSpec, contexts: list[Context]) -> list[Context]:
    """The first context with the value most contexts have; of equal counts the one that came first."""
    key = spec.key or ""
    votes = [context[key][0] for context in contexts if context.get(key)]
    first = contexts[0]
    if votes:
        winner = Counter(map(text_of, votes)).most_common(1)[0][0]
        first.set(key, next(vote for vote in votes if text_of(vote) == winner))
    return [first]


def _join(spec: MergeSpec, contexts: list[Context], render: Render) -> list[Context]:
    """One text made of a line for each context; other keys are concatenated in the same order."""
    order = contexts
    if spec.sort_by is not None:
        order = sorted(contexts, key=_sort_key(spec.sort_by, contexts))
    lines = [literal(render(spec.template or "", context)) for context in order]
    values = {key: [value for context in order for value in context.get(key, ())] for key in spec.keys}
    first = contexts[0]
    first.update(values)
    first.set(spec.key or "", (spec.header or "") + ("\n" if spec.separator is None else spec.separator).join(lines))
    return [first]


def _sort_key(expression: str, contexts: list[Context]) -> Callable[[Context], tuple[float, str]]:
    keys = {id(context): expressions.evaluate(expression, context) for context in contexts}
    if all(isinstance(key, int | float) for key in keys.values()):
        return lambda context: (_number(expression, keys[id(context)]), "")
    return lambda context: (0, text_of(keys[id(context)]))


def _best(spec: MergeSpec, contexts: list[Context]) -> list[Context]:
    """The context whose `by` is the largest number; of equal ones the first."""
    by = spec.by or ""
    return [max(contexts, key=lambda context: _number(by, expressions.evaluate(by, context)))]


def _number(expression: str, value: object) -> float:
    if isinstance(value, int | float) and value == value:
        return value
    raise TemplateError(
        f"The expression `{expression[:80]}` gave {text_of(value)[:40]!r}, expected a number.",
        hint="Values in answers of models are texts: add `| int` or `| float`.",
        facts={"expression": expression, "value": text_of(value)[:2000]},
    )
