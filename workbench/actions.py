"""Every action of the window: id, text, shortcut, icon, tip and menu, in one table.

Texts, tips and menu titles stand here in English; they are translated (context `actions`) when actions and menus are
made.
"""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, QObject, Qt
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
    ActionRow("open", "File", "&Open flow…", "Open a flow file", "Ctrl+O", "folder"),
    ActionRow("open_sample", "File", "Open &sample", "Open one of the flows that come with the workbench"),
    ActionRow("open_recent", "File", "Open &recent", "Open a flow that was open before"),
    ActionRow("save", "File", "&Save", "Save the flow", "Ctrl+S", separator=True),
    ActionRow("save_as", "File", "Save &as…", "Save the flow under another name", "Ctrl+Shift+S"),
    ActionRow("close", "File", "&Close tab", "Close this flow", "Ctrl+W", separator=True),
    ActionRow("quit", "File", "&Quit", "End the workbench", "Ctrl+Q"),
    ActionRow("undo", "Edit", "&Undo", "Take back the last change", "Ctrl+Z", "undo"),
    ActionRow("redo", "Edit", "&Redo", "Do again what was taken back", "Ctrl+Shift+Z", "redo"),
    ActionRow("select_all", "Edit", "Select &all agents", "Select every agent of the flow", "Ctrl+A", separator=True),
    ActionRow("select_none", "Edit", "Select &none", "Select no agent: the inspector shows the flow itself"),
    ActionRow(
        "palette", "View", "&Command palette…", "Find any action, flow, agent, profile or run", "Ctrl+K", "search"
    ),
    ActionRow("fit", "View", "&Fit flow", "Show the whole flow", "Shift+F", "fit", separator=True),
    ActionRow("fit_selection", "View", "Fit &selection", "Show the selected agents", "F"),
    ActionRow("zoom_in", "View", "Zoom &in", "Show the flow larger", "Ctrl++", "zoom-in"),
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
    ActionRow("edit_prompt", "Flow", "&Edit prompt", "Put the cursor in the prompt of the selected agent", "F2"),
    ActionRow("check", "Flow", "Show &problems", "List what is wrong with this flow", "Ctrl+Shift+M"),
    ActionRow(
        "next_agent", "Flow", "&Next agent", "Select the next agent along the flow", "Ctrl+Right", separator=True
    ),
    ActionRow("previous_agent", "Flow", "P&revious agent", "Select the previous agent along the flow", "Ctrl+Left"),
    ActionRow("run", "Run", "&Run", "Run this flow with its inputs", "F5", "run"),
    ActionRow("stop", "Run", "&Stop", "Stop the run and keep what came", "Shift+F5", "stop"),
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
    ActionRow("about", "Help", "&About Flow Workbench", "Version, licences and where things are kept", "", "info"),
)


def translated(text: str) -> str:
    """A text of the tables in the window's language."""
    return QCoreApplication.translate("actions", text) if text else ""


class Actions(QObject):
    """The QActions by id, and the menus they hang in."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._actions: dict[str, QAction] = {}
        for row in ACTIONS:
            tip = translated(row.tip)
            action = QAction(translated(row.text), self)
            action.setObjectName(row.id)
            action.setProperty("icon_name", row.icon)
            action.setStatusTip(tip)
            action.setCheckable(row.checkable)
            if row.shortcut:
                action.setShortcut(QKeySequence(row.shortcut))
                action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
            shown = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            action.setToolTip(f"{tip} ({shown})" if shown else tip)
            # Menus stay text: an icon before every line would only be noise.
            action.setIconVisibleInMenu(False)
            self._actions[row.id] = action
            parent.addAction(action)
        self._refresh_icons()
        theme.changed.connect(self._refresh_icons)

    def __getitem__(self, action_id: str) -> QAction:
        return self._actions[action_id]

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
        for row in ACTIONS:
            if row.icon:
                self._actions[row.id].setIcon(theme.icon(row.icon, 18))
