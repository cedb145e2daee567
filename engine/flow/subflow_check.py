"""Checks the nodes that run another flow: their fields, and, where files may be read, the flow inside."""

from collections.abc import Callable, Sequence

from engine.errors import FlowError, Problem, TemplateError
from engine.flow.expressions import expression_names
from engine.flow.flow_inputs import inner_values
from engine.flow.flow_keys import known_keys, placeholders
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec
from engine.flow.report import Report
from engine.flow.subflow_files import FlowFiles

MAX_DEPTH = 20
"""Flows inside of each other."""

CheckInner = Callable[[FlowSpec, "Above"], list[Problem]]
Above = tuple[str, ...]
"""Origins of the flows around a flow, the flow itself last."""

_UNUSED = (
    "model",
    "system_prompt",
    "few_shot",
    "template",
    "images",
    "response_format",
    "stop",
    "tools",
    "max_tool_call_rounds",
    "handler",
    "retry_on_parsing_error",
    "timeout",
)
"""Fields of agents that ask a model, without effect at a node."""


def check_node_fields(agent: AgentSpec, path: str, report: Report) -> None:
    """Report what is wrong with a node by itself; reads no file."""
    plain = AgentSpec(name="", type=AgentType.COMPLETION)
    for field in _UNUSED:
        if getattr(agent, field) != getattr(plain, field):
            message = f'"{agent.name}" runs a flow and asks no model itself: {field} has no effect.'
            report.warning(f"{path}.{field}", message, agent.name)
    for key, source in agent.outputs.items():
        if not key or not source.strip():
            report.error(f"{path}.outputs", f'An output of "{agent.name}" has an empty name.', agent.name)
        elif not source.isidentifier():
            try:
                expression_names(source)
            except TemplateError as error:
                # A key may have any name; one that is no expression is compared with what the flow inside has.
                if any(sign in source for sign in "|()[]{}'\"+"):
                    report.error(f"{path}.outputs.{key}", error.message, agent.name)


def check_subflows(spec: FlowSpec, files: FlowFiles, above: Above, check: CheckInner, report: Report) -> None:
    """Report nodes whose flow is missing, broken, runs itself, or does not take what it is given."""
    for index, agent in enumerate(spec.agents):
        if agent.flow is None or agent.state is not None:
            continue
        path = f"$.agents[{index}]"
        try:
            origin = files.resolved(agent.flow, above[-1])
            loaded = None if origin in above else files.open(agent.flow, above[-1])
        except FlowError as error:
            if error.problems:
                _tell(agent, f"{path}.flow", error.problems, report)
            else:
                message = f'"{agent.name}" cannot run "{agent.flow[:200]}". {error.message} {error.hint}'.strip()
                report.error(f"{path}.flow", message, agent.name)
            continue
        if loaded is None:
            names = " → ".join(f'"{_short(name)}"' for name in (*above[above.index(origin) :], origin))
            report.error(f"{path}.flow", f'"{agent.name}" makes the flow run itself: {names}.', agent.name)
        elif len(above) > MAX_DEPTH:
            report.error(f"{path}.flow", f'"{agent.name}" is more than {MAX_DEPTH} flows deep.', agent.name)
        else:
            found = check(loaded.spec, (*above, loaded.origin))
            _tell(agent, f"{path}.flow", [problem for problem in found if problem.severity == "error"], report)
            _check_mapping(agent, loaded.spec, path, report)


def _tell(agent: AgentSpec, path: str, errors: Sequence[Problem], report: Report) -> None:
    if not errors:
        return
    count = "an error" if len(errors) == 1 else f"{len(errors)} errors; the first"
    message = f'"{agent.name}" runs "{agent.flow}", which has {count}: {errors[0].path}: {errors[0].message}'
    report.error(path, message, agent.name)


def _check_mapping(agent: AgentSpec, inner: FlowSpec, path: str, report: Report) -> None:
    inputs = {item.key: item for item in inner.inputs}
    for key, value in agent.with_.items():
        item = inputs.get(key)
        if item is None:
            message = f'"{agent.name}" gives "{key}", which is not an input of "{agent.flow}"'
            report.error(f"{path}.with.{key}", message + report.near(key, inputs), agent.name)
        elif not isinstance(value, str) or not _is_template(agent, value):
            try:
                inner_values(item, value)
            except ValueError as error:
                message = f'"{agent.name}" cannot give the input "{key}": {error}.'
                report.error(f"{path}.with.{key}", message, agent.name)
    for item in inner.inputs:
        if item.required and item.default is None and item.key not in agent.with_:
            message = f'"{agent.name}" does not give the input "{item.key}", which "{agent.flow}" needs.'
            report.error(f"{path}.with", message, agent.name)
    known = known_keys(inner)
    for key, source in agent.outputs.items():
        if not known.open and source not in known.names and source.isidentifier():
            message = f'Nothing in "{agent.flow}" provides "{source}"' + report.near(source, known.names)
            report.error(f"{path}.outputs.{key}", message, agent.name)


def _is_template(agent: AgentSpec, value: str) -> bool:
    names = placeholders(value)
    return agent.syntax == "jinja" or bool(names.keys or names.slots)


def _short(origin: str) -> str:
    return origin.replace("\\", "/").rsplit("/", 1)[-1]
