"""The page of keyboard shortcuts: the table of actions, and what keys and mouse do on the canvas."""

from collections.abc import Iterator

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from workbench.actions import ACTIONS, Actions
from workbench.theme import theme

translate = QCoreApplication.translate


def canvas_rows() -> tuple[tuple[str, str], ...]:
    """What is done on the canvas, and with what; these are no actions of a menu."""
    return (
        (translate("shortcuts", "Zoom at the mouse"), translate("shortcuts", "Wheel")),
        (translate("shortcuts", "Scroll sideways"), translate("shortcuts", "Shift + wheel")),
        (translate("shortcuts", "Move the view"), translate("shortcuts", "Middle button, or Space + drag")),
        (translate("shortcuts", "Select, or add to the selection"), translate("shortcuts", "Click, Ctrl + click")),
        (translate("shortcuts", "Select several"), translate("shortcuts", "Drag beside the agents")),
        (translate("shortcuts", "Move agents"), translate("shortcuts", "Drag; with Alt anywhere between the dots")),
        (
            translate("shortcuts", "Walk along links, or add to the selection"),
            translate("shortcuts", "Arrows, Shift + arrows"),
        ),
        (
            translate("shortcuts", "Move agents a step, or ten"),
            translate("shortcuts", "Alt + arrows, Alt + Shift + arrows"),
        ),
        (
            translate("shortcuts", "Add an agent here"),
            translate("shortcuts", "Space, or double-click beside the agents"),
        ),
        (translate("shortcuts", "Add an agent on a link"), translate("shortcuts", "Double-click the link")),
        (translate("shortcuts", "Connect, or add what to connect to"), translate("shortcuts", "Drag from a port")),
        (translate("shortcuts", "Lead a link elsewhere"), translate("shortcuts", "Drag its end")),
        (translate("shortcuts", "Edit the prompt"), translate("shortcuts", "Enter, or double-click the agent")),
        (translate("shortcuts", "Bypass"), translate("shortcuts", "D")),
        (translate("shortcuts", "Next or previous agent"), translate("shortcuts", "Tab, Shift + Tab")),
        (translate("shortcuts", "Cancel a drag, select nothing"), translate("shortcuts", "Esc")),
        (translate("shortcuts", "What can be done here"), translate("shortcuts", "Right click, or the menu key")),
    )


def shortcut_rows(actions: Actions) -> Iterator[tuple[str, str, str]]:
    """Menu, action and key of every action that has one, then what the canvas knows."""
    for row in ACTIONS:
        action = actions[row.id]
        keys = actions.shown_keys(row.id)
        if keys:
            yield actions.menu_title(action), action.text().replace("&", "").removesuffix("…"), keys
    for text, keys in canvas_rows():
        yield translate("shortcuts", "On the canvas"), text, keys


class Shortcuts(QDialog):
    """Lists them under their menus, with a filter; `open` it."""

    def __init__(self, actions: Actions, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("Keyboard shortcuts"))
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText(self.tr("Filter"))
        self.filter.setAccessibleName(self.tr("Filter the shortcuts"))
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(self._filter)
        self.tree = QTreeWidget(self)
        self.tree.setColumnCount(2)
        self.tree.setHeaderHidden(True)
        self.tree.setAccessibleName(self.tr("Shortcuts"))
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.tree.setIndentation(theme.px(14))
        self._groups: dict[str, tuple[QTreeWidgetItem, list[QTreeWidgetItem]]] = {}
        for menu, text, keys in shortcut_rows(actions):
            if menu not in self._groups:
                head = QTreeWidgetItem(self.tree, [menu.upper()])
                self._groups[menu] = head, []
                head.setFlags(Qt.ItemFlag.ItemIsEnabled)
                head.setFont(0, theme.font(11, 600))
                head.setForeground(0, theme.color("muted"))
            head, lines = self._groups[menu]
            lines.append(QTreeWidgetItem(head, [text, keys]))
        self.tree.expandAll()
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.tree.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.tree.header().setStretchLastSection(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(*(theme.px(16),) * 4)
        column.setSpacing(theme.px(8))
        column.addWidget(self.filter)
        column.addWidget(self.tree)
        self.resize(theme.px(620), theme.px(640))

    def rows(self) -> list[tuple[str, str]]:
        """What is shown now: action and key."""
        lines = (line for _head, group in self._groups.values() for line in group)
        return [(line.text(0), line.text(1)) for line in lines if not line.isHidden()]

    def _filter(self, wanted: str) -> None:
        words = wanted.casefold().split()
        for head, lines in self._groups.values():
            for line in lines:
                text = f"{line.text(0)} {line.text(1)}".casefold()
                line.setHidden(not all(word in text for word in words))
            head.setHidden(all(line.isHidden() for line in lines))
