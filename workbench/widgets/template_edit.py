"""A prompt editor: placeholders highlighted, unknown keys underlined, the height that fits its text."""

import re
from collections.abc import Collection

from PySide6.QtCore import QEvent, QSize, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QKeyEvent,
    QKeySequence,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextDocument,
)
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from workbench.theme import theme

PLACEHOLDER = re.compile(r"\{\{\{([^{}\n]+)\}\}\}|\{\{([^{}\n]+)\}\}|\[\[([^\[\]\n|]+)(?:\|hidden)?\]\]")
"""`{{{key}}}`, `{{key}}`, `[[key]]`, `[[key|hidden]]` (docs/flow-format.md)."""


class PlaceholderHighlighter(QSyntaxHighlighter):
    """Colours placeholders on a tint of their own colour; keys nobody provides get a wavy line."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self.known: Collection[str] | None = None
        """Keys that exist; None = do not judge."""

    def highlightBlock(self, text: str) -> None:
        """Format one line."""
        for found in PLACEHOLDER.finditer(text):
            key = found.group(1) or found.group(2) or found.group(3)
            color = theme.color("syntax.value" if found.group(3) else "syntax.key")
            look = QTextCharFormat()
            look.setForeground(color)
            look.setBackground(_tint(color))
            if self.known is not None and key not in self.known:
                look.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
                look.setUnderlineColor(theme.color("warn"))
                look.setToolTip(self.tr("No agent and no input provides “%1”.").replace("%1", key))
            self.setFormat(found.start(), found.end() - found.start(), look)


def _tint(color: QColor) -> QColor:
    """14 % of a syntax colour over the field."""
    tint = QColor(color)
    tint.setAlphaF(0.14)
    return tint


class TemplateEdit(QPlainTextEdit):
    """Edits a prompt. `edited` fires while typing; the owner turns it into undoable steps."""

    edited = Signal(str)
    """The text after a change by the person."""
    editing_finished = Signal()
    """The focus left the field."""

    def __init__(self, name: str, parent: QWidget | None = None, *, least_lines: int = 3, most_lines: int = 12) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setTabChangesFocus(True)
        # The flow's own undo stack is the only one.
        self.setUndoRedoEnabled(False)
        self._least, self._most = least_lines, most_lines
        self._loading = False
        self.highlighter = PlaceholderHighlighter(self.document())
        self.textChanged.connect(self._changed)
        theme.changed.connect(self._restyle)
        self._restyle()

    def load(self, text: str) -> None:
        """Show a text without telling anybody; the cursor stays where it can."""
        if text == self.toPlainText():
            return
        self._loading = True
        position = self.textCursor().position()
        self.setPlainText(text)
        cursor = self.textCursor()
        cursor.setPosition(min(position, len(text)))
        self.setTextCursor(cursor)
        self._loading = False
        self.updateGeometry()

    def show_known_keys(self, keys: Collection[str] | None) -> None:
        """Underline placeholders of other keys; None = any key may exist."""
        if keys != self.highlighter.known:
            self.highlighter.known = keys
            self.highlighter.rehighlight()

    def sizeHint(self) -> QSize:
        """As high as the text, within bounds."""
        lines = max(self._least, min(self._most, int(self.document().size().height())))
        frame = 2 * self.frameWidth() + int(2 * self.document().documentMargin()) + theme.px(8)
        return QSize(super().sizeHint().width(), self.fontMetrics().lineSpacing() * lines + frame)

    def minimumSizeHint(self) -> QSize:
        """The height is the hint: the form scrolls, not the field."""
        return QSize(theme.px(120), self.sizeHint().height())

    def event(self, event: QEvent) -> bool:
        """Leave undo and redo to the flow."""
        undoing = (QKeySequence.StandardKey.Undo, QKeySequence.StandardKey.Redo)
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and any(event.matches(key) for key in undoing)
        ):
            event.ignore()
            return False
        return super().event(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell that a round of typing is over."""
        super().focusOutEvent(event)
        self.editing_finished.emit()

    def _changed(self) -> None:
        self.updateGeometry()
        if not self._loading:
            self.edited.emit(self.toPlainText())

    def _restyle(self) -> None:
        self.setFont(theme.font(12, mono=True))
        self.highlighter.rehighlight()
        self.updateGeometry()
