"""A profile as a form: the fields its provider has, each with its help and what is wrong with it."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QCompleter,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine.number_text import money_text
from engine.profile_store import ProfileEntry
from workbench.profiles.document import ProfileDocument
from workbench.profiles.fields import Field, groups, provider_names
from workbench.profiles.key_field import KeyField
from workbench.theme import theme
from workbench.widgets.elided import ElidedComboBox
from workbench.widgets.fault_note import FaultNote, mark_invalid
from workbench.widgets.section import Section
from workbench.widgets.words import Words

EXAMPLE_IN, EXAMPLE_OUT = 1000, 500
"""Tokens of the example below the prices."""


class FieldRow(QWidget):
    """The widget of one key, and what is to say about it below."""

    edited = Signal(str)
    """The person gave it another value; empty: none."""

    def __init__(self, field: Field, parent: QWidget) -> None:
        super().__init__(parent)
        self.field = field
        self.note = FaultNote(self)
        self.hint = Words(field.help, self, wrap=True)
        self.hint.setVisible(bool(field.help))
        self.edit = self._make()
        self.edit.setAccessibleName(field.label)
        self.edit.setAccessibleDescription(field.help)
        self.edit.setToolTip(field.key)
        self.label = Words(field.label, self, role="secondary", wrap=True)
        self.label.setBuddy(self.stop())
        column = QVBoxLayout()
        column.setSpacing(theme.px(3))
        for part in (self.edit, self.note, self.hint):
            column.addWidget(part)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(theme.px(12))
        row.addWidget(self.label, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(column, 1)
        self.setFocusProxy(self.edit)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self.label.setFixedWidth(theme.px(112))
        self.label.setContentsMargins(0, theme.px(4), 0, 0)

    def _make(self) -> QWidget:
        if self.field.key == "apiKey":
            key = KeyField(self.field.label, self)
            key.edited.connect(self.edited)
            return key
        if self.field.choices:
            combo = ElidedComboBox(self)
            combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            combo.setMinimumContentsLength(6)
            names = provider_names() if self.field.key == "modelProvider" else {}
            combo.addItem(self.tr("as usual"), "")
            for choice in self.field.choices:
                combo.addItem(names.get(choice, choice), choice)
            combo.activated.connect(lambda _index: self.edited.emit(combo.currentData() or ""))
            return combo
        line = QLineEdit(self)
        line.textEdited.connect(lambda text: self.edited.emit(text.strip()))
        return line

    def show_value(self, value: str, *, editable: bool) -> None:
        """Show what the file says."""
        match self.edit:
            case QComboBox() as combo:
                place = next((n for n in range(combo.count()) if str(combo.itemData(n)).lower() == value.lower()), -1)
                if place < 0:
                    combo.addItem(value, value)
                    place = combo.count() - 1
                combo.setCurrentIndex(place)
                combo.setEnabled(editable)
            case QLineEdit() as line:
                if line.text().strip() != value:
                    line.setText(value)
                line.setReadOnly(not editable)

    def show_fault(self, text: str, *, is_warning: bool = False) -> None:
        """Say below the field what is wrong with it; empty: nothing."""
        self.note.show_fault(text, is_warning=is_warning)
        mark_invalid(self.edit.line if isinstance(self.edit, KeyField) else self.edit, bool(text) and not is_warning)

    def stop(self) -> QWidget:
        """What takes the focus."""
        return self.edit.line if isinstance(self.edit, KeyField) else self.edit


class ProfileForm(QScrollArea):
    """All fields of the profile on show."""

    keyring_wanted = Signal(str, str)
    """Name and key."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._document: ProfileDocument | None = None
        self.rows: dict[str, FieldRow] = {}
        self._body = body = QWidget(self)
        self.setWidget(body)
        body.installEventFilter(self)
        column = QVBoxLayout(body)
        self.example = Words("", body)
        for group in groups():
            section = Section(group.title, body, is_open=group.is_open)
            for field in group.fields:
                self._add(field, section)
            if "cost1MInTokens" in {field.key for field in group.fields}:
                section.body.addWidget(self.example)
            column.addWidget(section)
        column.addStretch(1)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the form as high as its texts, wrapped at this width, need it: a scroll area does not ask for that."""
        if watched is self._body and event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            layout = self._body.layout()
            if layout is not None:
                self._body.setMinimumHeight(layout.totalHeightForWidth(self._body.width()))
        return super().eventFilter(watched, event)

    def _add(self, field: Field, section: Section) -> None:
        row = FieldRow(field, section)
        section.body.addWidget(row)
        row.edited.connect(lambda value, key=field.key: self._edited(key, value))
        if isinstance(row.edit, KeyField):
            row.edit.keyring_wanted.connect(self.keyring_wanted)
        self.rows[field.key] = row

    def _edited(self, key: str, value: str) -> None:
        if self._document is not None:
            self._document.set_value(key, value)

    def show_document(
        self, document: ProfileDocument, entry: ProfileEntry, *, can_keep: bool, models: Sequence[str]
    ) -> None:
        """Show a profile and what its check found; `models` are those its server listed."""
        self._document = document
        provider = document.value("modelProvider").upper()
        for key, row in self.rows.items():
            value = document.value(key)
            if isinstance(row.edit, KeyField):
                missing = any(value in message or f"{key}:" in message for message in entry.missing)
                row.edit.show_key(document.name, value, missing, can_keep=can_keep, editable=True)
            else:
                row.show_value(value, editable=True)
            shown = bool(value) or not provider or provider in row.field.providers
            row.setVisible(shown)
        self._show_faults(entry)
        self._show_example(entry)
        model = self.rows["modelName"].edit
        if isinstance(model, QLineEdit):
            self._complete(model, models)

    def _show_faults(self, entry: ProfileEntry) -> None:
        found: Mapping[str, list[tuple[str, bool]]] = {key: [] for key in self.rows}
        for problem in entry.problems:
            if problem.path in found:
                found[problem.path].append((problem.message, problem.severity != "error"))
        for key, row in self.rows.items():
            faults = sorted(found[key], key=lambda fault: fault[1])
            row.show_fault(faults[0][0] if faults else "", is_warning=bool(faults) and faults[0][1])

    def _show_example(self, entry: ProfileEntry) -> None:
        if entry.profile is None:
            self.example.setText("")
            return
        prices = entry.profile.prices
        if prices.input is None or prices.output is None:
            self.example.setText(self.tr("Without prices the cost is unknown, never 0."))
            return
        cost = Decimal(EXAMPLE_IN) * prices.input + Decimal(EXAMPLE_OUT) * prices.output
        text = self.tr("%1 in + %2 out = %3").replace("%1", f"{EXAMPLE_IN:,}").replace("%2", f"{EXAMPLE_OUT:,}")
        self.example.setText(text.replace("%3", money_text(cost)))

    @staticmethod
    def _complete(line: QLineEdit, models: Sequence[str]) -> None:
        before = line.completer()
        known = before.property("models") if before is not None else []
        if list(models) == list(known or []):
            return
        completer = QCompleter(list(models), line)
        completer.setProperty("models", list(models))
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.activated.connect(line.textEdited)
        line.setCompleter(completer)

    def focus_key(self, key: str) -> None:
        """Put the cursor into the field of a key."""
        row = self.rows.get(key)
        if row is not None:
            row.stop().setFocus()
            self.ensureWidgetVisible(row)
