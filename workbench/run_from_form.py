"""The form before a run that starts at an agent: which pass, which branches, and what its context holds."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine.checkpoints import Checkpoint
from workbench.run_panel.labels import Figures
from workbench.text_format import visible_text
from workbench.theme import theme

MOST_KEYS = 100
"""Keys that get a field."""
LONGEST = 100_000
"""Characters of a value that can be edited here."""
MOST_LINES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a run starts with."""

    visit: int | None = None
    """The pass, from 1; missing: the last."""
    branch: str | None = None
    """One branch; missing: all of the pass."""
    edits: Mapping[str, list[object]] = field(default_factory=dict)


class ValueField(QPlainTextEdit):
    """One key: a single text as it is, anything else as a JSON list."""

    def __init__(self, key: str, values: Sequence[object], parent: QWidget) -> None:
        super().__init__(parent)
        self.key = key
        self._single = len(values) == 1 and isinstance(values[0], str)
        text = str(values[0]) if self._single else _json(values)
        self._whole = len(text) <= LONGEST
        self.setPlainText(text if self._whole else text[:LONGEST])
        self._before = self.toPlainText()
        self.setReadOnly(not self._whole)
        self.setTabChangesFocus(True)
        self.setAccessibleName(key)
        self.setFont(theme.font(12, mono=not self._single))
        lines = min(MOST_LINES, max(1 + text.count("\n", 0, 1000), 1 + len(text[:1000]) // 60))
        if lines == 1:
            self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        frame = 2 * (self.frameWidth() + round(self.document().documentMargin()))
        self.setFixedHeight(self.fontMetrics().lineSpacing() * lines + frame + theme.px(8))

    @property
    def is_edited(self) -> bool:
        """Whether the person changed it."""
        return self.toPlainText() != self._before

    def values(self) -> list[object]:
        """What is written; raises ValueError for text that is no JSON list."""
        if self._single:
            return [self.toPlainText()]
        found = json.loads(self.toPlainText())
        if not isinstance(found, list):
            raise ValueError("no list")
        return found


class RunFromForm(QDialog):
    """`open` it and wait for `chosen`."""

    chosen = Signal(object)
    """A Start."""

    def __init__(self, agent: str, passes: Mapping[int, Sequence[Checkpoint]], parent: QWidget) -> None:
        super().__init__(parent)
        self.setModal(True)
        self.setWindowTitle(self.tr("Run from %1").replace("%1", agent))
        self._passes = passes
        self._fields: list[ValueField] = []
        self.visit, self.branch = QComboBox(self), QComboBox(self)
        for number in passes:
            text = self.tr("Pass %1 of %2").replace("%2", str(max(passes))).replace("%1", str(number))
            self.visit.addItem(text, number)
        self.visit.setCurrentIndex(self.visit.count() - 1)
        choices = QFormLayout()
        for combo, label in ((self.visit, self.tr("&Pass")), (self.branch, self.tr("&Branches"))):
            combo.setAccessibleName(label.replace("&", ""))
            choices.addRow(label, combo)
        choices.setRowVisible(self.visit, len(passes) > 1)
        self._choices = choices
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setAccessibleName(self.tr("Context before the agent"))
        self._message = Figures(12, 400, "muted", self)
        self._build(choices)
        self.visit.currentIndexChanged.connect(self._show_branches)
        self.branch.currentIndexChanged.connect(self._show_keys)
        self._show_branches()
        room = self.screen().availableGeometry().size() * 0.95
        self.resize(QSize(theme.px(560), theme.px(460)).boundedTo(room))
        self._run.setFocus()

    def _build(self, choices: QFormLayout) -> None:
        head = QLabel(
            self.tr("It begins with what the recorded run had there. What you change here holds for this run.")
        )
        head.setWordWrap(True)
        head.setFont(theme.font(12))
        cancel = QPushButton(self.tr("Cancel"), self)
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        self._run = QPushButton(self.tr("Run from here"), self)
        self._run.setProperty("primary", "true")
        self._run.setDefault(True)
        self._run.clicked.connect(self._submit)
        buttons = QHBoxLayout()
        buttons.addWidget(self._message, 1)
        buttons.addWidget(cancel)
        buttons.addWidget(self._run)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(theme.px(16),) * 4)
        layout.setSpacing(theme.px(12))
        layout.addWidget(head)
        layout.addLayout(choices)
        layout.addWidget(self._scroll, 1)
        layout.addLayout(buttons)

    def _arrivals(self) -> Sequence[Checkpoint]:
        return self._passes[self.visit.currentData()]

    def _show_branches(self) -> None:
        found = self._arrivals()
        self.branch.blockSignals(True)
        self.branch.clear()
        self.branch.addItem(self.tr("All %1 branches").replace("%1", str(len(found))), None)
        if len(found) > 1:
            for name in sorted((arrival.contexts[0].branch for arrival in found), key=_branch_order):
                self.branch.addItem(name or self.tr("(the first)"), name)
        self.branch.blockSignals(False)
        self._choices.setRowVisible(self.branch, len(found) > 1)
        self._show_keys()

    def _show_keys(self) -> None:
        wanted = self.branch.currentData()
        contexts = [one.contexts[0] for one in self._arrivals() if wanted is None or one.contexts[0].branch == wanted]
        holder = QWidget(self._scroll)
        form = QFormLayout(holder)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapAllRows)
        self._fields = []
        keys = [*dict.fromkeys(key for context in contexts for key in context.values)]
        for key in keys[:MOST_KEYS]:
            values = contexts[0].values.get(key)
            label = QLabel(visible_text(key))
            label.setFont(theme.font(11, 600))
            if values is None or any(context.values.get(key) != values for context in contexts[1:]):
                note = QLabel(self.tr("differs by branch; choose one branch to edit it"))
                note.setFont(theme.font(12))
                note.setProperty("role", "muted")
                form.addRow(label, note)
                continue
            value = ValueField(key, values, holder)
            value.textChanged.connect(self._check)
            self._fields.append(value)
            form.addRow(label, value)
        if not keys:
            form.addRow(QLabel(self.tr("The context is empty: the agent needs no key.")))
        if len(keys) > MOST_KEYS:
            form.addRow(QLabel(self.tr("and %1 more keys").replace("%1", str(len(keys) - MOST_KEYS))))
        self._scroll.setWidget(holder)
        self._check()

    def field(self, key: str) -> QPlainTextEdit:
        """The field of a key."""
        return next(one for one in self._fields if one.key == key)

    def _check(self) -> None:
        faults = []
        for one in self._fields:
            if one.is_edited:
                try:
                    one.values()
                except ValueError:
                    faults.append(one.key)
        edited = any(one.is_edited for one in self._fields)
        text = self.tr("The run will be marked as edited.") if edited else ""
        if faults:
            text = self.tr("No JSON list: %1").replace("%1", visible_text(", ".join(faults)))
        self._message.set_color("err" if faults else "muted")
        self._message.setText(text)
        self._run.setEnabled(not faults)

    def _submit(self) -> None:
        edits = {one.key: one.values() for one in self._fields if one.is_edited}
        self.chosen.emit(Start(visit=self.visit.currentData(), branch=self.branch.currentData(), edits=edits))
        self.accept()


def _json(values: Sequence[object]) -> str:
    return msgspec.json.format(msgspec.json.encode(list(values), enc_hook=str), indent=2).decode()


def _branch_order(branch: str) -> list[int]:
    """Branches as they are numbered, `2/10` before `10/10`, not as they arrived."""
    return [int(part.partition("/")[0]) for part in branch.split(".") if part]
