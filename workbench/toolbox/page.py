"""The page *Tools* as a whole: the list, what is known of a tool, trying it, and what was approved."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
)

from engine import Engine, EngineError, PluginError, Tool
from engine.flow.granted_tools import HTTP_GET, READ_FILE, call_granted
from engine.flow.tools import AllowTool
from engine.trust import Approval
from workbench.engine_options import EngineOptions
from workbench.error_presenter import error_banner
from workbench.page import Page
from workbench.tasks import Tasks
from workbench.text_format import plain_tip, seconds_text, visible_text, when_text
from workbench.theme import theme
from workbench.toolbox.approvals_view import ApprovalsView, Grant
from workbench.toolbox.tool_entries import FlowTools, ToolEntry, loaded, tool_entries
from workbench.toolbox.tool_view import ToolView
from workbench.toolbox.try_form import TryForm
from workbench.widgets.banner_stack import BannerStack
from workbench.widgets.row_delegate import RowDelegate
from workbench.widgets.tab_order import walk

ENTRY_ROLE = Qt.ItemDataRole.UserRole + 1


class ToolsPage(Page):
    """Shows one tool at a time, or what was approved."""

    def __init__(self, engine: Engine, options: EngineOptions, tasks: Tasks, ask: Callable[[], AllowTool]) -> None:
        """`ask` makes the question before a tool with side effects is called."""
        super().__init__()
        self._engine = engine
        self._options = options
        self._tasks = tasks
        self._ask = ask
        self.flow_tools: Callable[[], Sequence[FlowTools]] = tuple
        """The tools beside the open flows; reads files."""
        self.run_grants: Callable[[], Sequence[Grant]] = tuple
        """What is allowed in the runs that go on; the key of each takes it back when it is called."""
        self.trust_withdrawn: Callable[[Approval], object] = lambda _approval: None
        """Tells the open flows that one is no longer trusted."""
        self.entries: list[ToolEntry] = []
        self._tools: dict[tuple[str, str], Tool] = {}
        """By group and name: the plug-ins of packages that were loaded."""
        self._calling: asyncio.Task[object] | None = None
        self._begun = self._closed = False
        self._reading = 0
        self.banners = BannerStack(self)
        self.list = QListWidget(self)
        self.list.setAccessibleName(self.tr("Tools"))
        self.list.setItemDelegate(RowDelegate(24, self.list))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.currentItemChanged.connect(lambda _now, _before: self._show_tool())
        self.view, self.form, self.approvals = ToolView(self), TryForm(self), ApprovalsView(self)
        self.views = QTabBar(self)
        self.views.setProperty("flat", True)
        self.views.setDrawBase(False)
        self.views.setExpanding(False)
        self.views.setAccessibleName(self.tr("What is shown"))
        for name in (self.tr("Tools"), self.tr("Approvals")):
            self.views.addTab(name)
        self._title = QLabel(self.tr("Tools"), self)
        self._pages = QStackedWidget(self)
        self.views.currentChanged.connect(self._pages.setCurrentIndex)
        self._lay_out()
        self._connect()
        theme.changed.connect(self._restyle)
        self._restyle()

    def _connect(self) -> None:
        self.view.load_wanted.connect(lambda: self._start(self._load()))
        self.form.called.connect(self._call)
        self.form.stop_wanted.connect(self._stop)
        self.approvals.taken_back.connect(self._take_back)
        self.approvals.folder_wanted.connect(self._ask_folder)
        self.approvals.host_wanted.connect(self._ask_host)
        self._options.changed.connect(self.refresh)

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setContentsMargins(theme.px(16), theme.px(6), theme.px(12), theme.px(6))
        head.setSpacing(theme.px(12))
        head.addWidget(self._title)
        head.addWidget(self.views)
        head.addStretch(1)
        tools = QSplitter(Qt.Orientation.Horizontal, self)
        tools.setHandleWidth(1)
        tools.setChildrenCollapsible(False)
        for part in (self.list, self.view, self.form):
            tools.addWidget(part)
        tools.setSizes([theme.px(240), theme.px(720), theme.px(400)])
        tools.setStretchFactor(1, 1)
        self._pages.addWidget(tools)
        self._pages.addWidget(self.approvals)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.banners)
        layout.addLayout(head)
        layout.addWidget(self._pages, 1)
        self.setFocusProxy(self.list)

    def _start(self, work: Coroutine[object, object, object]) -> None:
        self._tasks.start(work, self)

    # -- listing ------------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Look at the tools when somebody first does, and again whenever the page comes to the front."""
        super().showEvent(event)
        self._begun = True
        self.refresh()

    def refresh(self) -> None:
        """Look at tools and approvals again."""
        if self._begun and not self._closed:
            self._start(self._read())

    async def _read(self) -> None:
        self._reading += 1
        number = self._reading
        entries, approved = await asyncio.to_thread(
            lambda: (tool_entries(self.flow_tools()), self._engine.access.approvals())
        )
        if number != self._reading:
            return
        self.approvals.show_grants([*map(_of_flow, approved), *self.run_grants(), *self._settings_grants()])
        if entries != self.entries:
            self.entries = entries
            self._fill()
        else:
            self._show_tool()

    def _settings_grants(self) -> list[Grant]:
        settings = self._options.current
        read, asked = READ_FILE.name, HTTP_GET.name
        tool = self.tr("tool %1")
        return [
            *(Grant(kind="folder", name=name, detail=tool.replace("%1", read)) for name in settings.tool_folders),
            *(Grant(kind="host", name=name, detail=tool.replace("%1", asked)) for name in settings.tool_hosts),
        ]

    def _fill(self) -> None:
        chosen = self.entry()
        before = (chosen.group, chosen.name) if chosen is not None else None
        self.list.blockSignals(True)
        self.list.clear()
        group = ""
        for entry in self.entries:
            if entry.group != group:
                group = entry.group
                head = QListWidgetItem(visible_text(group), self.list)
                head.setFlags(Qt.ItemFlag.NoItemFlags)
                head.setFont(theme.font(11, 600))
                head.setForeground(theme.color("muted"))
            item = QListWidgetItem(theme.icon("tool", 16), visible_text(entry.name), self.list)
            item.setToolTip(plain_tip(entry.tool.definition.description if entry.tool is not None else entry.name))
            item.setData(ENTRY_ROLE, entry)
            if before == (entry.group, entry.name):
                self.list.setCurrentItem(item)
        if self.list.currentItem() is None or self.entry() is None:
            self.list.setCurrentRow(1)
        self.list.blockSignals(False)
        self._show_tool()

    def entry(self) -> ToolEntry | None:
        """The tool that is chosen."""
        item = self.list.currentItem()
        entry: ToolEntry | None = item.data(ENTRY_ROLE) if item is not None else None
        return entry

    def choose(self, name: str) -> None:
        """Show a tool."""
        for row in range(self.list.count()):
            entry = self.list.item(row).data(ENTRY_ROLE)
            if entry is not None and entry.name == name:
                self.list.setCurrentRow(row)

    # -- one tool -----------------------------------------------------------------------------------------------------

    def _show_tool(self) -> None:
        entry = self.entry()
        if entry is None:
            return
        tool = self._tool(entry)
        self.view.show_tool(entry, tool, self._facts(entry, tool))
        if self._calling is None or self._calling.done():
            why = "" if entry.trusted else self.tr("Its flow is not trusted: its code does not run.")
            self.form.show_tool(tool, self.tr("Load it first.") if tool is None else why)
            walk([self.list, self.view.table, self.view.load, *self.form.stops()])

    def _tool(self, entry: ToolEntry) -> Tool | None:
        return entry.tool if entry.tool is not None else self._tools.get((entry.group, entry.name))

    def _facts(self, entry: ToolEntry, tool: Tool | None) -> list[tuple[str, str]]:
        asks = tool is None or tool.side_effects
        effects = (
            self.tr("Reads, writes, sends or pays for something: each call is asked about.")
            if asks
            else self.tr("Only computes: it is called without asking.")
        )
        facts = [(self.tr("Side effects"), effects)]
        settings = self._options.current
        none = self.tr("none granted: it refuses every call")
        if tool is READ_FILE:
            facts.append((self.tr("Folders"), ", ".join(settings.tool_folders) or none))
        if tool is HTTP_GET:
            facts.append((self.tr("Hosts"), ", ".join(settings.tool_hosts) or none))
            if self._engine.offline:
                facts.append((self.tr("Network"), self.tr("The offline lock refuses all but this machine.")))
        if entry.plugin is not None:
            where = (
                self.tr("Inside of the workbench, with your rights.")
                if entry.in_process
                else self.tr("In a process of its own, with your rights.")
            )
            facts += [(self.tr("Comes from"), entry.plugin.origin), (self.tr("Runs"), where)]
        if tool is not None:
            facts.append((self.tr("Time limit"), seconds_text(tool.timeout)))
        return facts

    async def _load(self) -> None:
        """Import the package of the chosen tool."""
        entry = self.entry()
        if entry is None:
            return
        try:
            self._tools[entry.group, entry.name] = await asyncio.to_thread(loaded, entry)
        except PluginError as error:
            self.banners.push(error_banner(error))
        self._show_tool()

    # -- trying -------------------------------------------------------------------------------------------------------

    def _call(self, arguments: Mapping[str, object]) -> None:
        entry = self.entry()
        tool = self._tool(entry) if entry is not None else None
        if tool is not None and (self._calling is None or self._calling.done()):
            self.form.show_calling()
            self._start(self._called(tool, json.dumps(arguments, ensure_ascii=False)))

    async def _called(self, tool: Tool, arguments: str) -> None:
        began = time.perf_counter()
        calling = asyncio.ensure_future(call_granted(tool, arguments, self._engine.grants, self._ask()))
        self._calling = calling
        try:
            await asyncio.wait({calling})
        finally:
            calling.cancel()
        if self._closed:
            return
        outcome = None if calling.cancelled() else calling.result()
        self.form.show_outcome(outcome, time.perf_counter() - began)
        entry = self.entry()
        if entry is not None and self._tool(entry) is not tool:  # another one was chosen meanwhile
            self._show_tool()

    def _stop(self) -> None:
        if self._calling is not None:
            self._calling.cancel()

    # -- approvals ----------------------------------------------------------------------------------------------------

    def _take_back(self, grant: Grant) -> None:
        settings = self._options.current
        match grant.kind, grant.key:
            case "flow", Approval() as approval:
                self._start(self._withdraw(approval))
            case "folder", _:
                self._options.change(tool_folders=tuple(name for name in settings.tool_folders if name != grant.name))
            case "host", _:
                self._options.change(tool_hosts=tuple(name for name in settings.tool_hosts if name != grant.name))
            case "run", key if callable(key):
                key()
                self.refresh()

    async def _withdraw(self, approval: Approval) -> None:
        try:
            await asyncio.to_thread(self._engine.access.withdraw, approval)
        except EngineError as error:
            self.banners.push(error_banner(error))
        self.trust_withdrawn(approval)
        await self._read()

    def _ask_folder(self) -> None:
        dialog = QFileDialog(self, self.tr("Folder that tools may read"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self._grant_folder)
        dialog.open()

    def _grant_folder(self, name: str) -> None:
        folders = self._options.current.tool_folders
        place = str(Path(name).absolute())
        if name and place not in folders:
            self._options.change(tool_folders=(*folders, place))

    def _ask_host(self) -> None:
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(self.tr("Host that tools may ask"))
        dialog.setLabelText(self.tr("Name as in addresses, with a port where it is not the usual one:"))
        dialog.textValueSelected.connect(self._grant_host)
        dialog.open()

    def _grant_host(self, text: str) -> None:
        host = text.strip().lower().rpartition("://")[2].partition("/")[0]
        hosts = self._options.current.tool_hosts
        if host and host not in hosts:
            self._options.change(tool_hosts=(*hosts, host))

    async def close_page(self) -> None:
        """Stop a call."""
        self._closed = True
        self._reading += 1
        self._stop()

    def _restyle(self) -> None:
        self.form.restyle()
        self._title.setFont(theme.font(15, 600))
        self.views.setFont(theme.font(12, 500))
        self.list.setIconSize(QSize(theme.px(16), theme.px(16)))
        self._fill()


def _of_flow(approval: Approval) -> Grant:
    return Grant(
        kind="flow",
        name=approval.name,
        detail=str(approval.path or ""),
        since=when_text(approval.trusted.timestamp()),
        tip="\n\n".join(f"{place}\n{text[:400]}" for place, text in approval.parts.items())[:4000],
        key=approval,
    )
