"""The keys of all actions: found by name, menu or key, changed by pressing another one."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QMessageBox,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from workbench.actions import ACTIONS, Actions
from workbench.key_bindings import CANVAS_KEYS, MOVING, KeyBindings, first_keys
from workbench.settings_dialog.page import Page
from workbench.theme import theme
from workbench.widgets.fault_note import FaultNote
from workbench.widgets.key_line import KeyLine

ID_ROLE = Qt.ItemDataRole.UserRole


class KeysPage(Page):
    """The table of actions, below it the keys of the chosen one."""

    def __init__(self, keys: KeyBindings, actions: Actions, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("KeysPage", "Keyboard"), parent)
        self._keys = keys
        self._actions = actions
        self._items: dict[str, QTreeWidgetItem] = {}
        self._heads: dict[str, QTreeWidgetItem] = {}
        self._proposed: tuple[str, ...] = ()
        """Keys that the chosen action gets when the person takes them from another one."""
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText(self.tr("Filter by action, menu or key"))
        self.filter.setAccessibleName(self.tr("Filter the actions"))
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(self._show_matching)
        self.add_wide(self.filter)
        self.tree = self._table()
        self.add_wide(self.tree, 1)
        self._build_editor()
        keys.changed.connect(self._show)
        self.finish(stretch=False)
        self._show()
        self.tree.setCurrentItem(self._items[ACTIONS[0].id])

    def _table(self) -> QTreeWidget:
        tree = QTreeWidget(self)
        tree.setColumnCount(3)
        tree.setHeaderHidden(True)
        tree.setAccessibleName(self.tr("Actions and their keys"))
        tree.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        tree.setMinimumHeight(theme.px(140))
        header = tree.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for row in ACTIONS:
            menu = self._actions.menu_title(self._actions[row.id])
            if menu not in self._heads:
                self._heads[menu] = QTreeWidgetItem(tree, [menu.upper()])
                self._heads[menu].setFlags(Qt.ItemFlag.ItemIsEnabled)
            self._items[row.id] = item = QTreeWidgetItem(self._heads[menu], [self._name(row.id)])
            item.setData(0, ID_ROLE, row.id)
            item.setToolTip(0, self._name(row.id))
        tree.expandAll()
        tree.currentItemChanged.connect(lambda: self._show_chosen())
        tree.itemActivated.connect(lambda: self.first.listen() if self.first.isEnabled() else None)
        return tree

    def _build_editor(self) -> None:
        self.first = KeyLine(self.tr("Key"), self)
        self.second = KeyLine(self.tr("Second key"), self)
        self.first.pressed.connect(lambda key: self._propose((key, *self._chosen_keys()[1:])))
        self.second.pressed.connect(lambda key: self._propose((*self._chosen_keys()[:1], key)))
        self.reset = self._button(self.tr("Reset"), self._reset)
        self.reset.setToolTip(self.tr("Give this action its first keys again"))
        self.reset_all = self._button(self.tr("Reset all…"), self._ask_to_reset_all)
        self.chosen = self._label("", 13, 600)
        self.add_wide(self.chosen)
        line = QHBoxLayout()
        line.setSpacing(theme.px(8))
        for key in (self.first, self.second):
            line.addWidget(key, 1)
        holder = QWidget(self)
        line.setContentsMargins(0, 0, 0, 0)
        holder.setLayout(line)
        self.add_wide(holder)
        self.add_buttons(self.reset, self.reset_all)
        for widget in (self.first, self.second, self.reset, self.reset_all):
            self._fonts.append((widget, 13, 400))
        self.conflict = QFrame(self)
        self.question = self._label("", 12, 400)
        self.take = self._button(self.tr("Take it"), self._take)
        self.leave = self._button(self.tr("Leave it"), self._leave)
        answers = QHBoxLayout()
        answers.addWidget(self.question, 1)
        answers.addWidget(self.take)
        answers.addWidget(self.leave)
        self.refusal = FaultNote(self)
        column = QVBoxLayout(self.conflict)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(answers)
        self.add_wide(self.conflict)
        self.add_wide(self.refusal)
        self.conflict.hide()
        self.add_wide(self.hint(self.tr("Enter, then press the new key. Esc leaves it, Del takes it away.")))

    def _button(self, text: str, clicked: Callable[[], object]) -> QPushButton:
        button = QPushButton(text, self)
        button.setAutoDefault(False)
        button.clicked.connect(lambda: clicked())
        return button

    # -- changing -----------------------------------------------------------------------------------------------------

    def choose(self, action_id: str) -> None:
        """Choose an action in the table."""
        self.tree.setCurrentItem(self._items[action_id])

    def _chosen_id(self) -> str:
        item = self.tree.currentItem()
        return str(item.data(0, ID_ROLE) or "") if item is not None else ""

    def _chosen_keys(self) -> tuple[str, ...]:
        return self._keys.keys(self._chosen_id()) if self._chosen_id() else ()

    def _propose(self, keys: Sequence[str]) -> None:
        """Give the chosen action these keys, or say what is against it."""
        chosen = self._chosen_id()
        new = [key for key in keys if key and key not in self._chosen_keys()]
        self._hide_question()
        if fault := next(filter(None, map(self._fault, new)), ""):
            self.refusal.show_fault(fault)
            self._show_keys()
            return
        owners = [(key, owner) for key in new if (owner := self._keys.owner(key))]
        if owners:
            self._ask(keys, owners)
            return
        self._keys.assign(chosen, keys)

    def _fault(self, key: str) -> str:
        """Why no action can have a key."""
        shown = _shown(key)
        if key in MOVING:
            return self.tr("%1 moves about and chooses everywhere: it cannot be changed.").replace("%1", shown)
        if key in CANVAS_KEYS:
            return self.tr("%1 has its own meaning on the canvas.").replace("%1", shown)
        if menu := self._keys.menu_of(key):
            return self.tr("%1 opens the menu %2.").replace("%1", shown).replace("%2", menu)
        return ""

    def _ask(self, keys: Sequence[str], owners: Sequence[tuple[str, str]]) -> None:
        self._proposed = tuple(keys)
        text = self.tr("%1 belongs to “%2”. Take it for “%3”? “%2” is then without it.")
        key, owner = owners[0]
        for mark, value in (("%1", _shown(key)), ("%2", self._name(owner)), ("%3", self._name(self._chosen_id()))):
            text = text.replace(mark, value)
        self.question.setText(text)
        self.conflict.show()
        self.take.setFocus()
        self._show_keys()

    def _take(self) -> None:
        keys = self._proposed
        self._hide_question()
        self._keys.assign(self._chosen_id(), keys)
        self.first.setFocus()

    def _leave(self) -> None:
        self._hide_question()
        self.first.setFocus()

    def _hide_question(self) -> None:
        self._proposed = ()
        self.conflict.hide()
        self.refusal.show_fault("")

    def _reset(self) -> None:
        chosen = self._chosen_id()
        self._hide_question()
        owners = list(self._keys.missing_defaults(chosen).items())
        if owners:
            self._ask(first_keys(chosen), owners)
        else:
            self._keys.reset(chosen)

    def _ask_to_reset_all(self) -> None:
        question = QMessageBox(self)
        question.setIcon(QMessageBox.Icon.NoIcon)
        question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        question.setText(self.tr("Give all actions their first keys again?"))
        reset = question.addButton(self.tr("Reset all"), QMessageBox.ButtonRole.DestructiveRole)
        cancel = question.addButton(QMessageBox.StandardButton.Cancel)
        question.setDefaultButton(cancel)
        question.setEscapeButton(cancel)
        reset.clicked.connect(self._keys.reset_all)
        question.open()

    # -- showing ------------------------------------------------------------------------------------------------------

    def _name(self, action_id: str) -> str:
        return self._actions[action_id].text().replace("&", "").removesuffix("…")

    def _show(self) -> None:
        for action_id, item in self._items.items():
            changed = self._keys.is_changed(action_id)
            item.setText(1, ", ".join(map(_shown, self._keys.keys(action_id))))
            item.setText(2, self.tr("changed") if changed else "")
            item.setForeground(2, theme.color("muted"))
            item.setFont(1, theme.font(13, 600 if changed else 400))
        self.reset_all.setEnabled(self._keys.any_changed)
        self._show_matching(self.filter.text())
        self._show_chosen()

    def _show_chosen(self) -> None:
        self._hide_question()
        chosen = self._chosen_id()
        self.chosen.setText(self._name(chosen) if chosen else self.tr("Choose an action"))
        for line in (self.first, self.second):
            line.setEnabled(bool(chosen))
        self.reset.setEnabled(bool(chosen) and self._keys.is_changed(chosen))
        self._show_keys()

    def _show_keys(self) -> None:
        keys = (*self._chosen_keys(), "", "")
        self.first.show_key(keys[0])
        self.second.show_key(keys[1])
        self.second.setEnabled(bool(keys[0]))

    def _show_matching(self, wanted: str) -> None:
        words, shown = wanted.casefold().split(), set()
        for action_id, item in self._items.items():
            menu = self._actions.menu_title(self._actions[action_id])
            text = f"{item.text(0)} {item.text(1)} {menu}".casefold()
            hidden = not all(word in text for word in words)
            item.setHidden(hidden)
            if not hidden:
                shown.add(menu)
        for menu, head in self._heads.items():
            head.setHidden(menu not in shown)
        found = next((item for item in self._items.values() if not item.isHidden()), None)
        current = self.tree.currentItem()
        if words and found is not None and (current is None or current.isHidden()):
            self.tree.setCurrentItem(found)

    def restyle(self) -> None:
        """Take the present text zoom and colours."""
        self.tree.setIndentation(theme.px(14))
        self.tree.setFont(theme.font(13))
        self.filter.setFont(theme.font(13))
        for head in self._heads.values():
            head.setFont(0, theme.font(11, 600))
            head.setForeground(0, theme.color("muted"))
        for button in (self.take, self.leave):
            button.setFont(theme.font(13))


def _shown(key: str) -> str:
    return QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
