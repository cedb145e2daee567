"""Renames a context key with everything that names it, as a pure function."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from engine.flow.flow_keys import agent_keys
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, HandlerSpec, MergeSpec, OperationSpec, RouteSpec
from engine.flow.key_renaming import CannotRename, rename_in_expression, rename_in_template

__all__ = ["CannotRename", "rename_key"]

_REASONING = "_reasoning"
_DEFAULT_KEY = "response"
_NO_TEMPLATES = frozenset({"feedback_to", "descriptions"})
"""Entries of `with` that are no texts."""

Rename = Callable[[str], str]


def rename_key(spec: FlowSpec, old: str, new: str, *, agent: str = "") -> FlowSpec:
    """Rename a key where it is made and wherever it is used: prompts, routes, operations, merges, outputs.

    `agent` renames what that agent alone makes; when others make the key, too, its users stay with theirs.
    Raises ValueError when the new name is empty, or some text cannot hold it.
    """
    if old == new or not old:
        return spec
    if not new.strip():
        raise CannotRename(f'"{old}" needs a name.')
    if agent and any(old in _made(spec, other) for other in ("", *(one.name for one in spec.agents)) if other != agent):
        alone = (_rename_made(one, old, new) if one.name == agent else one for one in spec.agents)
        return replace(spec, agents=tuple(alone))
    follow_too = _thoughts(spec, old)
    agents = tuple(_rename_in_agent(_rename_made(one, old, new), old, new) for one in spec.agents)
    inputs = tuple(replace(item, key=new) if item.key == old else item for item in spec.inputs)
    renamed = replace(spec, agents=agents, inputs=inputs, outputs=_swapped(spec.outputs, old, new))
    if follow_too:
        thoughts = old + _REASONING, new + _REASONING
        agents = tuple(_rename_in_agent(one, *thoughts) for one in renamed.agents)
        renamed = replace(renamed, agents=agents, outputs=_swapped(renamed.outputs, *thoughts))
    return renamed


def _made(spec: FlowSpec, name: str) -> set[str]:
    """The keys an agent makes; with no name those of the flow's inputs."""
    if not name:
        return {item.key for item in spec.inputs}
    return {key for one in spec.agents if one.name == name for key in agent_keys(one)[0]}


def _thoughts(spec: FlowSpec, key: str) -> bool:
    """Whether `key_reasoning` is a key because a text handler fills `key`."""
    return any({key, key + _REASONING} <= set(agent_keys(agent)[0]) for agent in spec.agents)


def _rename_made(agent: AgentSpec, old: str, new: str) -> AgentSpec:
    """Rename a key in what an agent makes: handler, `set`, merge, outputs of a sub-flow."""
    changes: dict[str, object] = {}
    handler = _rename_handler(agent.handler, old, new)
    if agent.handler is None and old == _DEFAULT_KEY and _answers(agent):
        handler = HandlerSpec(key=new)
    if handler is not agent.handler:
        changes["handler"] = handler
    for name in ("before", "after"):
        operations: tuple[OperationSpec, ...] = getattr(agent, name)
        if any(operation.set == old for operation in operations):
            changes[name] = tuple(replace(one, set=new) if one.set == old else one for one in operations)
    if agent.merge is not None and agent.merge.key == old:
        changes["merge"] = replace(agent.merge, key=new)
    if old in agent.outputs:
        changes["outputs"] = {(new if key == old else key): source for key, source in agent.outputs.items()}
    return replace(agent, **changes) if changes else agent


def _answers(agent: AgentSpec) -> bool:
    return not (agent.grader or agent.pattern or agent.flow) and agent.type is not AgentType.PROCESSING_ONLY


def _rename_handler(handler: HandlerSpec | None, old: str, new: str) -> HandlerSpec | None:
    if handler is None:
        return None
    prefix = handler.prefix or ""
    inner, wanted = old.removeprefix(prefix), new.removeprefix(prefix)
    changes: dict[str, object] = {}
    if handler.type in ("text", "accumulate") and (handler.key or _DEFAULT_KEY) == old:
        changes["key"] = new
    elif handler.type == "csv" and old.startswith(prefix) and inner in handler.headings:
        changes["headings"] = _swapped(handler.headings, inner, _within(prefix, new, wanted))
    elif handler.type == "json" and old.startswith(prefix) and handler.schema is not None:
        schema = _rename_property(handler.schema, inner, lambda: _within(prefix, new, wanted))
        if schema is not handler.schema:
            changes["schema"] = schema
    elif handler.then is not None:
        then = _rename_handler(handler.then, old, new)
        if then is not handler.then:
            changes["then"] = then
    return replace(handler, **changes) if changes else handler


def _within(prefix: str, new: str, wanted: str) -> str:
    if not new.startswith(prefix) or not wanted:
        raise CannotRename(f'"{new}" has to begin with the prefix "{prefix}" of the handler that makes it.')
    return wanted


def _rename_property(schema: object, old: str, new: Callable[[], str]) -> object:
    """Rename a property wherever a JSON schema describes it; the same object when it does not."""
    if isinstance(schema, dict):
        changed = {key: _rename_property(value, old, new) for key, value in schema.items()}
        properties = changed.get("properties")
        if isinstance(properties, dict) and old in properties:
            changed["properties"] = {(new() if key == old else key): value for key, value in properties.items()}
            required = changed.get("required")
            if isinstance(required, list):
                changed["required"] = [new() if key == old else key for key in required]
        return changed if changed != schema else schema
    if isinstance(schema, list):
        items = [_rename_property(value, old, new) for value in schema]
        return items if items != schema else schema
    return schema


def _rename_in_agent(agent: AgentSpec, old: str, new: str) -> AgentSpec:
    """Rename a key in what an agent reads."""
    template: Rename = partial(rename_in_template, old=old, new=new, jinja=agent.syntax == "jinja")
    expression: Rename = partial(rename_in_expression, old=old, new=new)
    changed = replace(
        agent,
        system_prompt=template(agent.system_prompt),
        template=template(agent.template),
        with_={key: _rename_with(key, value, template) for key, value in agent.with_.items()},
        images=_swapped(agent.images, old, new),
        before=tuple(_rename_operation(one, old, new, expression) for one in agent.before),
        after=tuple(_rename_operation(one, old, new, expression) for one in agent.after),
        merge=_rename_merge(agent.merge, old, new, template, expression),
        routes=tuple(_rename_route(route, expression) for route in agent.routes),
    )
    return changed if changed != agent else agent


def _rename_with(key: str, value: object, template: Rename) -> object:
    return template(value) if isinstance(value, str) and key not in _NO_TEMPLATES else value


def _rename_operation(operation: OperationSpec, old: str, new: str, expression: Rename) -> OperationSpec:
    return replace(
        operation,
        to=None if operation.to is None else expression(operation.to),
        when=None if operation.when is None else expression(operation.when),
        delete=new if operation.delete == old else operation.delete,
    )


def _rename_merge(
    merge: MergeSpec | None, old: str, new: str, template: Rename, expression: Rename
) -> MergeSpec | None:
    if merge is None:
        return None
    return replace(
        merge,
        keys=_swapped(merge.keys, old, new),
        key=new if merge.key == old else merge.key,
        template=None if merge.template is None else template(merge.template),
        sort_by=None if merge.sort_by is None else expression(merge.sort_by),
        by=None if merge.by is None else expression(merge.by),
    )


def _rename_route(route: RouteSpec, expression: Rename) -> RouteSpec:
    return route if route.when is None else replace(route, when=expression(route.when))


def _swapped(names: tuple[str, ...], old: str, new: str) -> tuple[str, ...]:
    return tuple(new if name == old else name for name in names)
