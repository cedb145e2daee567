"""Every action of the window: id, text, shortcut, icon, tip and menu, in one table.

Texts, tips and menu titles stand here in English; they are translated (context `actions`) when actions and menus are
made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QWidget

from workbench.theme import theme


@dataclass(frozen=True, slots=True)
class ActionRow:
    """One line of the table."""

    id: str
    menu: str
    text: str
    tip: str
    shortcut: str = ""
    icon: str = ""
    checkable: bool = False
    separator: bool = False
    """A line above it in its menu."""
    canvas: bool = False
    """Its keys count only where the focus is on the canvas or in the outline: elsewhere they mean something else."""

    @property
    def first_keys(self) -> list[QKeySequence]:
        """The keys it has until a person chooses others; in `shortcut` they are separated by `; `."""
        return QKeySequence.listFromString(self.shortcut) if self.shortcut else []


MENUS = {
    "File": "&File",
    "Edit": "&Edit",
    "View": "&View",
    "Flow": "F&low",
    "Run": "&Run",
    "Tools": "&Tools",
    "Help": "&Help",
}
"""Title → title with the letter that opens it with Alt."""

ACTIONS = (
    ActionRow("new", "File", "&New flow", "Begin an empty flow", "Ctrl+N", "plus"),
    ActionRow("open", "File", "&Open flow…", "Open a flow file", "Ctrl+O", "folder"),
    ActionRow("open_sample", "File", "Open &sample", "Open one of the flows that come with the workbench"),
    ActionRow("open_recent", "File", "Open &recent", "Open a flow that was open before"),
    ActionRow("save", "File", "&Save", "Save the flow", "Ctrl+S", separator=True),
    ActionRow("save_as", "File", "Save &as…", "Save the flow under another name", "Ctrl+Shift+S"),
    ActionRow(
        "restore_version", "File", "Restore &version", "Take back one of the five versions saved before the last"
    ),
    ActionRow("export_flow", "File", "&Export…", "Write the flow as a picture, a diagram or a Python script"),
    ActionRow("close", "File", "&Close tab", "Close this flow", "Ctrl+W", separator=True),
    ActionRow("quit", "File", "&Quit", "End the workbench", "Ctrl+Q"),
    ActionRow("undo", "Edit", "&Undo", "Take back the last change", "Ctrl+Z", "undo"),
    ActionRow("redo", "Edit", "&Redo", "Do again what was taken back", "Ctrl+Shift+Z; Ctrl+Y", "redo"),
    ActionRow(
        "cut",
        "Edit",
        "Cu&t",
        "Put the selected agents on the clipboard and remove them",
        "Ctrl+X",
        "",
        separator=True,
        canvas=True,
    ),
    ActionRow(
        "copy", "Edit", "&Copy", "Put the selected agents on the clipboard, as text", "Ctrl+C", "copy", canvas=True
    ),
    ActionRow("paste", "Edit", "&Paste", "Add the agents of the clipboard at the mouse", "Ctrl+V", canvas=True),
    ActionRow(
        "paste_linked",
        "Edit",
        "Paste with &links",
        "Paste, with the links that led to what was copied",
        "Ctrl+Shift+V",
        canvas=True,
    ),
    ActionRow("duplicate", "Edit", "D&uplicate", "Copy the selected agents beside themselves", "Ctrl+D", canvas=True),
    ActionRow("delete", "Edit", "&Delete", "Remove what is selected, with its links", "Del", "trash", canvas=True),
    ActionRow(
        "delete_heal",
        "Edit",
        "Delete and &reconnect",
        "Remove the selected agents and join what they joined",
        "Ctrl+Del",
        canvas=True,
    ),
    ActionRow(
        "find", "Edit", "&Find…", "Find agents by words in their names and prompts", "Ctrl+F", "search", separator=True
    ),
    ActionRow("select_all", "Edit", "Select &all agents", "Select every agent of the flow", "Ctrl+A", separator=True),
    ActionRow("select_none", "Edit", "Select &none", "Select no agent: the inspector shows the flow itself"),
    ActionRow(
        "palette", "View", "&Command palette…", "Find any action, flow, agent, profile or run", "Ctrl+K", "search"
    ),
    ActionRow(
        "compare",
        "View",
        "Com&pare",
        "Ask several profiles the same, side by side",
        "Ctrl+Alt+C",
        "compare",
        separator=True,
    ),
    ActionRow(
        "prompts",
        "View",
        "&Prompts",
        "Read and edit the prompts of agents and tools",
        "Ctrl+Alt+P",
        "content",
    ),
    ActionRow(
        "profiles",
        "View",
        "P&rofiles",
        "Edit and test profiles; choose which answers for a category",
        "Ctrl+Alt+M",
        "profile",
    ),
    ActionRow("tools", "View", "Too&ls", "What models may call: try it, and take approvals back", "Ctrl+Alt+T", "tool"),
    ActionRow(
        "dashboard",
        "View",
        "&Dashboard",
        "Read what requests cost, how long they took and what failed",
        "Ctrl+Alt+D",
        "dashboard",
    ),
    ActionRow("fit", "View", "&Fit flow", "Show the whole flow", "Shift+F", "fit", separator=True),
    ActionRow("fit_selection", "View", "Fit &selection", "Show the selected agents", "F"),
    ActionRow("zoom_in", "View", "Zoom &in", "Show the flow larger", "Ctrl++; Ctrl+=", "zoom-in"),
    ActionRow("zoom_out", "View", "Zoom &out", "Show the flow smaller", "Ctrl+-", "zoom-out"),
    ActionRow("zoom_reset", "View", "&Actual size", "Show the flow at 100 %", "Ctrl+0"),
    ActionRow("text_larger", "View", "Text &larger", "Make all text larger", "Ctrl+Alt++", separator=True),
    ActionRow("text_smaller", "View", "Text s&maller", "Make all text smaller", "Ctrl+Alt+-"),
    ActionRow("text_reset", "View", "Text &normal", "Show text at 100 %", "Ctrl+Alt+0"),
    ActionRow(
        "theme_system",
        "View",
        "Theme: as the s&ystem",
        "Follow the system's colour scheme",
        "",
        checkable=True,
        separator=True,
    ),
    ActionRow("theme_dark", "View", "Theme: &dark", "Dark colours", "", checkable=True),
    ActionRow("theme_light", "View", "Theme: ligh&t", "Light colours", "", checkable=True),
    ActionRow(
        "theme_toggle",
        "View",
        "Switch dark and light",
        "Switch between dark and light colours",
        "Ctrl+Shift+L",
        "theme",
    ),
    ActionRow("reduced_motion", "View", "Reduce &motion", "Nothing on screen moves by itself", "", checkable=True),
    ActionRow(
        "reset_layout", "View", "&Reset layout", "Put all docks back where they were designed", "", separator=True
    ),
    ActionRow("add_agent", "Flow", "&Add agent…", "Add an agent, a snippet or a flow", "Shift+A", "plus", canvas=True),
    ActionRow(
        "add_after", "Flow", "Add agent a&fter…", "Add something that the selected agent leads to", "Ctrl+Shift+A", ""
    ),
    ActionRow("connect_to", "Flow", "&Connect to…", "Lead the selected agent to another one", "Ctrl+J", "link"),
    ActionRow("disconnect", "Flow", "&Remove link…", "Remove a link of the selected agent", "Ctrl+Shift+J"),
    ActionRow("rename", "Flow", "Re&name", "Edit the name of the selected agent or frame", "F2", separator=True),
    ActionRow("edit_prompt", "Flow", "&Edit prompt", "Put the cursor in the prompt of the selected agent", "Ctrl+E"),
    ActionRow("mute", "Flow", "&Mute", "The selected agents, and what hangs on them, do not run", "Ctrl+M", "mute"),
    ActionRow("bypass", "Flow", "&Bypass", "The selected agents are passed through", "Ctrl+B", "bypass"),
    ActionRow("set_start", "Flow", "&Start here", "Let the flow begin at the selected agent"),
    ActionRow("save_agent", "Flow", "Sa&ve agent…", "Keep the selected agent, without its links, for use in any flow"),
    ActionRow(
        "layout", "Flow", "Tidy &up", "Put the selected agents, or all, in columns", "Ctrl+L", "layout", separator=True
    ),
    ActionRow("frame", "Flow", "F&rame", "Put a frame with a title around the selected agents", "Ctrl+G", "comment"),
    ActionRow("check", "Flow", "Show &problems", "List what is wrong with this flow", "Ctrl+Shift+M"),
    ActionRow(
        "next_agent", "Flow", "&Next agent", "Select the next agent along the flow", "Ctrl+Right", separator=True
    ),
    ActionRow("previous_agent", "Flow", "P&revious agent", "Select the previous agent along the flow", "Ctrl+Left"),
    ActionRow("run", "Run", "&Run", "Run this flow with its inputs", "F5", "run"),
    ActionRow(
        "run_fresh", "Run", "Run &fresh", "Ask everything anew; the answers are kept for later", "Ctrl+F5", "retry"
    ),
    ActionRow(
        "resume",
        "Run",
        "R&esume",
        "Go on where the run broke off; what was answered is not asked again",
        "Ctrl+Shift+F5",
        "resume",
    ),
    ActionRow(
        "run_from",
        "Run",
        "Run from &here",
        "Start at the selected agent with what it had in the run on show",
        "F8",
        "run-from",
    ),
    ActionRow(
        "freeze",
        "Run",
        "Free&ze",
        "Keep the answers of the selected agents and give them again instead of asking",
        "Ctrl+Shift+E",
        "frozen",
    ),
    ActionRow(
        "compare_flow", "Run", "Compare profi&les…", "Let several profiles do this flow, side by side", "", "compare"
    ),
    ActionRow("compare_runs", "Run", "Compare r&uns…", "Show what differs between two recorded runs", "", "compare"),
    ActionRow(
        "breakpoint",
        "Run",
        "&Breakpoint",
        "The run waits before the selected agents",
        "F9",
        "breakpoint",
        separator=True,
    ),
    ActionRow(
        "pause",
        "Run",
        "&Pause",
        "Let the run wait before each next agent; calls under way end first",
        "F6",
        "pause",
        checkable=True,
    ),
    ActionRow("step", "Run", "S&tep", "Let the run that waits at a breakpoint do one step", "F10", "step"),
    ActionRow("edit_context", "Run", "&Edit context…", "Change what a branch that waits goes on with", "", "edit"),
    ActionRow("stop", "Run", "&Stop", "Stop the run and keep what came", "Shift+F5", "stop"),
    ActionRow(
        "previous_pass",
        "Run",
        "&Previous pass",
        "Show the run as it was one pass earlier",
        "Shift+F7",
        "chevron-left",
        separator=True,
    ),
    ActionRow("next_pass", "Run", "&Next pass", "Show the run as it was one pass later", "F7", "chevron-right"),
    ActionRow("latest_pass", "Run", "&Latest pass", "Show the run as it stands, and follow it", "Ctrl+F7", "jump-end"),
    ActionRow(
        "use_cache",
        "Run",
        "&Use cache",
        "Give kept answers again for the same requests, at once and for nothing",
        "",
        "cached",
        checkable=True,
        separator=True,
    ),
    ActionRow(
        "record_tape",
        "Run",
        "Record &wire tapes",
        "Keep the exact bytes of the calls of the last runs, without keys",
        "",
        "tape",
        checkable=True,
        separator=True,
    ),
    ActionRow("save_tape", "Run", "Sa&ve tape…", "Save the bytes of the run on show, to play them again"),
    ActionRow("replay_tape", "Run", "Re&play tape…", "Play a recorded run again; nothing is called", "", "tape"),
    ActionRow("make_test", "Run", "&Make offline test…", "Write a test that plays the run on show without any model"),
    ActionRow("inputs", "Run", "&Inputs…", "Edit the inputs of this flow", "Ctrl+I", separator=True),
    ActionRow(
        "copy_summary", "Run", "&Copy summary", "Copy answer, trace and statistics of the run as text", "Ctrl+Shift+C"
    ),
    ActionRow(
        "server_start", "Tools", "Start &embedded model", "Start the model that comes with the workbench", "", "server"
    ),
    ActionRow("server_stop", "Tools", "S&top embedded model", "Stop the embedded model and free its memory"),
    ActionRow("server_file", "Tools", "Choose &model file…", "Serve another .gguf file with the embedded model server"),
    ActionRow("reload_profiles", "Tools", "&Reload profiles", "Read the profile files again", "", separator=True),
    ActionRow(
        "offline",
        "Tools",
        "&Offline lock",
        "Refuse every connection that leaves this machine",
        "",
        "lock",
        checkable=True,
    ),
    ActionRow(
        "data_folder", "Tools", "Show &data folder", "Show where the workbench keeps its files", "", separator=True
    ),
    ActionRow(
        "settings", "Tools", "S&ettings…", "Colours, text size, cache, limits and budgets, log", "Ctrl+,", "settings"
    ),
    ActionRow("documentation", "Help", "&Documentation…", "Read how flows, profiles and local models work", "F1"),
    ActionRow(
        "shortcuts", "Help", "&Keyboard shortcuts…", "Every key, and what the mouse does on the canvas", "Ctrl+F1"
    ),
    ActionRow("open_log", "Help", "Open &log file", "Open the file that errors are noted in", separator=True),
    ActionRow(
        "copy_diagnostics", "Help", "&Copy diagnostics", "Copy versions and state for a fault report; no keys, no texts"
    ),
    ActionRow(
        "about",
        "Help",
        "&About Flow Workbench",
        "Version, licences and where things are kept",
        "",
        "info",
        separator=True,
    ),
)


def translated(text: str) -> str:
    """A text of the tables in the window's language."""
    return QCoreApplication.translate("actions", text) if text else ""


class Actions(QObject):
    """The QActions by id, and the menus they hang in."""

    keys_changed = Signal()
    """Actions have other keys."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._actions: dict[str, QAction] = {}
        self._on_bars: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._more: dict[str, str] = {}
        """Why an action cannot be done, by its id."""
        for row in ACTIONS:
            tip = translated(row.tip)
            action = QAction(translated(row.text), self)
            action.setObjectName(row.id)
            action.setProperty("icon_name", row.icon)
            action.setStatusTip(tip)
            action.setCheckable(row.checkable)
            action.setShortcuts(row.first_keys)
            context = Qt.ShortcutContext.WidgetWithChildrenShortcut if row.canvas else Qt.ShortcutContext.WindowShortcut
            action.setShortcutContext(context)
            # Menus stay text: an icon before every line would only be noise.
            action.setIconVisibleInMenu(False)
            self._actions[row.id] = action
            self._show_tip(row.id)
            if not row.canvas:
                parent.addAction(action)
        theme.changed.connect(self._refresh_icons)

    def __getitem__(self, action_id: str) -> QAction:
        return self._actions[action_id]

    def on_bar(self, action_id: str) -> QAction:
        """An action for a tool bar: with its icon, in the colours of the theme."""
        self._on_bars.add(action_id)
        action = self._actions[action_id]
        self._show_icon(action)
        return action

    def add_canvas(self, widget: QWidget) -> None:
        """Let the keys of the canvas count in a widget and what it holds."""
        widget.addActions([self._actions[row.id] for row in ACTIONS if row.canvas])

    def explain(self, action_id: str, why_not: str) -> None:
        """Say in the tip of an action why it cannot be done; an empty text brings its own tip back."""
        self._reasons[action_id] = why_not
        self._show_tip(action_id)

    def add_tip(self, action_id: str, more: str) -> None:
        """Say more below the tip of an action, until something else or nothing is said."""
        self._more[action_id] = more
        self._show_tip(action_id)

    def set_keys(self, keys: Mapping[str, Sequence[str]]) -> None:
        """Give actions other keys, `Ctrl+K`, by id."""
        for action_id, own in keys.items():
            action = self._actions[action_id]
            wanted = [QKeySequence(key) for key in own]
            if action.shortcuts() != wanted:
                action.setShortcuts(wanted)
                self._show_tip(action_id)
        self.keys_changed.emit()

    def shown_keys(self, action_id: str) -> str:
        """The keys of an action for people, separated by commas; empty for none."""
        return ", ".join(
            key.toString(QKeySequence.SequenceFormat.NativeText) for key in self._actions[action_id].shortcuts()
        )

    def _show_tip(self, action_id: str) -> None:
        action = self._actions[action_id]
        tip, keys = action.statusTip(), action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        text = self._reasons.get(action_id) or (f"{tip} ({keys})" if keys else tip)
        more = self._more.get(action_id)
        action.setToolTip(f"{text}\n{more}" if more else text)

    def all(self) -> list[QAction]:
        """Every action, in the order of the table."""
        return list(self._actions.values())

    def fill(self, bar: QMenuBar) -> dict[str, QMenu]:
        """Add the menus to a menu bar; returned by their key in `MENUS`."""
        menus: dict[str, QMenu] = {}
        for title, text in MENUS.items():
            menu = bar.addMenu(translated(text))
            menu.setToolTipsVisible(True)
            menus[title] = menu
            for row in (row for row in ACTIONS if row.menu == title):
                if row.separator:
                    menu.addSeparator()
                menu.addAction(self._actions[row.id])
        return menus

    def menu_title(self, action: QAction) -> str:
        """Title of the menu an action hangs in."""
        titles = (MENUS[row.menu] for row in ACTIONS if row.id == action.objectName())
        return translated(next(titles, "")).replace("&", "")

    def _refresh_icons(self) -> None:
        for action_id in self._on_bars:
            self._show_icon(self._actions[action_id])

    def _show_icon(self, action: QAction) -> None:
        checked = "text" if action.isCheckable() else None
        action.setIcon(theme.icon(str(action.property("icon_name")), 18, checked=checked))
