"""What personal data models get to see: kinds, looks, exceptions, own patterns, and a text to try it on."""

import difflib
import re
from collections.abc import Iterator

from PySide6.QtCore import QCoreApplication, QSignalBlocker
from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPlainTextEdit, QPushButton, QTextEdit, QVBoxLayout, QWidget

from engine.sensitive import custom_rule
from workbench.engine_options import EngineOptions
from workbench.settings_dialog.checks import domain
from workbench.settings_dialog.page import Field, Page
from workbench.settings_dialog.text_list import TextList
from workbench.theme import theme
from workbench.widgets.elided import ElidedComboBox
from workbench.widgets.row_list import RowList

MOST_TRIED = 5_000
"""Characters of a text that is tried."""
EXAMPLE = "ada@example.com, +86 13800138000, 6226327514303272"


class PatternRow(QWidget):
    """A pattern of one's own and what stands in its place, the fault below."""

    def __init__(self, index: int, owner: "MaskingPage") -> None:
        super().__init__(owner)
        number = str(index + 1)
        self.pattern = Field(
            self.tr("Pattern %1").replace("%1", number), lambda text: owner.take_pattern(index, text), self
        )
        self.replacement = Field(
            self.tr("Replacement %1").replace("%1", number), lambda text: owner.take_replacement(index, text), self
        )
        self.pattern.setPlaceholderText(self.tr("Text, or re: and an expression"))
        self.replacement.setPlaceholderText(self.tr("nothing"))
        line = QHBoxLayout()
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(theme.px(8))
        line.addWidget(self.pattern, 3)
        line.addWidget(self.replacement, 2)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(line)
        column.addWidget(self.pattern.note)
        column.addWidget(self.replacement.note)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        for field in (self.pattern, self.replacement):
            field.setFont(theme.font(13))


class MaskingPage(Page):
    """Masking where a profile does not say otherwise, and own patterns for all of them."""

    def __init__(self, options: EngineOptions, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("MaskingPage", "Sensitive data"), parent)
        self._options = options
        self._drafts: list[tuple[str, str]] = []
        """Patterns as rows, also those that are not whole yet."""
        words = self.tr(
            "Mail addresses, Chinese identity card and mobile numbers and bank cards are masked before a request"
            " leaves. Runs and files keep what they have; a profile may say otherwise for itself."
        )
        self.add_wide(self.hint(words))
        self._build_choices()
        self.add_head(self.tr("Mail domains that stay readable"))
        none = self.tr("None: all addresses are masked.")
        self.domains = TextList(self.tr("Mail domains"), "example.org", none, domain, self)
        self.domains.changed.connect(lambda entries: options.change(sensitive_email_domains=entries))
        self.add_wide(self.domains)
        self.add_wide(self.hint(self.tr("With all domains below them.")))
        self._build_patterns()
        self._build_trial()
        options.changed.connect(self._show)
        self.finish()
        self._show()

    def _build_choices(self) -> None:
        self.scope, self.style_choice = self._choice(self.tr("Masked")), self._choice(self.tr("Looks"))
        for value, text in (
            ("tool_results", self.tr("Results of tools")),
            ("all", self.tr("Everything but the model's own words")),
            ("off", self.tr("Nothing")),
        ):
            self.scope.addItem(text, value)
        for value, text in (
            ("partial", self.tr("A part stays: 138✿✿✿✿8000")),
            ("stars", self.tr("Stars: ***********")),
        ):
            self.style_choice.addItem(text, value)
        self.scope.activated.connect(lambda row: self._options.change(sensitive_scope=self.scope.itemData(row)))
        self.style_choice.activated.connect(
            lambda row: self._options.change(sensitive_style=self.style_choice.itemData(row))
        )
        self.add_row(self.tr("Masked"), self.scope)
        self.add_row(self.tr("Looks"), self.style_choice)

    def _choice(self, name: str) -> QComboBox:
        choice = ElidedComboBox(self)
        choice.setAccessibleName(name)
        choice.setMinimumContentsLength(24)
        return choice

    def _build_patterns(self) -> None:
        self.add_head(self.tr("Patterns of your own"))
        self.rows = RowList(self.tr("Patterns"), self.tr("pattern %1"), lambda index: PatternRow(index, self), self)
        self.rows.moved.connect(self._move)
        self.rows.removed.connect(self._remove)
        self.add_wide(self.rows)
        self.add_pattern = QPushButton(self.tr("Add a pattern"), self)
        self.add_pattern.setAutoDefault(False)
        self.add_pattern.clicked.connect(self._add)
        self.add_buttons(self.add_pattern)
        words = self.tr(
            "Used in this order, after the kinds above. re:(?i)falcon-\\d+ is an expression, falcon a text."
        )
        self.add_wide(self.hint(words))

    def _build_trial(self) -> None:
        self.add_head(self.tr("Try it"))
        self.trial, self.masked = QPlainTextEdit(self), QPlainTextEdit(self)
        self.trial.setAccessibleName(self.tr("Text to try"))
        self.masked.setAccessibleName(self.tr("The text as it is sent"))
        self.trial.setPlainText(EXAMPLE)
        self.masked.setReadOnly(True)
        for edit in (self.trial, self.masked):
            edit.setTabChangesFocus(True)
        self.trial.textChanged.connect(self._try)
        self.add_wide(self.trial)
        self.outcome = self.hint("")
        self.add_wide(self.outcome)
        self.add_wide(self.masked)

    # -- patterns -----------------------------------------------------------------------------------------------------

    def take_pattern(self, index: int, text: str) -> str:
        """Put a pattern into the settings; raises ValueError in words."""
        if text:
            try:
                custom_rule(text, "")
            except re.error as error:
                fault = self.tr("This is no expression: %1.")
                raise ValueError(fault.replace("%1", str(error))) from None
            if any(text == other for row, (other, _) in enumerate(self._drafts) if row != index):
                raise ValueError(self.tr("This pattern is in the list already."))
        self._drafts[index] = text, self._drafts[index][1]
        self._keep()
        return text

    def take_replacement(self, index: int, text: str) -> str:
        """Put a replacement into the settings."""
        self._drafts[index] = self._drafts[index][0], text
        self._keep()
        return text

    def _keep(self) -> None:
        self._options.change(sensitive_patterns={pattern: text for pattern, text in self._drafts if pattern})
        self._try()

    def _add(self) -> None:
        self._drafts.append(("", ""))
        self._show_rows()
        row = self.rows.rows[-1].body
        if isinstance(row, PatternRow):
            row.pattern.setFocus()

    def _move(self, origin: int, place: int) -> None:
        self._drafts.insert(place, self._drafts.pop(origin))
        self._show_rows()
        self._keep()

    def _remove(self, index: int) -> None:
        del self._drafts[index]
        self._show_rows()
        self._keep()

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        settings = self._options.current
        with QSignalBlocker(self.scope), QSignalBlocker(self.style_choice):
            self.scope.setCurrentIndex(self.scope.findData(settings.sensitive_scope))
            self.style_choice.setCurrentIndex(self.style_choice.findData(settings.sensitive_style))
        self.domains.show_entries(settings.sensitive_email_domains)
        held = [(pattern, text) for pattern, text in self._drafts if pattern]
        if held != list(settings.sensitive_patterns.items()):
            self._drafts = list(settings.sensitive_patterns.items())
            self._show_rows()
        self._try()

    def _show_rows(self) -> None:
        self.rows.show_count(len(self._drafts))
        for row, (pattern, replacement) in zip(self.rows.bodies(), self._drafts, strict=True):
            if isinstance(row, PatternRow):
                row.pattern.show_value(pattern)
                row.replacement.show_value(replacement)

    def _try(self) -> None:
        text = self.trial.toPlainText()[:MOST_TRIED]
        masked = self._options.current.masking.text(text)
        self.masked.setPlainText(masked)
        places = list(_places(text, masked))
        marks = []
        for begin, end in places:
            mark = QTextEdit.ExtraSelection()
            mark.cursor = QTextCursor(self.masked.document())
            mark.cursor.setPosition(begin)
            mark.cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            looks = QTextCharFormat()
            looks.setBackground(theme.color("bg.selected"))
            mark.format = looks
            marks.append(mark)
        self.masked.setExtraSelections(marks)
        if self._options.current.sensitive_scope == "off":
            self.outcome.setText(self.tr("Masking is off; where a profile switches it on, this is sent:"))
        elif masked == text:
            self.outcome.setText(self.tr("Nothing in it is masked:"))
        else:
            self.outcome.setText(self.tr("What is sent, with what was masked marked:"))

    def restyle(self) -> None:
        """Take the present text zoom."""
        for edit in (self.trial, self.masked):
            edit.setFont(theme.font(13))
            edit.setFixedHeight(theme.px(64))
        for choice in (self.scope, self.style_choice):
            choice.setFont(theme.font(13))
        self.add_pattern.setFont(theme.font(13))


def _places(text: str, masked: str) -> Iterator[tuple[int, int]]:
    """Where the masked text differs, in its UTF-16 units as Qt counts; letters that are the same by chance go along."""
    found: list[tuple[int, int]] = []
    for kind, _, _, begin, end in difflib.SequenceMatcher(None, text, masked, autojunk=False).get_opcodes():
        if kind in ("replace", "insert"):
            near = bool(found) and begin - found[-1][1] <= 2
            found = [*found[:-1], (found[-1][0], end)] if near else [*found, (begin, end)]
    for begin, end in found:
        yield _units(masked[:begin]), _units(masked[:end])


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
