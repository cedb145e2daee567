"""Two texts as one: words that went are struck through, words that came are marked."""

from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QTextEdit, QVBoxLayout, QWidget

from workbench.text_format import visible_text
from workbench.theme import theme
from workbench.word_difference import Piece, word_difference

LONGEST = 200_000
"""Characters of each text that are shown."""


class DifferenceView(QWidget):
    """A read-only text with a legend."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._texts = ("", "")
        self._pieces: list[Piece] = []
        self.text = QTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setFrameShape(QFrame.Shape.NoFrame)
        self.text.setAccessibleName(self.tr("Difference"))
        self.text.setTabChangesFocus(True)
        self._removed, self._added, self._note = QLabel(self), QLabel(self), QLabel(self)
        self._removed.setText(self.tr("only in the first"))
        self._added.setText(self.tr("only in the second"))
        legend = QHBoxLayout()
        legend.setSpacing(theme.px(12))
        for label in (self._note, self._removed, self._added):
            legend.addWidget(label)
        legend.insertStretch(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.px(6))
        layout.addWidget(self.text, 1)
        layout.addLayout(legend)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_texts(self, first: str, second: str) -> None:
        """Show these two."""
        if (first, second) == self._texts:
            return
        self._texts = (first, second)
        shown = [visible_text(text[:LONGEST]) for text in (first, second)]
        self._pieces = word_difference(shown[0], shown[1])
        self._show()

    @property
    def pieces(self) -> list[Piece]:
        """What is on show."""
        return self._pieces

    def _show(self) -> None:
        self.text.clear()
        cursor = QTextCursor(self.text.document())
        for kind, text in self._pieces:
            cursor.insertText(text, self._format(kind))
        self.text.moveCursor(QTextCursor.MoveOperation.Start)
        changes = sum(kind != "same" for kind, _ in self._pieces)
        for label, kind in ((self._removed, "removed"), (self._added, "added")):
            label.setVisible(any(piece.kind == kind for piece in self._pieces))
        said = self.tr("No difference") if self._pieces and not changes else ""
        self._note.setText(said)
        self.text.setAccessibleDescription(said or self.tr("%1 stretches differ").replace("%1", str(changes)))

    @staticmethod
    def _format(kind: str) -> QTextCharFormat:
        form = QTextCharFormat()
        form.setFont(theme.font(13))
        form.setForeground(theme.color("text"))
        if kind == "removed":
            form.setBackground(theme.color("diff.remove"))
            form.setFontStrikeOut(True)
        elif kind == "added":
            form.setBackground(theme.color("diff.add"))
        return form

    def _restyle(self) -> None:
        margin = theme.px(4)
        self.text.document().setDocumentMargin(theme.px(10))
        self._note.setFont(theme.font(12))
        for label, token, struck in ((self._removed, "diff.remove", True), (self._added, "diff.add", False)):
            font = theme.font(11)
            font.setStrikeOut(struck)
            label.setFont(font)
            colors = f"background: {theme.hex(token)}; color: {theme.hex('text')};"
            label.setStyleSheet(f"{colors} padding: 1px {margin}px; border-radius: 3px;")
        self._show()
