"""Which context keys a flow provides and which its texts use; for problems, completion and highlighting."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.errors import TemplateError
from engine.flow.expressions import Names, expression_names, template_names
from engine.flow.flow_links import agents_before
from engine.flow.flow_spec import AgentSpec, FlowSpec, HandlerSpec, MergeSpec, OperationSpec

GRADER_KEYS = frozenset(
    {
        "qaAnswer",
        "qaExplanation",
        "qaFeedback",
        "qaFeedbackLoopDestination",
        "qaIteration",
        "qaOutputDescription",
        "qaOutputFormat",
        "qaPassed",
        "qaQuestion",
        "qaRating",
    }
)
"""Keys graders read and write."""

_PLACEHOLDER = re.compile(r"\{\{\{?([^{}\[\]|\n]{1,100})\}\}|\[\[([^{}\[\]|\n]{1,100})(?:\|hidden)?\]\]")
_LOOKS_LIKE_KEY = re.compile(r"\s*[^\W\d][\w .-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeys:
    """The keys a flow can have."""

    names: frozenset[str]
    open: bool
    """There may be others: a JSON answer without schema, a plug-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A text of an agent that refers to keys."""

    path: str
    names: Names
    strict: bool
    """A missing key is an error there, not just literal text."""
    error: str = ""
    """Why it does not compile."""


def known_keys(spec: FlowSpec) -> KnownKeys:
    """All keys some part of the flow provides."""
    names = {item.key for item in spec.inputs}
    unknown = False
    for agent in spec.agents:
        provided, is_open = agent_keys(agent)
        names.update(provided)
        unknown = unknown or is_open
    return KnownKeys(names=frozenset(names), open=unknown)


def keys_before(spec: FlowSpec, name: str) -> list[str]:
    """The keys an agent may find in its prompt: inputs, what agents before it provide, what its `before` sets."""
    before = agents_before(spec, name)
    names = {item.key for item in spec.inputs}
    for agent in spec.agents:
        if agent.name in before:
            names.update(agent_keys(agent)[0])
        if agent.name == name:
            names.update(op.set for op in agent.before if op.set is not None)
    return sorted(key for key in names if key)


def agent_keys(agent: AgentSpec) -> tuple[list[str], bool]:
    """The keys an agent provides, those of its JSON as often as they occur in it, and whether there may be others."""
    names = [op.set for op in (*agent.before, *agent.after) if op.set is not None]
    is_open = any(op.call is not None for op in (*agent.before, *agent.after))
    if agent.merge is not None and agent.merge.type in ("join", "vote") and agent.merge.key:
        names.append(agent.merge.key)
    if agent.pattern is not None:
        return [*names, "answer", "files"], is_open
    if agent.flow is not None:
        return [*names, *agent.outputs], is_open or not agent.outputs
    if agent.grader is not None:
        names += GRADER_KEYS
        if agent.handler is None:
            return names, is_open
    provided, handler_open = handler_keys(agent.handler or HandlerSpec())
    return [*names, *provided], is_open or handler_open


def handler_keys(handler: HandlerSpec) -> tuple[list[str], bool]:
    """The keys a handler fills, names of a JSON schema as often as they occur, and whether there may be others."""
    key = handler.key or "response"
    prefix = handler.prefix or ""
    match handler.type:
        case "text":
            return [key, f"{key}_reasoning"], False
        case "accumulate":
            return [key], False
        case "json":
            names, is_open = schema_names(handler.schema)
            return [*(prefix + name for name in names), f"{prefix}_reasoning"], is_open
        case "csv":
            return [*(prefix + heading for heading in handler.headings), f"{prefix}_reasoning"], False
        case "tools":
            return handler_keys(handler.then) if handler.then else ([], False)
    return [], True


def schema_names(schema: Mapping[str, object] | None) -> tuple[list[str], bool]:
    """The names of the values a JSON schema describes, as the JSON handler flattens them; and whether it is open."""
    if schema is None:
        return [], True
    names: list[str] = []
    is_open = _collect(schema, "", names)
    return names, is_open


def _collect(schema: object, name: str, names: list[str]) -> bool:
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        opens = [_collect(entry, str(key), names) for key, entry in properties.items()]
        return any(opens) or schema.get("additionalProperties", False) is not False
    if any(word in schema for word in ("$ref", "anyOf", "oneOf", "allOf", "patternProperties", "if")):
        return True
    if schema.get("type") == "object":
        return True
    if "items" in schema:
        return _collect(schema["items"], name, names)
    if name:
        names.append(name)
    return not name


def placeholders(template: str) -> Names:
    """The keys a template refers to by `{{key}}`, `{{{key}}}`, `[[key]]` and `[[key|hidden]]`."""
    keys: set[str] = set()
    slots: set[str] = set()
    for match in _PLACEHOLDER.finditer(template):
        found = match[1] or match[2]
        if _LOOKS_LIKE_KEY.fullmatch(found):  # not [[1, 2]] of an example
            (keys if match[1] else slots).add(found)
    return Names(frozenset(keys), slots=frozenset(slots))


def uses(agent: AgentSpec, path: str) -> Iterator[Use]:
    """Every text of an agent that refers to keys; `path` is that of the agent."""
    yield _template(agent, agent.system_prompt, f"{path}.system_prompt")
    yield _template(agent, agent.template, f"{path}.template")
    for name in ("before", "after"):
        operations: tuple[OperationSpec, ...] = getattr(agent, name)
        for index, operation in enumerate(operations):
            yield from _expressions(f"{path}.{name}[{index}]", to=operation.to, when=operation.when)
    if agent.merge is not None:
        yield from _merge_uses(agent, agent.merge, f"{path}.merge")
    for key, value in agent.with_.items():
        if isinstance(value, str):
            yield _template(agent, value, f"{path}.with.{key}")
    for index, image in enumerate(agent.images):
        yield _keys(f"{path}.images[{index}]", image)
    for index, route in enumerate(agent.routes):
        yield from _expressions(f"{path}.routes[{index}]", when=route.when)


def _merge_uses(agent: AgentSpec, merge: MergeSpec, path: str) -> Iterator[Use]:
    yield from _expressions(path, sort_by=merge.sort_by, by=merge.by)
    if merge.template is not None:
        yield _template(agent, merge.template, f"{path}.template")
    for index, key in enumerate(merge.keys):
        yield _keys(f"{path}.keys[{index}]", key)
    if merge.type == "vote" and merge.key:
        yield _keys(f"{path}.key", merge.key)


def _template(agent: AgentSpec, text: str, path: str) -> Use:
    if agent.syntax != "jinja":
        return Use(path=path, names=placeholders(text), strict=False)
    try:
        return Use(path=path, names=template_names(text), strict=True)
    except TemplateError as error:
        return Use(path=path, names=Names(frozenset()), strict=True, error=error.message)


def _expressions(path: str, **sources: str | None) -> Iterator[Use]:
    for name, source in sources.items():
        if source is None:
            continue
        try:
            yield Use(path=f"{path}.{name}", names=expression_names(source), strict=True)
        except TemplateError as error:
            yield Use(path=f"{path}.{name}", names=Names(frozenset()), strict=True, error=error.message)


def _keys(path: str, key: str) -> Use:
    return Use(path=path, names=Names(frozenset([key])), strict=False)
