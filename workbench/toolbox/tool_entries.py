"""The tools there are, as the page lists them; listing imports nothing."""

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from engine import Tool
from engine.flow.plugin_tools import SAMPLE_TOOLS, find_tool
from engine.plugins import Plugin, Plugins

translate = QCoreApplication.translate


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowTools:
    """The tools in the folder beside an open flow."""

    flow: str
    plugins: Plugins
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """A tool, or a plug-in that is one once it is loaded."""

    name: str
    group: str
    """Where it is from, as a head of the list."""
    tool: Tool | None
    """None for one of a package that was not loaded yet."""
    plugin: Plugin | None = None
    """None for one that comes with the workbench."""
    trusted: bool = True
    """Whether its code may run."""

    @property
    def in_process(self) -> bool:
        """Whether it runs inside of this program."""
        return self.plugin is None or self.plugin.source is None


def tool_entries(flows: Iterable[FlowTools]) -> list[ToolEntry]:
    """All tools: our own, those of installed packages, those beside the open flows."""
    own = translate("Toolbox", "With the workbench")
    found = [ToolEntry(name=name, group=own, tool=tool) for name, tool in SAMPLE_TOOLS.items()]
    packages = Plugins()
    for name in packages.names("tools"):
        plugin = packages.find("tools", name)
        if plugin is not None and name not in SAMPLE_TOOLS:
            group = translate("Toolbox", "Installed packages")
            found.append(ToolEntry(name=name, group=group, tool=None, plugin=plugin))
    for flow in flows:
        group = translate("Toolbox", "Beside the flow %1").replace("%1", flow.flow)
        found += _of_folder(flow, group)
    return found


def _of_folder(flow: FlowTools, group: str) -> list[ToolEntry]:
    folder = flow.plugins.folder
    names = sorted(name for kind, name in folder.plugins if kind == "tools") if folder is not None else []
    return [
        ToolEntry(
            name=name,
            group=group,
            tool=find_tool(name, flow.plugins),
            plugin=flow.plugins.find("tools", name),
            trusted=flow.trusted,
        )
        for name in names
        if name not in SAMPLE_TOOLS
    ]


def loaded(entry: ToolEntry) -> Tool:
    """The tool itself: imports the package's module. Raises PluginError."""
    return entry.tool if entry.tool is not None else find_tool(entry.name, Plugins())
