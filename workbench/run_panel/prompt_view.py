"""The Prompt tab: the turns, or the raw prompt with its special tokens marked, and the parameters one attempt sent."""

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial

from PySide6.QtCore import QCoreApplication, QSize, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QShowEvent, QTextBlockFormat, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QTextEdit, QToolButton, QVBoxLayout, QWidget

from engine.errors import ProfileError
from engine.events import PromptShortened
from engine.formed_request import FORMS, FormedRequest, request_text
from engine.prompt_strategies import strategy_named
from engine.sent_images import sent_images
from workbench.run_panel.labels import Figures
from workbench.run_panel.markdown_text import CODE_LINE, ClosedDocument
from workbench.run_panel.pane_text import TextShaper
from workbench.run_panel.run_state import Attempt
from workbench.run_panel.sent_pictures import SentPictures
from workbench.text_format import plain_tip, visible_text
from workbench.theme import theme

translate = QCoreApplication.translate

SHOWN_CHARACTERS = 200_000
"""Of each turn; the clipboard gets it whole."""
FILL_SECONDS, FILL_CHARACTERS = 0.008, 2048
"""What may be put into the view at once; between such pieces other things have their turn."""


class PromptView(QWidget):
    """Read-only view of a request."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._attempt: Attempt | None = None
        self._turns: tuple[tuple[str, str], ...] | None = None
        self._shortened: PromptShortened | None = None
        self._request: FormedRequest | None = None
        """Of which the pictures are shown."""
        self._edit = QTextEdit(self)
        self._edit.setReadOnly(True)
        self._edit.setProperty("pane", True)
        self._edit.setAccessibleName(self.tr("Prompt"))
        document = ClosedDocument(self._edit)
        document.setUndoRedoEnabled(False)
        document.setDocumentMargin(theme.px(4))
        self._edit.setDocument(document)
        self._foot = Figures(11, parent=self)
        self._foot.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.copy_buttons = {form: QToolButton(self) for form in FORMS}
        self.pictures = SentPictures(self)
        self._steps: Iterator[None] = iter(())
        self._rest = QTimer(self)
        self._rest.setInterval(0)
        self._rest.timeout.connect(self._go_on)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._edit, 1)
        layout.addWidget(self.pictures)
        self._bar = QHBoxLayout()
        self._bar.setSpacing(0)
        self._bar.addWidget(self._foot, 1)
        for form, name in ((form, copy_name(form)) for form in FORMS):
            button = self.copy_buttons[form]
            button.setText(name)
            button.setAccessibleName(name)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            button.clicked.connect(partial(self._copy, form))
            self._bar.addWidget(button)
        layout.addLayout(self._bar)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self._foot.setFixedHeight(theme.px(30))
        self._foot.setContentsMargins(theme.px(12), 0, theme.px(12), 0)
        self._bar.setContentsMargins(0, 0, theme.px(8), 0)
        for button in self.copy_buttons.values():
            button.setFont(theme.font(11))
            button.setIcon(theme.icon("copy", 14))
            button.setIconSize(QSize(theme.px(14), theme.px(14)))
        self._edit.setFont(theme.font(12, mono=True))
        self._turns = None
        self.show_attempt(self._attempt)

    def show_attempt(self, attempt: Attempt | None) -> None:
        """Show what this attempt sent."""
        self._attempt = attempt
        turns = attempt.turns if attempt is not None else ()
        shortened = attempt.shortened if attempt is not None else None
        if (turns is not self._turns or shortened is not self._shortened) and self.isVisible():
            self._turns, self._shortened = turns, shortened
            self._fill(attempt)
        if self.isVisible():
            request = attempt.request if attempt is not None else None
            if request is not self._request:
                self._request = request
                self.pictures.show_images(sent_images(request.body) if request is not None else ())
        for button in self.copy_buttons.values():
            button.setEnabled(attempt is not None and attempt.request is not None)
            button.setToolTip(copy_tip(attempt))
        foot = visible_text(self._foot_text(attempt)) if attempt is not None else ""
        if foot != self._foot.text():
            self._foot.setText(foot)
            self._foot.setToolTip(plain_tip(foot))

    def _copy(self, form: str) -> None:
        if self._attempt is not None:
            copy_request(self._attempt, form)

    def _foot_text(self, attempt: Attempt) -> str:
        parts = [
            self.tr("profile %1").replace("%1", attempt.profile) if attempt.profile else "",
            self.tr("model %1").replace("%1", attempt.model) if attempt.model else "",
            *(f"{name} {_value(value)}" for name, value in attempt.parameters.items()),
        ]
        return ", ".join(part for part in parts if part)

    def _parts(self, attempt: Attempt | None) -> Sequence[tuple[str, str]]:
        """What is shown: the raw prompt when there is one, else the turns; a heading and a text each."""
        if attempt is None:
            return ()
        if attempt.raw:
            return ((self.tr("raw prompt, format %1").replace("%1", attempt.raw_format), attempt.raw),)
        cut = attempt.shortened
        if cut is None:
            return attempt.turns
        marks = dict.fromkeys(cut.shrunk, self.tr("sent as a note only")) | dict.fromkeys(
            cut.dropped, self.tr("left out: the prompt was too long")
        )
        return [
            (f"{role} ({marks[place]})" if place in marks else role, text)
            for place, (role, text) in enumerate(attempt.turns)
        ]

    def _fill(self, attempt: Attempt | None) -> None:
        """Show the beginning at once, the rest bit by bit: the window must not wait for a long prompt."""
        self._edit.document().clear()
        self._steps = self._filling(attempt)
        self._go_on()
        self._edit.moveCursor(QTextCursor.MoveOperation.Start)

    def _go_on(self) -> None:
        deadline = time.perf_counter() + FILL_SECONDS
        for _ in self._steps:
            if time.perf_counter() > deadline:
                self._rest.start()
                return
        self._rest.stop()

    def _filling(self, attempt: Attempt | None) -> Iterator[None]:
        cursor = QTextCursor(self._edit.document())
        role_format, text_format = QTextCharFormat(), QTextCharFormat()
        role_format.setFont(theme.font(11, 600))
        role_format.setForeground(theme.color("accent"))
        text_format.setFont(theme.font(12, mono=True))
        text_format.setForeground(theme.color("text"))
        mark_format = QTextCharFormat(text_format)
        mark_format.setForeground(theme.color("reason"))
        mark_format.setBackground(theme.color("tint.reason"))
        for number, (role, text) in enumerate(self._parts(attempt)):
            head, body = QTextBlockFormat(), QTextBlockFormat()
            head.setTopMargin(theme.px(12 if number else 8))
            head.setBottomMargin(theme.px(2))
            body.setLineHeight(CODE_LINE, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
            if number:
                cursor.insertBlock()
            cursor.setBlockFormat(head)
            cursor.insertText(visible_text(role), role_format)
            cursor.insertBlock(body, text_format)
            shaper, end = TextShaper(), min(len(text), SHOWN_CHARACTERS)
            for start, stop, mark in _segments(text, attempt.raw_format if attempt else "", end):
                for place in range(start, stop, FILL_CHARACTERS):
                    piece = text[place : min(stop, place + FILL_CHARACTERS)]
                    shown = shaper.feed(piece, last=place + len(piece) == end)
                    cursor.insertText(shown, mark_format if mark else text_format)
                    yield
            if len(text) > end:
                more = self.tr("\n… and %1 more characters").replace("%1", f"{len(text) - end:,}")
                cursor.insertText(more, text_format)

    def showEvent(self, event: QShowEvent) -> None:
        """Show what came while nobody could see it."""
        super().showEvent(event)
        self.show_attempt(self._attempt)

    @property
    def text(self) -> str:
        """The whole prompt and its parameters, for the clipboard."""
        if self._attempt is None:
            return ""
        turns = self._attempt.raw or "\n\n".join(f"{role}\n{text}" for role, text in self._attempt.turns)
        return f"{turns}\n\n{self._foot_text(self._attempt)}".strip()


def copy_name(form: str) -> str:
    """What an action is called that copies a request in one of FORMS."""
    return translate("PromptView", "Copy as curl") if form == "curl" else translate("PromptView", "Copy as Python")


def copy_tip(attempt: Attempt | None) -> str:
    """What would be copied, or why nothing can be."""
    if attempt is not None and attempt.request is not None:
        return translate("PromptView", "The request exactly as it went out; keys are read from the environment")
    if attempt is not None and attempt.frozen_from:
        return translate("PromptView", "The agent is frozen: nothing was sent")
    return translate("PromptView", "No request is recorded that could be copied")


def copy_request(attempt: Attempt, form: str) -> None:
    """Put what an attempt sent on the clipboard, in one of FORMS."""
    if attempt.request is not None:
        QGuiApplication.clipboard().setText(request_text(attempt.request, form))


def _segments(text: str, raw_format: str, end: int) -> list[tuple[int, int, bool]]:
    """The text up to `end` in pieces: start, end, and whether it is a special token of the format."""
    try:
        marks = strategy_named(raw_format).marks(text[:end]) if raw_format else []
    except ProfileError:  # a recorded run whose plug-in is no longer there
        marks = []
    pieces, last = [], 0
    for start, stop in marks:
        pieces += [(last, start, False)] if last < start else []
        pieces.append((start, stop, True))
        last = stop
    return [*pieces, (last, end, False)] if last < end or not pieces else pieces


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
