"""The Prompt tab: the turns and parameters one attempt sent."""

import json

from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QTextEdit, QVBoxLayout, QWidget

from workbench.run_panel.labels import Figures, plain_tip
from workbench.run_panel.markdown_text import CODE_LINE, ClosedDocument
from workbench.run_panel.pane_text import TextShaper
from workbench.run_panel.run_state import Attempt
from workbench.text_format import visible_text
from workbench.theme import theme

SHOWN_CHARACTERS = 200_000
"""Of each turn; the clipboard gets it whole."""


class PromptView(QWidget):
    """Read-only view of a request."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._attempt: Attempt | None = None
        self._turns: tuple[tuple[str, str], ...] | None = None
        self._edit = QTextEdit(self)
        self._edit.setReadOnly(True)
        self._edit.setProperty("pane", True)
        self._edit.setAccessibleName(self.tr("Prompt"))
        document = ClosedDocument(self._edit)
        document.setUndoRedoEnabled(False)
        document.setDocumentMargin(theme.px(4))
        self._edit.setDocument(document)
        self._foot = Figures(11, parent=self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._edit, 1)
        layout.addWidget(self._foot)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self._foot.setFixedHeight(theme.px(26))
        self._foot.setContentsMargins(theme.px(12), 0, theme.px(12), 0)
        self._edit.setFont(theme.font(12, mono=True))
        self._turns = None
        self.show_attempt(self._attempt)

    def show_attempt(self, attempt: Attempt | None) -> None:
        """Show what this attempt sent."""
        self._attempt = attempt
        turns = attempt.turns if attempt is not None else ()
        if turns is not self._turns:
            self._turns = turns
            self._fill(turns)
        foot = visible_text(self._foot_text(attempt)) if attempt is not None else ""
        if foot != self._foot.text():
            self._foot.setText(foot)
            self._foot.setToolTip(plain_tip(foot))

    def _foot_text(self, attempt: Attempt) -> str:
        parts = [
            self.tr("profile %1").replace("%1", attempt.profile) if attempt.profile else "",
            self.tr("model %1").replace("%1", attempt.model) if attempt.model else "",
            *(f"{name} {_value(value)}" for name, value in attempt.parameters.items()),
        ]
        return ", ".join(part for part in parts if part)

    def _fill(self, turns: tuple[tuple[str, str], ...]) -> None:
        document = self._edit.document()
        document.clear()
        cursor = QTextCursor(document)
        cursor.beginEditBlock()
        role_format, text_format = QTextCharFormat(), QTextCharFormat()
        role_format.setFont(theme.font(11, 600))
        role_format.setForeground(theme.color("accent"))
        text_format.setFont(theme.font(12, mono=True))
        text_format.setForeground(theme.color("text"))
        for number, (role, text) in enumerate(turns):
            head, body = QTextBlockFormat(), QTextBlockFormat()
            head.setTopMargin(theme.px(12 if number else 8))
            head.setBottomMargin(theme.px(2))
            body.setLineHeight(CODE_LINE, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
            if number:
                cursor.insertBlock()
            cursor.setBlockFormat(head)
            cursor.insertText(visible_text(role), role_format)
            cursor.insertBlock(body, text_format)
            shown = TextShaper().feed(text[:SHOWN_CHARACTERS], last=True)
            if len(text) > SHOWN_CHARACTERS:
                shown += self.tr("\n… and %1 more characters").replace("%1", f"{len(text) - SHOWN_CHARACTERS:,}")
            cursor.insertText(shown, text_format)
        cursor.endEditBlock()
        self._edit.moveCursor(QTextCursor.MoveOperation.Start)

    @property
    def text(self) -> str:
        """The whole prompt and its parameters, for the clipboard."""
        if self._attempt is None:
            return ""
        turns = "\n\n".join(f"{role}\n{text}" for role, text in self._attempt.turns)
        return f"{turns}\n\n{self._foot_text(self._attempt)}".strip()


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
