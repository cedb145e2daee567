"""Colours for JSON in a pane."""

import re

from PySide6.QtCore import QObject
from PySide6.QtGui import QSyntaxHighlighter, QTextCharFormat

from workbench.theme import theme

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|\b(-?\d[\d.eE+-]*|true|false|null)\b')


class JsonColors(QSyntaxHighlighter):
    """Keys and values in their colours; text strings keep the text colour.

    It belongs to the widget, not to one of its documents, which come and go: `setDocument` says what it colours.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.setDocument(None)
        self._key, self._value = QTextCharFormat(), QTextCharFormat()
        self._read_theme()
        theme.changed.connect(self._read_theme)

    def _read_theme(self) -> None:
        self._key.setForeground(theme.color("syntax.key"))
        self._value.setForeground(theme.color("syntax.value"))

    def highlightBlock(self, text: str) -> None:
        """Colour one line."""
        for match in _TOKEN.finditer(text):
            if match.group(2) is not None:
                self.setFormat(match.start(1), match.end(1) - match.start(1), self._key)
            elif match.group(3) is not None:
                self.setFormat(match.start(), match.end() - match.start(), self._value)
