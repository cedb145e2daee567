"""A flow as a Python script on the public API, to go on with in code.

What the API says in other words than the file (graders, tools, plug-ins, sub-flows) is taken from the flow itself, that
the script then holds as text.
"""

from collections.abc import Iterator, Sequence

from engine.conversation import Turn
from engine.flow.agent_check import is_ignored_override, is_secret
from engine.flow.flow_build import few_shot_turns
from engine.flow.flow_file import flow_text
from engine.flow.flow_spec import (
    AgentSpec,
    AgentType,
    FlowSpec,
    HandlerSpec,
    InputSpec,
    LimitsSpec,
    MergeSpec,
    ModelSpec,
    OperationSpec,
    Spec,
)

_PLAIN_HANDLERS = ("text", "accumulate", "json")
_PLAIN_MERGES = ("concat", "first", "vote", "join", "best")

_MAIN = '''
async def main() -> None:
    """Run the flow with the inputs of the command line, KEY=VALUE each, and print what it makes."""
    values = dict(argument.split("=", 1) for argument in sys.argv[1:])
    async with Engine() as engine, engine.run(flow, inputs_context(flow, values)) as run:
        async for event in run:
            if isinstance(event, AgentStarted):
                print(event.agent, file=sys.stderr)
        for context in run.contexts:
            if context.error:
                print(context.error.agent, context.error.exception, sep=": ", file=sys.stderr)
            for key in flow.outputs or ("response",):
                print(*context.texts(key), sep="\\n")


if __name__ == "__main__":
    asyncio.run(main())
'''
_PUT = '''
def put(context: Context, key: str, value: object) -> None:
    """Replace the values of a key: a list is all of them, None removes the key."""
    if value is None:
        context.remove(key)
    else:
        context[key] = list(value) if isinstance(value, list) else [value]

'''


def python_text(spec: FlowSpec, *, origin: str = "") -> str:
    """The script; the flow has no errors. `origin` is where the files of its sub-flows are looked for."""
    return _Script(spec, origin).text()


class _Script:
    """Writes a script, and knows what it has to import."""

    def __init__(self, spec: FlowSpec, origin: str) -> None:
        self._spec = spec
        self._origin = origin
        self._names = {"Context", "Engine", "Flow", "Limits", "inputs_context"}
        self._lines: list[str] = []
        self._muted = {agent.name for agent in spec.agents if agent.state == "mute"}
        self._built = False
        self._puts = False

    def text(self) -> str:
        agents = [agent for agent in self._spec.agents if agent.name not in self._muted]
        parts = [self._agent(index, agent) for index, agent in enumerate(agents)]
        inputs = [_call("InputSpec", _fields(item)) for item in self._spec.inputs]
        if inputs:
            self._names.add("InputSpec")
        arguments = [
            f"name={self._spec.name!r}",
            f"agents=({_joined(f'agent_{index}' for index in range(len(agents)))})",
            *([f"start={self._spec.start!r}"] if self._spec.start else []),
            *([f"inputs=({_joined(inputs)})"] if inputs else []),
            *([f"outputs=({_joined(map(repr, self._spec.outputs))})"] if self._spec.outputs else []),
            *self._limits(self._spec.limits or LimitsSpec()),
        ]
        body = [*parts, f"flow = {_call('Flow', arguments)}"]
        built = self._whole_flow() if self._built else ""
        put = _PUT if self._puts else ""
        return "\n".join([*self._head(), built + put, *body]) + "\n\n" + _MAIN

    def _head(self) -> Iterator[str]:
        yield f"{_doc(self._spec.name)}\n\nimport asyncio\nimport sys"
        if self._spec.limits and self._spec.limits.max_cost is not None:
            yield "from decimal import Decimal"
        public = sorted(self._names - {"inline_profile"}, key=lambda name: (name.upper() != name, name))
        yield "\nfrom engine import (\n" + "".join(f"    {name},\n" for name in public) + ")"
        yield "from engine.events import AgentStarted"
        if "inline_profile" in self._names:
            yield "from engine.profile_builder import inline_profile"
        yield ""

    def _limits(self, limits: LimitsSpec) -> list[str]:
        given = [f"{name}={value!r}" for name, value in _given(limits) if name != "max_cost"]
        if limits.max_cost is not None:
            given.append(f'max_cost=Decimal("{limits.max_cost!r}")')
        if not given:
            self._names.discard("Limits")
        return [f"limits=Limits({', '.join(given)})"] if given else []

    def _whole_flow(self) -> str:
        self._names |= {"build_flow", "read_flow"}
        origin = f", origin={self._origin!r}" if self._origin else ""
        # A JSON text in a JSON text: escapes are its own, and whatever stands in it is one Python literal.
        return f"FLOW = {_text(flow_text(self._spec), 0)}\nbuilt = build_flow(read_flow(FLOW).spec{origin})\n\n"

    # -- agents --

    def _agent(self, index: int, agent: AgentSpec) -> str:
        if not _is_plain(agent):
            self._built = True
            return f"agent_{index} = built.agent({agent.name!r})\n"
        self._names |= {"Agent", "AgentType"}
        kind = AgentType.PROCESSING_ONLY if agent.state == "bypass" else agent.type or AgentType.COMPLETION
        arguments = [repr(agent.name), f"AgentType.{kind.name}"]
        functions: list[str] = []
        if agent.state != "bypass":
            arguments += self._asking(agent)
            for hook in ("before", "after"):
                operations: Sequence[OperationSpec] = getattr(agent, hook)
                if operations:
                    functions.append(self._hook(f"{hook}_{index}", operations))
                    arguments.append(f"{hook}={hook}_{index}")
            if agent.merge is not None:
                arguments.append(f"merge={self._merge(agent)}")
            arguments += ["gather=True"] if agent.gather else []
        if agent.routes:
            functions.append(self._routes(f"next_{index}", agent))
            targets = [route.to for route in agent.routes if route.to is not None and route.to not in self._muted]
            arguments += [f"choose_next=next_{index}", f"targets=({_joined(map(repr, targets))})"]
        return "".join(functions) + f"agent_{index} = {_call('Agent', arguments)}\n"

    def _asking(self, agent: AgentSpec) -> Iterator[str]:
        yield from self._model(agent)
        if agent.system_prompt:
            yield f"system_prompt={_text(agent.system_prompt)}"
        if agent.template:
            yield f"template={_text(agent.template)}"
        if agent.syntax == "jinja":
            self._names.add("render")
            yield "render=render"
        if agent.few_shot:
            yield f"few_shot=({_joined(self._turn(turn) for turn in few_shot_turns(agent.few_shot))})"
        if agent.images:
            yield f"images=({_joined(map(repr, agent.images))})"
        if agent.handler is not None:
            yield f"handler=lambda context: {self._handler(agent.handler)}"
        if agent.stop:
            yield f"stop=({_joined(map(repr, agent.stop))})"
        if agent.response_format is not None and agent.handler is not None:
            yield f"response_schema={agent.handler.schema!r}"
        plain = AgentSpec(name="")
        for field in ("retry_on_parsing_error", "stream", "skip_cache", "timeout"):
            if getattr(agent, field) != getattr(plain, field):
                yield f"{field}={getattr(agent, field)!r}"

    def _model(self, agent: AgentSpec) -> Iterator[str]:
        model = agent.model or ModelSpec()
        if model.inline is not None:
            self._names.add("inline_profile")
            values = {key: value for key, value in model.inline.items() if not is_secret(key)}
            yield f"profile=inline_profile({agent.name!r}, {values!r})"
        elif model.profile is not None:
            yield f"profile={model.profile!r}"
        elif model.category not in (None, "M"):
            yield f"category={model.category!r}"
        overrides = {key: value for key, value in model.overrides.items() if not is_ignored_override(key)}
        if overrides:
            yield f"overrides={overrides!r}"

    def _turn(self, turn: Turn) -> str:
        self._names |= {"Role", "Turn"}
        fields = [f"role=Role.{turn.role.name}", *([f"text={_text(turn.text, 8)}"] if turn.text else [])]
        if turn.reasoning:
            fields.append(f"reasoning={_text(turn.reasoning, 8)}")
        if turn.tool_calls:
            self._names.add("ToolCall")
            calls = [
                f"ToolCall(id={call.id!r}, name={call.name!r}, arguments={call.arguments!r})"
                for call in turn.tool_calls
            ]
            fields.append(f"tool_calls=({_joined(calls)})")
        if turn.tool_call_id:
            fields.append(f"tool_call_id={turn.tool_call_id!r}")
        return f"Turn({', '.join(fields)})"

    def _handler(self, handler: HandlerSpec) -> str:
        key = handler.key or "response"
        if handler.type == "json":
            self._names.add("JsonHandler")
            schema = "" if handler.schema is None else f", schema={handler.schema!r}"
            return f"JsonHandler({handler.prefix or ''!r}{schema})"
        name = "AccumulateHandler" if handler.type == "accumulate" else "TextHandler"
        self._names.add(name)
        return f"{name}({key!r})"

    def _hook(self, name: str, operations: Sequence[OperationSpec]) -> str:
        lines = [f"def {name}(context: Context) -> None:"]
        for operation in operations:
            pad = "    "
            if operation.when is not None:
                self._names.add("holds")
                lines.append(f"    if holds({operation.when!r}, context):")
                pad = "        "
            lines.append(pad + self._operation(operation))
        return "\n".join(lines) + "\n\n\n"

    def _operation(self, operation: OperationSpec) -> str:
        if operation.set is not None and operation.to is not None:
            self._puts = True
            self._names.add("evaluate")
            return f"put(context, {operation.set!r}, evaluate({operation.to!r}, context))"
        if operation.delete is not None:
            return f"context.remove({operation.delete!r})"
        self._names.add("Skip")
        return f"context.skip_next = Skip.{operation.skip}"

    def _merge(self, agent: AgentSpec) -> str:
        merge = agent.merge or MergeSpec(type="first")
        if merge.type == "concat":
            self._names.add("merge_contexts")
            return f"lambda contexts: merge_contexts(({_joined(map(repr, merge.keys))}), contexts)"
        if merge.type == "first":
            return "lambda contexts: contexts[:1]"
        self._names |= {"MergeSpec", "merge_of"}
        jinja = ", jinja=True" if agent.syntax == "jinja" else ""
        return f"merge_of({_call('MergeSpec', _fields(merge))}{jinja})"

    def _routes(self, name: str, agent: AgentSpec) -> str:
        self._names.add("Next")
        lines = [f"def {name}(context: Context) -> Next:"]
        for route in agent.routes:
            target = None if route.to in self._muted else route.to
            graded = "" if route.graded is None else f", graded={route.graded}"
            chosen = f"Next({target!r}{graded})" if target is not None or graded else "Next()"
            if route.when is None:
                lines.append(f"    return {chosen}")
                break
            self._names.add("holds")
            lines += [f"    if holds({route.when!r}, context):", f"        return {chosen}"]
        else:
            lines.append("    return Next()")
        return "\n".join(lines) + "\n\n\n"


def _is_plain(agent: AgentSpec) -> bool:
    """Whether the public classes say it all; what is muted or passed through is plain anyway."""
    if agent.state == "bypass":
        return agent.grader is None
    return (
        agent.type is not None
        and not agent.tools
        and (agent.handler is None or agent.handler.type in _PLAIN_HANDLERS)
        and (agent.merge is None or agent.merge.type in _PLAIN_MERGES)
        and all(operation.call is None for operation in (*agent.before, *agent.after))
    )


def _given(spec: Spec) -> Iterator[tuple[str, object]]:
    """The fields that were set, by their Python names."""
    for name in spec.__struct_fields__:
        value = getattr(spec, name)
        if name != "extra" and value is not None and value is not False and value not in ((), ""):
            yield name, value


def _fields(spec: InputSpec | MergeSpec) -> list[str]:
    return [f"{name}={value!r}" for name, value in _given(spec)]


def _joined(parts: "Iterator[str] | map[str] | Sequence[str]") -> str:
    """The inside of a tuple."""
    found = list(parts)
    return ", ".join(found) + ("," if len(found) == 1 else "")


def _call(name: str, arguments: Sequence[str]) -> str:
    line = f"{name}({', '.join(arguments)})"
    if len(line) <= 100 and "\n" not in line:
        return line
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"


def _text(text: str, indent: int = 4) -> str:
    """A text as a literal, a line of it on each line."""
    lines = text.splitlines(keepends=True)
    if len(lines) < 2:
        return repr(text)
    pad = " " * (indent + 4)
    return "(\n" + "".join(f"{pad}{line!r}\n" for line in lines) + " " * indent + ")"


def _doc(name: str) -> str:
    # A name may hold quotes and line ends.
    return repr(f"{name}, a flow of the workbench as a script: python THIS_FILE KEY=VALUE …")
