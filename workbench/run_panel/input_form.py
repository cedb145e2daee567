"""The form that asks for a flow's inputs before a run."""

from collections.abc import Callable, Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from engine.flow.flow_spec import FlowSpec
from workbench.run_panel.dataset_row import DatasetRow
from workbench.theme import theme
from workbench.widgets.elided import ElidedLabel
from workbench.widgets.fault_note import FaultNote
from workbench.widgets.input_fields import InputFields, default_text


class InputForm(QDialog):
    """Asks for the inputs; `open` it and wait for `submitted`."""

    submitted = Signal(dict, bool)
    """The texts typed, by key, and whether to run now."""

    def __init__(
        self, spec: FlowSpec, values: Mapping[str, str], plan: Callable[[Mapping[str, str]], str], parent: QWidget
    ) -> None:
        """Ask for the inputs of a flow; `plan` says in words what a run with some inputs is going to ask."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("Inputs of %1").replace("%1", spec.name))
        self._spec = spec
        self._fields = InputFields(self)
        self._fields.show_inputs(spec.inputs, values)
        self._fields.values_changed.connect(self._check)
        self.row = DatasetRow(self)
        self._row_fault = FaultNote(self)
        self.row.chosen.connect(self._take_row)
        self.row.failed.connect(self._row_fault.show_fault)
        scroll = QScrollArea(self)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        holder = QWidget(scroll)
        inner = QVBoxLayout(holder)
        inner.addWidget(self._fields)
        inner.addStretch(1)
        scroll.setWidget(holder)
        self._plan = plan
        self._message = ElidedLabel("", self)
        self._message.setProperty("role", "muted")
        reset = QPushButton(self.tr("Sample values"), self)
        reset.setAutoDefault(False)
        reset.clicked.connect(self._reset)
        cancel = QPushButton(self.tr("Cancel"), self)
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        keep = QPushButton(self.tr("Keep"), self)
        keep.setToolTip(self.tr("Keep these inputs without running"))
        keep.setAutoDefault(False)
        keep.clicked.connect(lambda: self._submit(run=False))
        self._run = QPushButton(self.tr("Run"), self)
        self._run.setProperty("primary", "true")
        self._run.setDefault(True)
        self._run.clicked.connect(lambda: self._submit(run=True))
        buttons = QHBoxLayout()
        buttons.addWidget(reset)
        buttons.addWidget(self._message, 1)
        for button in (cancel, keep, self._run):
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(theme.px(16),) * 4)
        layout.setSpacing(theme.px(12))
        layout.addWidget(self.row)
        layout.addWidget(self._row_fault)
        layout.addWidget(scroll, 1)
        layout.addLayout(buttons)
        self.resize(theme.px(560), theme.px(460))
        self._check()
        missing = self._fields.missing()
        if missing:
            self._fields.focus_key(missing[0])
        else:
            self._run.setFocus()

    def _reset(self) -> None:
        self._fields.show_inputs(self._spec.inputs, {spec.key: default_text(spec) for spec in self._spec.inputs})
        self._check()

    def _take_row(self, values: Mapping[str, str]) -> None:
        """Put the columns that are inputs into their fields; the other fields stay."""
        keys = [spec.key for spec in self._spec.inputs if spec.key in values]
        if not keys:
            fault = self.tr("No column is one of the inputs: found %1, expected one of %2.")
            expected = ", ".join(spec.key for spec in self._spec.inputs)
            self._row_fault.show_fault(fault.replace("%2", expected).replace("%1", ", ".join(values)))
            return
        self._fields.show_inputs(self._spec.inputs, self._fields.texts() | {key: values[key] for key in keys})
        self._check()

    def _check(self) -> None:
        missing, invalid = self._fields.missing(), self._fields.invalid()
        self._run.setEnabled(not (missing or invalid))
        if missing:
            text = self.tr("Still needed: %1").replace("%1", ", ".join(missing))
        elif invalid:
            text = self.tr("To be mended: %1").replace("%1", ", ".join(invalid))
        else:
            text = self._plan(self._fields.texts())
        self._message.setText(text)

    def _submit(self, *, run: bool) -> None:
        self.submitted.emit(self._fields.texts(), run)
        self.accept()
