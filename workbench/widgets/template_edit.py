"""A prompt editor: placeholders highlighted, unknown keys underlined, the height that fits its text."""

import re
from collections.abc import Collection, Sequence

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
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy, QWidget

from workbench.theme import theme
from workbench.widgets.key_completion import KeyCompletion, open_placeholder

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
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._least, self._most = least_lines, most_lines
        self._loading = False
        self.highlighter = self.make_highlighter()
        self.completion: KeyCompletion | None = None
        self.textChanged.connect(self._changed)
        theme.changed.connect(self._restyle)
        self._restyle()

    def make_highlighter(self) -> "PlaceholderHighlighter":
        """What colours the text."""
        return PlaceholderHighlighter(self.document())

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

    def complete_keys(self, keys: Sequence[str]) -> None:
        """Offer these keys where a placeholder is typed."""
        if self.completion is None:
            self.completion = KeyCompletion(self, open_placeholder)
        self.completion.offer(keys)

    def sizeHint(self) -> QSize:
        """As high as the text, within bounds."""
        lines = max(self._least, min(self._most, int(self.document().size().height())))
        margins = self.contentsMargins()
        frame = margins.top() + margins.bottom() + int(2 * self.document().documentMargin()) + theme.px(2)
        return QSize(super().sizeHint().width(), self.fontMetrics().lineSpacing() * lines + frame)

    def minimumSizeHint(self) -> QSize:
        """The height is the hint: the form scrolls, not the field."""
        return QSize(theme.px(84), self.sizeHint().height())

    def event(self, event: QEvent) -> bool:
        """Leave undo and redo to the flow, and to the list of keys what is meant for it."""
        if isinstance(event, QKeyEvent) and self._is_for_others(event):
            return event.type() is QEvent.Type.KeyPress
        return super().event(event)

    def _is_for_others(self, event: QKeyEvent) -> bool:
        if event.type() is QEvent.Type.KeyPress:
            return self.completion is not None and self.completion.takes(event)
        undoing = (QKeySequence.StandardKey.Undo, QKeySequence.StandardKey.Redo)
        if event.type() is QEvent.Type.ShortcutOverride and any(event.matches(key) for key in undoing):
            event.ignore()
            return True
        return False

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell that a round of typing is over."""
        super().focusOutEvent(event)
        self.editing_finished.emit()

    def _changed(self) -> None:
        self.updateGeometry()
        if not self._loading:
            self.edited.emit(self.toPlainText())
            if self.completion is not None and self.hasFocus():
                self.completion.show()

    def _restyle(self) -> None:
        self.setFont(theme.font(12, mono=True))
        self.highlighter.rehighlight()
        self.updateGeometry()
