"""The editor of a prompt: variables and template code coloured, what is wrong with them underlined at its place."""

import re
from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QSyntaxHighlighter, QTextCharFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QPlainTextEdit, QToolTip, QWidget

from engine import Problem
from workbench.text_format import visible_text
from workbench.theme import theme
from workbench.widgets.key_completion import KeyCompletion, open_placeholder

_MARK = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}")
_COLORS = {"{": "syntax.key", "%": "syntax.value", "#": "muted"}
"""By the second sign of a mark."""
_WORD = re.compile(r"\w+")


class VariableColors(QSyntaxHighlighter):
    """Colours `{{variables}}`, and the code of templates; a wavy line where a problem is."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._problems: dict[int, list[Problem]] = {}

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Underline these, as far as they have a place."""
        by_line: dict[int, list[Problem]] = {}
        for problem in problems:
            if problem.line:
                by_line.setdefault(problem.line, []).append(problem)
        if by_line != self._problems:
            self._problems = by_line
            self.rehighlight()

    def problems_at(self, line: int) -> Sequence[Problem]:
        """Those of a line, counted from 1."""
        return self._problems.get(line, ())

    def highlightBlock(self, text: str) -> None:
        """Format one line."""
        for found in _MARK.finditer(text):
            color = theme.color(_COLORS[found[0][1]])
            look = QTextCharFormat()
            look.setForeground(color)
            look.setBackground(_tint(color))
            self.setFormat(found.start(), len(found[0]), look)
        for problem in self.problems_at(self.currentBlock().blockNumber() + 1):
            start, length = marked(text, problem)
            for place in range(start, start + length):
                look = self.format(place)
                look.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
                look.setUnderlineColor(theme.color("err" if problem.severity == "error" else "warn"))
                self.setFormat(place, 1, look)


def marked(text: str, problem: Problem) -> tuple[int, int]:
    """Where a problem begins in its line and how long it is: the mark or word there, else the whole line."""
    start = max(0, problem.column - 1)
    for pattern in (_MARK, _WORD):
        found = pattern.match(text, start)
        if found is not None and problem.severity != "error":
            return start, len(found[0])
    return 0, len(text)


def _tint(color: QColor) -> QColor:
    tint = QColor(color)
    tint.setAlphaF(0.14)
    return tint


class PromptEdit(QPlainTextEdit):
    """Edits one prompt; it takes back its own steps."""

    edited = Signal(str)
    """The text after a change by the person."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(self.tr("Text of the prompt"))
        self.setTabChangesFocus(True)
        self.setProperty("pane", True)
        self._loading = False
        self.colors = VariableColors(self.document())
        self.completion = KeyCompletion(self, open_placeholder)
        self.textChanged.connect(self._changed)
        theme.changed.connect(self._restyle)
        self._restyle()

    def load(self, text: str) -> None:
        """Show the text of another prompt; nothing can be taken back there yet."""
        self._loading = True
        self.setPlainText(text)
        self._loading = False

    def replace(self, text: str) -> None:
        """Put another text in the place of this one; Ctrl+Z takes it back."""
        if text != self.toPlainText():
            cursor = QTextCursor(self.document())
            cursor.select(QTextCursor.SelectionType.Document)
            cursor.insertText(text)

    def go_to(self, problem: Problem) -> None:
        """Put the cursor where a problem is."""
        block = self.document().findBlockByNumber(max(0, problem.line - 1))
        start, length = marked(block.text(), problem) if problem.line else (0, 0)
        cursor = QTextCursor(block)
        cursor.setPosition(block.position() + start)
        cursor.setPosition(block.position() + start + length, QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)
        self.setFocus()

    def event(self, event: QEvent) -> bool:
        """Leave to the list of variables what is meant for it; say what is wrong where the mouse rests."""
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress and self.completion.takes(event):
            return True
        return super().event(event)

    def viewportEvent(self, event: QEvent) -> bool:
        """Show what is wrong with the line under the mouse."""
        if event.type() is QEvent.Type.ToolTip:
            place = event.pos()  # type: ignore[attr-defined]
            line = self.cursorForPosition(place).blockNumber() + 1
            told = "\n".join(visible_text(problem.message) for problem in self.colors.problems_at(line))
            if told:
                QToolTip.showText(event.globalPos(), Qt.convertFromPlainText(told), self)  # type: ignore[attr-defined]
            else:
                QToolTip.hideText()
            return True
        return super().viewportEvent(event)

    def _changed(self) -> None:
        if not self._loading:
            self.edited.emit(self.toPlainText())
            if self.hasFocus():
                self.completion.show()

    def _restyle(self) -> None:
        self.setFont(theme.font(12, mono=True))
        self.document().setDocumentMargin(theme.px(8))
        self.colors.rehighlight()
