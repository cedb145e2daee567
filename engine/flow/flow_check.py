"""Finds every problem of a flow before it costs anything: each with its JSON path and agent."""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache

from engine.errors import Problem, ProfileError, ProfileInvalid
from engine.flow.agent_check import Available, check_agent
from engine.flow.expressions import PROVIDED
from engine.flow.flow_file import LoadedFlow
from engine.flow.flow_inputs import default_values
from engine.flow.flow_keys import KnownKeys, Use, agent_keys, handler_keys, known_keys, uses
from engine.flow.flow_links import check_links
from engine.flow.flow_spec import AgentSpec, AgentType, FlowSpec, ModelSpec
from engine.flow.json_places import above, placed
from engine.flow.report import Report
from engine.flow.subflow_check import Above, check_subflows
from engine.flow.subflow_files import FlowFiles
from engine.flow.tools import can_call_tools
from engine.plugins import Plugins
from engine.profile import Category
from engine.profile_store import ProfileStore

_MAX_SECONDS = 1.5
"""Computing time for looking through the texts of a flow."""


def check_flow(
    spec: FlowSpec,
    *,
    profiles: Collection[str] | None = None,
    categories: Collection[str] | None = None,
    plugins: Plugins | None = None,
    file: str = "",
    files: FlowFiles | None = None,
) -> list[Problem]:
    """List the problems; a flow without an `error` among them can run.

    `profiles` and `categories` (labels) are those of the installation; None = they are not checked. `plugins` are those
    the flow may use; None = those of installed packages. `files` reads the flows that run as nodes; None = no file is
    touched, and they are not checked.
    """
    above = ("",) if files is None else (files.origin,)
    available = Available(profiles=profiles, categories=categories, plugins=plugins or Plugins())
    return _Checker(available, files).problems(spec, above, file)


class _Checker:
    """Checks a flow and those inside of it, each of these once."""

    def __init__(self, available: Available, files: FlowFiles | None) -> None:
        self._available = available
        self._files = files
        self._inner: dict[str, list[Problem]] = {}

    def problems(self, spec: FlowSpec, above: Above, file: str = "") -> list[Problem]:
        report = Report(file)
        _check_one(spec, self._available, report)
        if self._files is not None:
            check_subflows(spec, self._files, above, self._inside, report)
        return report.problems

    def _inside(self, spec: FlowSpec, above: Above) -> list[Problem]:
        if above[-1] not in self._inner:
            self._inner[above[-1]] = self.problems(spec, above)
        return self._inner[above[-1]]


def _check_one(spec: FlowSpec, available: Available, report: Report) -> None:
    """Report what is wrong with a flow by itself."""
    _check_inputs(spec, report)
    _check_limits(spec, report)
    first = _first_places(agent.name for agent in spec.agents)
    for name, count in Counter(agent.name for agent in spec.agents).items():
        if count > 1:
            report.error(f"$.agents[{first[name]}].name", f'{count} agents are named "{name}".', name)
    for index, agent in enumerate(spec.agents):
        check_agent(agent, f"$.agents[{index}]", available, report)
    _check_paths(spec, report)
    check_links(spec, report)
    _check_keys(spec, report)


def check_loaded(
    loaded: LoadedFlow,
    *,
    profiles: ProfileStore | None = None,
    plugins: Plugins | None = None,
    file: str = "",
) -> list[Problem]:
    """List the problems of a flow that was read tolerantly: first those of its shape, then those `check_run` finds.

    Without `profiles` those are not checked. Each has line and column, if it came from a text. Flows that run as nodes
    are read, too.
    """
    faulty = {problem.path for problem in loaded.problems if problem.severity == "error"}
    files = FlowFiles(loaded.origin)
    if profiles is None:
        found = check_flow(loaded.spec, plugins=plugins, file=file, files=files)
    else:
        found = check_run(loaded.spec, profiles, plugins, file=file, files=files)
    # What is said about a value that only stands in for a faulty one is no news.
    rest = (problem for problem in found if faulty.isdisjoint(above(problem.path)))
    return placed([*loaded.problems, *rest], loaded.text)


def check_run(
    spec: FlowSpec,
    profiles: ProfileStore,
    plugins: Plugins | None = None,
    *,
    file: str = "",
    files: FlowFiles | None = None,
) -> list[Problem]:
    """List the problems of a flow with the profiles that would answer; it can run when none is an `error`.

    `file` and `files` are as for `check_flow`.
    """
    problems = check_flow(
        spec, profiles=profiles.names(), categories=profiles.categories(), plugins=plugins, file=file, files=files
    )
    faults: dict[Problem, None] = {}
    unusable = _unusable_profiles(spec, profiles, faults)
    if files is not None and all(problem.severity != "error" for problem in (*problems, *unusable)):
        unusable += _unusable_inside(spec, profiles, files, faults)
    return [*problems, *(replace(problem, file=file) for problem in unusable), *faults]


def _unusable_inside(
    spec: FlowSpec, profiles: ProfileStore, files: FlowFiles, faults: dict[Problem, None]
) -> Iterator[Problem]:
    """Nodes with an agent inside whose profile has faults; the flows themselves are checked."""
    done: set[str] = set()

    def found(inner: FlowSpec, beside: str) -> Iterator[Problem]:
        for agent in inner.agents:
            if agent.flow is None or agent.state is not None:
                continue
            loaded = files.open(agent.flow, beside)
            if loaded.origin not in done:
                done.add(loaded.origin)
                yield from _unusable_profiles(loaded.spec, profiles, faults)
                yield from found(loaded.spec, loaded.origin)

    for index, agent in enumerate(spec.agents):
        if agent.flow is not None and agent.state is None:
            lone = FlowSpec(name="", agents=(agent,))
            for problem in found(lone, files.origin):
                message = f'"{agent.name}" runs "{agent.flow}". {problem.message}'
                path = f"$.agents[{index}].flow"
                yield Problem(severity="error", message=message, path=path, agent=agent.name)


def _unusable_profiles(spec: FlowSpec, profiles: ProfileStore, faults: dict[Problem, None]) -> list[Problem]:
    """Agents whose profile has faults: found before the agents in front of them cost anything.

    What is wrong with the profiles themselves comes to `faults`, each once.
    """
    problems = []
    # Most agents share a few profiles, and there may be thousands of agents.
    resolve = cache(profiles.resolve)
    for index, agent in enumerate(spec.agents):
        model = agent.model or ModelSpec(category="M")
        if (
            agent.type is AgentType.PROCESSING_ONLY
            or agent.flow is not None
            or agent.state is not None
            or model.inline is not None
        ):
            continue
        try:
            profile = resolve(model.profile or Category.named(model.category or "M"))
            if agent.tools and not can_call_tools(profile):
                text = f'"{agent.name}" has tools, but the profile "{profile.name}" takes none.'
                path = f"$.agents[{index}].tools"
                problems.append(Problem(severity="error", message=text, path=path, agent=agent.name))
        except ProfileInvalid as error:
            errors = [problem for problem in error.problems if problem.severity == "error"]
            faults.update(dict.fromkeys(errors[1:] and errors))  # a single one is in the message
            text = f'"{agent.name}" cannot run. {error.message}'
            problems.append(Problem(severity="error", message=text, path=f"$.agents[{index}].model", agent=agent.name))
        except ProfileError:
            continue  # there is no such profile: `check_flow` tells
    return problems


def _first_places(names: Iterable[str]) -> dict[str, int]:
    places: dict[str, int] = {}
    for index, name in enumerate(names):
        places.setdefault(name, index)
    return places


def _check_inputs(spec: FlowSpec, report: Report) -> None:
    counts = Counter(item.key for item in spec.inputs)
    first = _first_places(item.key for item in spec.inputs)
    for index, item in enumerate(spec.inputs):
        path = f"$.inputs[{index}]"
        if not item.key.strip():
            report.error(f"{path}.key", "An input has no key.")
        elif counts[item.key] > 1 and first[item.key] == index:
            report.error(f"{path}.key", f'{counts[item.key]} inputs have the key "{item.key}".')
        if item.type == "choice" and not item.choices:
            report.error(f"{path}.choices", f'The input "{item.key}" is a choice without choices.')
        elif item.default is not None:
            try:
                default_values(item)
            except ValueError as error:
                report.error(f"{path}.default", f'The default of the input "{item.key}": {error}.')
        if item.choices and item.type != "choice":
            report.warning(f"{path}.choices", f'The input "{item.key}" is no choice: its choices have no effect.')


def _check_paths(spec: FlowSpec, report: Report) -> None:
    """Names of agents inside of nodes, `Node/Agent`, are not names of agents here."""
    nodes = {agent.name for agent in spec.agents if agent.flow is not None}
    for index, agent in enumerate(spec.agents):
        before, slash, _ = agent.name.partition("/")
        if slash and before in nodes:
            message = f'"{agent.name}" is called like an agent inside of "{before}".'
            report.error(f"$.agents[{index}].name", message, agent.name)


def _check_limits(spec: FlowSpec, report: Report) -> None:
    limits = spec.limits
    if limits is None:
        return
    if limits.max_steps is not None and limits.max_steps < 1:
        report.error("$.limits.max_steps", f"Found {limits.max_steps}, expected at least 1.")
    if limits.max_seconds is not None and limits.max_seconds <= 0:
        report.error("$.limits.max_seconds", f"Found {limits.max_seconds:g}, expected seconds above 0.")
    if limits.max_cost is not None and limits.max_cost < 0:
        report.error("$.limits.max_cost", f"Found {limits.max_cost:g}, expected at least 0.")
    if limits.max_tool_calls is not None and limits.max_tool_calls < 0:
        report.error("$.limits.max_tool_calls", f"Found {limits.max_tool_calls}, expected at least 0.")


def _check_keys(spec: FlowSpec, report: Report) -> None:
    known = known_keys(spec)
    inputs = {item.key for item in spec.inputs}
    used = set(spec.outputs)
    all_known = not _may_use_any(spec)
    deadline = time.thread_time() + _MAX_SECONDS
    for index, agent in enumerate(spec.agents):
        if time.thread_time() > deadline:
            path = f"$.agents[{index}]"
            report.warning(
                path, "The flow has too many long texts: the keys from here on were not checked.", agent.name
            )
            return
        for use in uses(agent, f"$.agents[{index}]"):
            all_known = all_known and not use.error
            used |= use.names.keys | use.names.optional | use.names.slots
            _check_use(agent, use, known, report)
        _check_collisions(inputs, agent, f"$.agents[{index}]", report)
    for index, output in enumerate(spec.outputs):
        if output not in known.names and not known.open:
            message = f'Nothing provides the output "{output}"'
            report.warning(f"$.outputs[{index}]", message + report.near(output, known.names))
    if all_known:
        for index, item in enumerate(spec.inputs):
            if item.key not in used:
                report.warning(f"$.inputs[{index}]", f'Nothing uses the input "{item.key}".')


def _may_use_any(spec: FlowSpec) -> bool:
    """Whether a part of the flow can read keys it does not name."""
    return any(
        agent.pattern is not None
        or agent.grader is not None
        or any(operation.call is not None for operation in (*agent.before, *agent.after))
        for agent in spec.agents
    )


def _check_use(agent: AgentSpec, use: Use, known: KnownKeys, report: Report) -> None:
    if use.error:
        report.error(use.path, use.error, agent.name)
    if "passed" in use.names.provided and agent.grader is None and "passed" not in known.names and not known.open:
        message = f'"{agent.name}" uses passed, which only the routes of a grader have.'
        report.error(use.path, message, agent.name)
    if known.open:
        return
    for key in sorted((use.names.keys | use.names.slots) - known.names):
        message = f'Nothing provides the key "{key}"' + report.near(key, known.names)
        if use.strict and key in use.names.keys:
            report.error(use.path, message, agent.name)
        else:
            report.warning(use.path, message, agent.name)


def _check_collisions(inputs: Collection[str], agent: AgentSpec, path: str, report: Report) -> None:
    if agent.handler is not None and agent.handler.type == "json":
        for name, count in Counter(handler_keys(agent.handler)[0]).items():
            if count > 1:
                message = f'The JSON of "{agent.name}" has "{name}" {count} times; all values go to one key.'
                report.warning(f"{path}.handler.schema", message, agent.name)
            if name in inputs:
                message = f'The JSON of "{agent.name}" replaces the input "{name}"; a prefix keeps them apart.'
                report.warning(f"{path}.handler.schema", message, agent.name)
    # `passed` has its special meaning at graders only.
    for name in sorted((PROVIDED - {"passed"}).intersection(agent_keys(agent)[0])):
        message = f'The key "{name}" of "{agent.name}" is also a name of expressions: there, write all.{name}.'
        report.warning(path, message, agent.name)
