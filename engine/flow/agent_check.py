"""Checks the fields of one agent: kind, model, handler, operations, merge."""

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass

from engine.errors import ProfileInvalid
from engine.flow.flow_spec import AgentSpec, AgentType, HandlerSpec, MergeSpec, ModelSpec, OperationSpec
from engine.flow.grader_check import check_grader, check_tools
from engine.flow.report import Report
from engine.flow.subflow_check import check_node_fields
from engine.plugins import Plugins
from engine.profile import ModelProfile, Provider
from engine.profile_builder import apply_overrides, inline_profile
from engine.profile_keys import HEADER_PREFIX

_NOT_YET: tuple[tuple[str, str, Callable[[AgentSpec], object]], ...] = (
    ("agent patterns", "pattern", lambda agent: agent.pattern),
)
"""What the format has and this version cannot run: the words, the field, and whether an agent has it."""

BUILT_IN_HANDLERS = {
    "text": ("key",),
    "accumulate": ("key",),
    "json": ("prefix", "schema"),
    "csv": ("prefix", "headings", "separator"),
    "tools": ("then",),
}
"""Each handler with the fields it has."""
BUILT_IN_MERGES = {
    "concat": ("keys",),
    "first": (),
    "vote": ("key",),
    "join": ("key", "keys", "template", "separator", "header", "sort_by"),
    "best": ("by",),
}
_MERGE_NEEDS = {"concat": ("keys",), "vote": ("key",), "join": ("key", "template"), "best": ("by",)}
_KINDS = ("type", "grader", "pattern", "flow")

_ADDRESS_KEYS = frozenset(["url", "urls", "interfaceUrl"])
_TRUST_KEYS = frozenset(
    ["proxy", "proxies", "noProxy", "caFile", "caBundle", "keyOverHttp", "verify", "verifyTls", "trust", "trusted"]
)
_TRUST_KEYS |= {"verifyTls", "approval", "approved", "approvals", "allowTools"}
"""What only the settings of an installation decide, under the names it has elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """What the installation has; None = not known, not checked."""

    profiles: Collection[str] | None = None
    categories: Collection[str] | None = None
    plugins: Plugins = dataclasses.field(default_factory=Plugins)


def is_secret(key: str) -> bool:
    """Whether a profile key holds a secret, or decides whom to trust: no flow may set it."""
    return key == "apiKey" or key.startswith(HEADER_PREFIX) or key in _TRUST_KEYS


def is_ignored_override(key: str) -> bool:
    """Whether an override is left out: a flow sends nobody's key to an address of its own choice."""
    return key in _ADDRESS_KEYS or is_secret(key)


def check_agent(agent: AgentSpec, path: str, available: Available, report: Report) -> None:
    """Report everything that is wrong with one agent by itself."""
    if not agent.name.strip():
        report.error(f"{path}.name", "An agent has no name.")
    kinds = [kind for kind in _KINDS if getattr(agent, kind) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        message = f'"{agent.name}" needs exactly one of {", ".join(_KINDS)}, found {found}.'
        report.error(path, message, agent.name)
    if agent.state is None:
        _check_not_yet(agent, path, report)
        check_grader(agent, path, report)
        check_tools(agent, path, available.plugins, report)
        if agent.flow is not None:
            check_node_fields(agent, path, report)
        elif agent.type is not AgentType.PROCESSING_ONLY:
            _check_model(agent, f"{path}.model", available, report)
    _check_handler(agent, agent.handler, f"{path}.handler", available.plugins, report)
    _check_response_format(agent, path, report)
    for place in ("before", "after"):
        operations: tuple[OperationSpec, ...] = getattr(agent, place)
        for index, operation in enumerate(operations):
            _check_operation(agent, operation, f"{path}.{place}[{index}]", available.plugins, report)
    if agent.merge is not None:
        _check_merge(agent, agent.merge, f"{path}.merge", available.plugins, report)
    elif agent.gather:
        message = f'"{agent.name}" gathers branches but has no merge that says how they become one.'
        report.error(f"{path}.gather", message, agent.name)
    _check_values(agent, path, report)


def _check_not_yet(agent: AgentSpec, path: str, report: Report) -> None:
    for words, field, needs in _NOT_YET:
        if needs(agent):
            _not_yet(agent, words, f"{path}.{field}", report)


def _not_yet(agent: AgentSpec, words: str, path: str, report: Report) -> None:
    report.error(path, f'"{agent.name}" needs {words}, which this version does not run.', agent.name)


def _check_model(agent: AgentSpec, path: str, available: Available, report: Report) -> None:
    model = agent.model or ModelSpec()
    given = [name for name in ("category", "profile", "inline") if getattr(model, name) is not None]
    if agent.model is not None and len(given) != 1:
        found = " and ".join(given) or "none"
        message = f'The model of "{agent.name}" needs exactly one of category, profile, inline, found {found}.'
        report.error(path, message, agent.name)
        return
    if model.profile is not None:
        if available.profiles is not None and model.profile not in available.profiles:
            message = f'"{agent.name}" uses the profile "{model.profile}", which does not exist'
            message += report.near(model.profile, available.profiles)
            report.error(f"{path}.profile", message, agent.name)
    elif model.inline is not None:
        _check_inline(agent, model.inline, f"{path}.inline", report)
    else:
        _check_category(agent, model.category or "M", f"{path}.category", available, report)
    _check_overrides(agent, model, f"{path}.overrides", report)


def _check_category(agent: AgentSpec, category: str, path: str, available: Available, report: Report) -> None:
    if available.categories is None or category in available.categories or category in (available.profiles or ()):
        return
    message = f'"{agent.name}" uses the category "{category}", which has no profile'
    report.error(path, message + report.near(category, available.categories), agent.name)


def _check_inline(agent: AgentSpec, values: dict[str, object], path: str, report: Report) -> None:
    for key in values:
        if is_secret(key):
            report.warning(f"{path}.{key}", f"A flow sets neither keys nor trust: {key} is ignored.", agent.name)
    try:
        inline_profile(agent.name, {key: value for key, value in values.items() if not is_secret(key)})
    except ProfileInvalid as error:
        for problem in error.problems:
            place = f"{path}.{problem.path}" if problem.path else path
            report.error(place, f'The profile in "{agent.name}": {problem.message}', agent.name)


def _check_overrides(agent: AgentSpec, model: ModelSpec, path: str, report: Report) -> None:
    # Any profile will do: each override is checked by itself.
    profile = ModelProfile(name=agent.name, category="M", provider=Provider.OPENAI_CHAT, url="http://localhost")
    for key, value in model.overrides.items():
        if is_ignored_override(key):
            message = f"A flow sets neither address nor key: {key} is ignored."
            report.warning(f"{path}.{key}", message, agent.name)
            continue
        try:
            apply_overrides(profile, {key: value})
        except ProfileInvalid as error:
            for problem in error.problems:
                report.error(f"{path}.{key}", f'"{agent.name}" overrides {problem.message}', agent.name)


def _check_handler(agent: AgentSpec, handler: HandlerSpec | None, path: str, plugins: Plugins, report: Report) -> None:
    if handler is None:
        return
    if handler.type not in BUILT_IN_HANDLERS:
        _check_plugin(
            agent, ("handlers", "the handler"), handler.type, f"{path}.type", plugins, report, BUILT_IN_HANDLERS
        )
        return
    fields = ("key", "prefix", "schema", "headings", "separator", "then")
    for field in _extra(handler, fields, BUILT_IN_HANDLERS[handler.type]):
        report.warning(f"{path}.{field}", f"A handler {handler.type} has no {field}: it has no effect.", agent.name)
    if handler.key == "":
        report.error(f"{path}.key", f'The handler of "{agent.name}" has an empty key.', agent.name)
    if handler.type == "csv" and not handler.headings:
        report.error(f"{path}.headings", f'The handler csv of "{agent.name}" needs headings.', agent.name)
    _check_handler(agent, handler.then, f"{path}.then", plugins, report)


def _check_plugin(
    agent: AgentSpec,
    kind: tuple[str, str],
    name: str,
    path: str,
    plugins: Plugins,
    report: Report,
    built_in: Collection[str] = (),
) -> None:
    """Report a plug-in that is not there; `kind` is its group and the words for it. Nothing is imported."""
    if plugins.find(kind[0], name) is not None:
        return
    message = f'"{agent.name}" needs {kind[1]} "{name}", which neither this version nor a plug-in has'
    report.error(path, message + report.near(name, [*built_in, *plugins.names(kind[0])]), agent.name)


def _check_response_format(agent: AgentSpec, path: str, report: Report) -> None:
    if agent.response_format is None:
        return
    handler = agent.handler
    if handler is None or handler.type != "json" or handler.schema is None:
        message = f'"{agent.name}" asks for answers by a JSON schema, but its handler is not json with a schema.'
        report.error(f"{path}.response_format", message, agent.name)


def _check_operation(agent: AgentSpec, operation: OperationSpec, path: str, plugins: Plugins, report: Report) -> None:
    given = [name for name in ("set", "delete", "skip", "call") if getattr(operation, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        message = f'An operation of "{agent.name}" needs exactly one of set, delete, skip, call, found {found}.'
        report.error(path, message, agent.name)
    elif operation.call is not None:
        kind = ("functions", "the plug-in function")
        _check_plugin(agent, kind, operation.call, f"{path}.call", plugins, report)
    if (operation.set is None) != (operation.to is None):
        message = f'An operation of "{agent.name}" has only one of set and to, which belong together.'
        report.error(path, message, agent.name)
    if "" in (operation.set, operation.delete):
        report.error(path, f'An operation of "{agent.name}" has an empty key.', agent.name)


def _check_merge(agent: AgentSpec, merge: MergeSpec, path: str, plugins: Plugins, report: Report) -> None:
    if merge.type not in BUILT_IN_MERGES:
        _check_plugin(agent, ("merges", "the merge"), merge.type, f"{path}.type", plugins, report, BUILT_IN_MERGES)
        return
    for field in _MERGE_NEEDS.get(merge.type, ()):
        if not getattr(merge, field):
            message = f'The merge {merge.type} of "{agent.name}" needs {field}.'
            report.error(f"{path}.{field}", message, agent.name)
    fields = ("key", "keys", "template", "separator", "header", "sort_by", "by")
    for field in _extra(merge, fields, BUILT_IN_MERGES[merge.type]):
        report.warning(f"{path}.{field}", f"A merge {merge.type} has no {field}: it has no effect.", agent.name)


def _extra(spec: HandlerSpec | MergeSpec, fields: Collection[str], known: Collection[str]) -> list[str]:
    return [field for field in fields if field not in known and getattr(spec, field) not in (None, ())]


def _check_values(agent: AgentSpec, path: str, report: Report) -> None:
    for index, shot in enumerate(agent.few_shot):
        if len(shot.tool_calls) != len(shot.tool_results):
            message = (
                f'An example of "{agent.name}" has {len(shot.tool_calls)} calls and {len(shot.tool_results)} results.'
            )
            report.error(f"{path}.few_shot[{index}].tool_results", message, agent.name)
    if "" in agent.stop:
        report.error(f"{path}.stop", f'A text that stops "{agent.name}" is empty.', agent.name)
    if agent.retry_on_parsing_error < 0:
        report.error(f"{path}.retry_on_parsing_error", _at_least(agent.retry_on_parsing_error, 0), agent.name)
    if agent.max_tool_call_rounds is not None and agent.max_tool_call_rounds < 1:
        report.error(f"{path}.max_tool_call_rounds", _at_least(agent.max_tool_call_rounds, 1), agent.name)
    if agent.timeout is not None and agent.timeout <= 0:
        report.error(f"{path}.timeout", f"Found {agent.timeout:g}, expected seconds above 0.", agent.name)


def _at_least(found: int, least: int) -> str:
    return f"Found {found}, expected at least {least}."
