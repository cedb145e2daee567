"""The form that asks what is to be compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QRadioButton,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from engine.comparison_rows import prompt_flow
from engine.comparison_values import LEAST_PROFILES, MOST_PROFILES, GraderColumn
from engine.errors import ComparisonError, EngineError
from workbench.comparison.grader_rows import GraderRows
from workbench.comparison.row_table import RowTable
from workbench.flow_source import read_source
from workbench.theme import theme
from workbench.widgets.elided import ElidedComboBox
from workbench.widgets.input_fields import FileField

ALL_AGENTS = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What the form says."""

    prompt: str
    system: str
    flow: str
    """Path or name of a sample; empty: the prompt is compared."""
    profiles: tuple[str, ...]
    category: str
    repeats: int
    rows: tuple[dict[str, object], ...]
    dataset: Path | None
    graders: tuple[GraderColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChoice:
    """A flow that can be compared."""

    title: str
    source: str
    """Path, or name of a sample."""

    def inputs(self) -> tuple[str, ...]:
        """The inputs of the flow; none for one that cannot be read."""
        try:
            return tuple(item.key for item in read_source(self.source).spec.inputs)
        except EngineError:
            return ()


class SetupForm(QDialog):
    """Emits `submitted` and stays until `accept`; `show_fault` says why something cannot be."""

    submitted = Signal(object)
    """A Setup."""

    def __init__(
        self, profiles: Sequence[str], flows: Sequence[FlowChoice], categories: Sequence[str], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("New comparison"))
        self._flows = list(flows)
        self._inputs: dict[str, tuple[str, ...]] = {}
        """Those of flows that were looked at."""
        self._by_prompt, self._by_flow = QRadioButton(self.tr("A prompt"), self), QRadioButton(self.tr("A flow"), self)
        self.system, self.prompt = QPlainTextEdit(self), QPlainTextEdit(self)
        self.flow, self.category = ElidedComboBox(self), ElidedComboBox(self)
        self.profiles = QListWidget(self)
        self._chosen = QLabel(self)
        self._typed, self._from_file = QRadioButton(self.tr("Typed"), self), QRadioButton(self.tr("Dataset"), self)
        self.rows, self.dataset = RowTable(self), FileField(self)
        self.repeats = QSpinBox(self)
        self.graders = GraderRows(profiles, self)
        self._fault = QLabel(self)
        self._buttons = QDialogButtonBox(self)
        self._start = QPushButton(self.tr("Start"), self)
        self._form = QFormLayout()
        self._fill(profiles, categories)
        self._lay_out()
        self._connect()
        theme.changed.connect(self._restyle)
        self._restyle()
        self._follow()

    # -- building -----------------------------------------------------------------------------------------------------

    def _fill(self, profiles: Sequence[str], categories: Sequence[str]) -> None:
        for name in profiles:
            item = QListWidgetItem(name)
            item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsSelectable)
            item.setCheckState(Qt.CheckState.Unchecked)
            self.profiles.addItem(item)
        for choice in self._flows:
            self.flow.addItem(choice.title)
        self.category.addItem(self.tr("All agents"), ALL_AGENTS)
        for label in categories:
            self.category.addItem(self.tr("Only those of category %1").replace("%1", label), label)
        self.repeats.setRange(1, 100)
        self.prompt.setPlaceholderText(self.tr("What all profiles are asked. {{key}} is a column of the rows."))
        self.system.setPlaceholderText(self.tr("Who the model is to be (optional)"))
        for box in (self.prompt, self.system):
            box.setTabChangesFocus(True)
        names = {
            self.prompt: self.tr("Prompt"),
            self.system: self.tr("System prompt"),
            self.flow: self.tr("Flow"),
            self.category: self.tr("Which agents"),
            self.profiles: self.tr("Profiles"),
            self.repeats: self.tr("Repeats"),
            self.dataset.line: self.tr("Dataset file"),
        }
        for widget, name in names.items():
            widget.setAccessibleName(name)

    def _lay_out(self) -> None:
        kinds, sources = QHBoxLayout(), QHBoxLayout()
        for row, pair in ((kinds, (self._by_prompt, self._by_flow)), (sources, (self._typed, self._from_file))):
            group = QButtonGroup(self)
            for button in pair:
                group.addButton(button)
                row.addWidget(button)
            row.addStretch(1)
        self._by_prompt.setChecked(True)
        self._typed.setChecked(True)
        form = self._form
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(self.tr("Compare"), kinds)
        form.addRow(self.tr("System prompt"), self.system)
        form.addRow(self.tr("Prompt"), self.prompt)
        form.addRow(self.tr("Flow"), self.flow)
        form.addRow(self.tr("Agents"), self.category)
        profiles = QVBoxLayout()
        profiles.addWidget(self.profiles)
        profiles.addWidget(self._chosen)
        form.addRow(self.tr("Profiles"), profiles)
        form.addRow(self.tr("Rows"), sources)
        form.addRow("", self.rows)
        form.addRow("", self.dataset)
        form.addRow(self.tr("Repeats"), self.repeats)
        form.addRow(self.tr("Graders"), self.graders)
        body = QWidget(self)
        body.setLayout(form)
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setWidget(body)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._fault.setWordWrap(True)
        self._fault.setTextFormat(Qt.TextFormat.PlainText)
        self._fault.hide()
        self._start.setProperty("primary", True)
        self._start.setDefault(True)
        self._buttons.addButton(self._start, QDialogButtonBox.ButtonRole.ActionRole)
        self._buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        layout = QVBoxLayout(self)
        layout.addWidget(area, 1)
        layout.addWidget(self._fault)
        layout.addWidget(self._buttons)

    def _connect(self) -> None:
        self._start.clicked.connect(self._submit)
        self._buttons.rejected.connect(self.reject)
        for button in (self._by_prompt, self._typed):
            button.toggled.connect(self._follow)
        self.prompt.textChanged.connect(self._follow)
        self.system.textChanged.connect(self._follow)
        self.flow.currentIndexChanged.connect(self._follow)
        self.profiles.itemChanged.connect(self._follow)
        self.graders.changed.connect(self._follow)

    # -- asking -------------------------------------------------------------------------------------------------------

    def compare_flow(self, source: str) -> None:
        """Choose a flow."""
        for index, choice in enumerate(self._flows):
            if choice.source == source:
                self._by_flow.setChecked(True)
                self.flow.setCurrentIndex(index)

    def check_profiles(self, names: Sequence[str]) -> None:
        """Choose these profiles."""
        for index in range(self.profiles.count()):
            item = self.profiles.item(index)
            item.setCheckState(Qt.CheckState.Checked if item.text() in names else Qt.CheckState.Unchecked)

    @property
    def chosen_profiles(self) -> tuple[str, ...]:
        """The profiles with a tick, from the top."""
        items = (self.profiles.item(index) for index in range(self.profiles.count()))
        return tuple(item.text() for item in items if item.checkState() is Qt.CheckState.Checked)

    def show_fault(self, text: str) -> None:
        """Say why it cannot start; an empty text takes that back."""
        self._fault.setText(text)
        self._fault.setVisible(bool(text))
        self._start.setEnabled(True)

    def _keys(self) -> tuple[str, ...]:
        """The inputs that a row fills."""
        if self._by_flow.isChecked():
            index = self.flow.currentIndex()
            return self._inputs_of(self._flows[index]) if 0 <= index < len(self._flows) else ()
        try:
            spec = prompt_flow(self.prompt.toPlainText() or "-", self.system.toPlainText())
        except ComparisonError:
            return ()
        return tuple(item.key for item in spec.inputs)

    def _inputs_of(self, choice: FlowChoice) -> tuple[str, ...]:
        if choice.source not in self._inputs:
            self._inputs[choice.source] = choice.inputs()
        return self._inputs[choice.source]

    def _follow(self) -> None:
        """Show the fields that what was chosen has."""
        by_prompt, typed = self._by_prompt.isChecked(), self._typed.isChecked()
        for widget, shown in (
            (self.system, by_prompt),
            (self.prompt, by_prompt),
            (self.flow, not by_prompt),
            (self.category, not by_prompt),
            (self.rows, typed),
            (self.dataset, not typed),
        ):
            self._form.setRowVisible(widget, shown)
        expected = tuple(key for key in self.graders.columns() if key)
        self.rows.set_columns(tuple(dict.fromkeys((*self._keys(), *expected))))
        count = len(self.chosen_profiles)
        said = self.tr("%1 chosen, 2 to 8 are needed").replace("%1", str(count))
        fits = LEAST_PROFILES <= count <= MOST_PROFILES
        self._chosen.setText(self.tr("%1 chosen").replace("%1", str(count)) if fits else said)
        self.show_fault("")

    def _submit(self) -> None:
        fault = self._fault_of()
        self.show_fault(fault)
        if fault:
            return
        self._start.setEnabled(False)
        by_flow, typed = self._by_flow.isChecked(), self._typed.isChecked()
        self.submitted.emit(
            Setup(
                prompt="" if by_flow else self.prompt.toPlainText(),
                system="" if by_flow else self.system.toPlainText(),
                flow=self._flows[self.flow.currentIndex()].source if by_flow else "",
                profiles=self.chosen_profiles,
                category=str(self.category.currentData() or "") if by_flow else "",
                repeats=self.repeats.value(),
                rows=self.rows.values() if typed else (),
                dataset=None if typed else Path(self.dataset.line.text().strip()),
                graders=self.graders.graders(),
            )
        )

    def _fault_of(self) -> str:
        count = len(self.chosen_profiles)
        if self._by_prompt.isChecked() and not self.prompt.toPlainText().strip():
            return self.tr("The prompt is empty.")
        if self._by_flow.isChecked() and self.flow.currentIndex() < 0:
            return self.tr("There is no flow to compare.")
        if not LEAST_PROFILES <= count <= MOST_PROFILES:
            return self.tr("Found %1 profiles, expected 2 to 8.").replace("%1", str(count))
        if self._from_file.isChecked() and not self.dataset.line.text().strip():
            return self.tr("Choose the file of the dataset.")
        return self.graders.fault()

    def _restyle(self) -> None:
        self.resize(QSize(theme.px(640), theme.px(680)))
        self.profiles.setFixedHeight(theme.px(150))
        self.system.setFixedHeight(theme.px(56))
        self.prompt.setFixedHeight(theme.px(104))
        self.rows.setFixedHeight(theme.px(150))
        for label, color in ((self._chosen, "muted"), (self._fault, "err")):
            label.setFont(theme.font(12))
            palette = label.palette()
            palette.setColor(label.foregroundRole(), theme.color(color))
            label.setPalette(palette)
