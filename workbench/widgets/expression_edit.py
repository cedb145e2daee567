"""A field for an expression: names coloured, the faulty place underlined, keys completed."""

import re
from collections.abc import Collection, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QTextCharFormat
from PySide6.QtWidgets import QWidget

from engine.flow.expression_check import ExpressionFault, expression_fault
from workbench.theme import theme
from workbench.widgets.key_completion import KeyCompletion, open_name
from workbench.widgets.template_edit import PlaceholderHighlighter, TemplateEdit

_TOKEN = re.compile(r"(?P<text>'[^'\n]*'|\"[^\"\n]*\")|(?P<name>[^\W\d]\w*)")
_WORDS = frozenset({"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "all", "passed", "split"})


class _Names(PlaceholderHighlighter):
    """Colours keys and texts, underlines the faulty place."""

    fault: ExpressionFault | None = None

    def highlightBlock(self, text: str) -> None:
        """Format one line."""
        for found in _TOKEN.finditer(text):
            look = QTextCharFormat()
            if found["text"] is not None:
                look.setForeground(theme.color("syntax.value"))
            elif found["name"].lower() not in _WORDS:
                look.setForeground(theme.color("syntax.key"))
            self.setFormat(found.start(), found.end() - found.start(), look)
        if self.fault is None:
            return
        begin = self.currentBlock().position()
        start, end = self.fault.start - begin, max(self.fault.end, self.fault.start + 1) - begin
        if self.fault.start == self.fault.end:  # something is missing: the character before the gap
            start, end = start - 1, end - 1
        for index in range(max(0, start), min(len(text), end)):
            look = QTextCharFormat(self.format(index))
            look.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
            look.setUnderlineColor(theme.color("err"))
            self.setFormat(index, 1, look)


class ExpressionEdit(TemplateEdit):
    """As high as its text, from one line on; Enter is no new line."""

    highlighter: _Names

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._known: Collection[str] | None = None
        self._passed = True
        self.fault: ExpressionFault | None = None
        super().__init__(name, parent, least_lines=1, most_lines=6)
        self.completion = KeyCompletion(self, open_name)
        self.textChanged.connect(self._check)

    def make_highlighter(self) -> _Names:
        """What colours the text."""
        return _Names(self.document())

    def judge(self, known: Collection[str] | None, offered: Sequence[str], *, passed: bool) -> None:
        """Check against these keys, None = any may be, and offer these; `passed`: a verdict is at hand."""
        assert self.completion is not None  # noqa: S101 - made by __init__
        self.completion.offer([*offered, *(["passed"] if passed else [])])
        if (known, passed) != (self._known, self._passed):
            self._known, self._passed = known, passed
            self._check()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave Enter to the form."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            event.ignore()
            self.editing_finished.emit()
            return
        super().keyPressEvent(event)

    def _check(self) -> None:
        text = self.toPlainText()
        fault = expression_fault(text, self._known, passed=self._passed) if text.strip() else None
        if fault != self.fault:
            self.fault = fault
            self.highlighter.fault = fault
            self.highlighter.rehighlight()
