"""Colours of the source of a profile: comments, keys, and values that are secrets, which cannot be read."""

from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from engine.profile_keys import key_named
from workbench.theme import theme


class SourceColors(QSyntaxHighlighter):
    """Formats one line at a time."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        theme.changed.connect(self.rehighlight)

    def highlightBlock(self, text: str) -> None:
        """Format one line."""
        stripped = text.lstrip()
        if stripped.startswith(("#", "!")):
            self.setFormat(0, len(text), _look(theme.color("muted")))
            return
        name, _, value = text.partition("=")
        self.setFormat(0, len(name), _look(theme.color("syntax.key")))
        known = key_named(name.strip())
        if known is not None and known.secret and value.strip() and not value.strip().startswith("${"):
            # A bar in the place of the letters: the text is there to be edited, not to be read over a shoulder.
            bar = _look(theme.color("bg.press"))
            bar.setBackground(theme.color("bg.press"))
            self.setFormat(len(name) + 1, len(value), bar)


def _look(color: QColor) -> QTextCharFormat:
    look = QTextCharFormat()
    look.setForeground(color)
    return look
