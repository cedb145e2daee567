"""Checks what graders and agents with tools have of their own."""

from engine.flow.flow_spec import AgentSpec
from engine.flow.graders import GRADERS
from engine.flow.plugin_tools import has_tool, tool_names
from engine.flow.report import Report
from engine.plugins import Plugins

_WITH: dict[str, tuple[type, str]] = {
    "question": (str, "a template"),
    "answer": (str, "a template"),
    "descriptions": (bool, "true or false"),
    "feedback_to": (str, "the name of an agent"),
}
"""The fields of `with` of a grader."""


def check_grader(agent: AgentSpec, path: str, report: Report) -> None:
    """Report what is wrong with a grader."""
    if agent.grader is None:
        return
    if agent.grader not in GRADERS:
        message = f'"{agent.name}" needs the grader "{agent.grader}", which this version does not have'
        report.error(f"{path}.grader", message + report.near(agent.grader, GRADERS), agent.name)
    for key, value in agent.with_.items():
        if key not in _WITH:
            message = f'The grader "{agent.name}" has no "{key}": it has no effect'
            report.warning(f"{path}.with.{key}", message + report.near(key, _WITH), agent.name)
        elif value is not None and not isinstance(value, _WITH[key][0]):
            message = f'"{agent.name}": {key} is {value!r}, expected {_WITH[key][1]}.'
            report.error(f"{path}.with.{key}", message, agent.name)
    if agent.tools:
        report.warning(f"{path}.tools", f'The grader "{agent.name}" calls no tools.', agent.name)


def check_tools(agent: AgentSpec, path: str, plugins: Plugins, report: Report) -> None:
    """Report tools that are not there, or that nobody calls."""
    for index, name in enumerate(agent.tools):
        if not has_tool(name, plugins):
            message = f'"{agent.name}" needs the tool "{name}", which neither this version nor a plug-in has'
            report.error(f"{path}.tools[{index}]", message + report.near(name, tool_names(plugins)), agent.name)
        elif name in agent.tools[:index]:
            report.warning(f"{path}.tools[{index}]", f'"{agent.name}" has the tool "{name}" twice.', agent.name)
    calls = agent.handler is not None and agent.handler.type == "tools"
    if agent.tools and not calls and agent.grader is None:
        message = f'"{agent.name}" has tools, but calls none: its handler is not "tools".'
        report.warning(f"{path}.tools", message, agent.name)
