"""`Ctrl+F` on the canvas: finds agents by words in their names and prompts."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QToolButton, QWidget

from engine.flow.flow_spec import AgentSpec, FlowSpec
from workbench.designer.canvas_controls import FloatingPanel
from workbench.designer.placement import flow_order
from workbench.theme import theme

if TYPE_CHECKING:
    from workbench.designer.editor import FlowEditor

_WIDTH = 340


def found_in(spec: FlowSpec, words: str) -> tuple[str, ...]:
    """Names of the agents that have all these words in name, prompts or note, along the flow."""
    wanted = words.casefold().split()
    if not wanted:
        return ()
    agents = {agent.name: agent for agent in reversed(spec.agents)}
    return tuple(name for name in flow_order(spec) if _has(agents[name], wanted))


def _has(agent: AgentSpec, wanted: list[str]) -> bool:
    values = (value for value in agent.with_.values() if isinstance(value, str))
    text = "\n".join((agent.name, agent.system_prompt, agent.template, agent.flow or "", *values)).casefold()
    return all(word in text for word in wanted)


class FindBar(FloatingPanel):
    """The field, how many were found, and the way from one to the next."""

    def __init__(self, editor: "FlowEditor", parent: QWidget) -> None:
        super().__init__(parent)
        self._editor = editor
        self._found: tuple[str, ...] = ()
        self.field = QLineEdit(self)
        self.field.setPlaceholderText(self.tr("Find in names and prompts"))
        self.field.setAccessibleName(self.tr("Find in names and prompts"))
        self.field.setFrame(False)
        self.count = QLabel(self)
        self.count.setProperty("role", "muted")
        self._before = self._button(self.tr("Previous (Shift+Enter)"))
        self._next = self._button(self.tr("Next (Enter)"))
        self._close = self._button(self.tr("Close (Esc)"))
        self._before.clicked.connect(lambda: self.step(-1))
        self._next.clicked.connect(lambda: self.step(1))
        self._close.clicked.connect(self.close_bar)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 4, 4, 4)
        row.setSpacing(2)
        row.addWidget(self.field, 1)
        for part in (self.count, self._before, self._next, self._close):
            row.addWidget(part)
        self.field.textChanged.connect(self._search)
        self.field.installEventFilter(self)
        editor.document.spec_changed.connect(lambda _before, _after: self._look_again())
        theme.changed.connect(self._restyle)
        self._restyle()
        self.hide()

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        return button

    def open(self) -> None:
        """Show the field, with the last words chosen."""
        self.show()
        self.raise_()
        self.place()
        self.field.setFocus()
        self.field.selectAll()
        self._look_again()

    def close_bar(self) -> None:
        """Go back to the canvas."""
        self.hide()
        self._editor.view.setFocus()

    def place(self) -> None:
        """Stand in the upper right corner of the canvas."""
        room, margin = self._editor.view.viewport().rect(), theme.px(10)
        width = min(theme.px(_WIDTH), room.width() - 2 * margin)
        self.setGeometry(room.width() - width - margin, margin, width, self.sizeHint().height())

    def step(self, by: int) -> None:
        """Show the next (1) or previous (-1) agent that was found."""
        if not self._found:
            return
        current = self._editor.selected()[:1]
        if current and current[0] in self._found:
            index = (self._found.index(current[0]) + by) % len(self._found)
        else:
            index = 0 if by > 0 else -1
        self._editor.reveal(self._found[index])
        self._show_count()

    def _search(self, words: str) -> None:
        self._found = found_in(self._editor.document.spec, words)
        if self._found:
            self._editor.reveal(self._found[0])
        self._show_count()

    def _look_again(self) -> None:
        if self.isVisible():
            self._found = found_in(self._editor.document.spec, self.field.text())
            self._show_count()

    def _show_count(self) -> None:
        current = self._editor.selected()[:1]
        if not self.field.text().strip():
            text = ""
        elif not self._found:
            text = self.tr("none")
        else:
            place = self._found.index(current[0]) + 1 if current and current[0] in self._found else 0
            text = self.tr("%1 of %2").replace("%2", str(len(self._found))).replace("%1", str(place))
        self.count.setText(text)
        for button in (self._before, self._next):
            button.setEnabled(bool(self._found))

    def _restyle(self) -> None:
        self.field.setFont(theme.font(13))
        self.count.setFont(theme.font(11))
        for button, icon in ((self._before, "chevron-up"), (self._next, "chevron-down"), (self._close, "cross")):
            button.setIcon(theme.icon(icon, 14))
            button.setIconSize(QSize(theme.px(14), theme.px(14)))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Enter goes on, Esc closes."""
        if watched is self.field and isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self.step(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
                return True
            if event.key() == Qt.Key.Key_Escape:
                self.close_bar()
                return True
        return super().eventFilter(watched, event)
