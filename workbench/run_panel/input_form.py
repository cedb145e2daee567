"""The form that asks for a flow's inputs before a run."""

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from engine.flow.flow_spec import FlowSpec
from workbench.theme import theme
from workbench.widgets.input_fields import InputFields, default_text


class InputForm(QDialog):
    """Asks for the inputs; `open` it and wait for `submitted`."""

    submitted = Signal(dict, bool)
    """The texts typed, by key, and whether to run now."""

    def __init__(self, spec: FlowSpec, values: Mapping[str, str], parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("Inputs of %1").replace("%1", spec.name))
        self._spec = spec
        self._fields = InputFields(self)
        self._fields.show_inputs(spec.inputs, values)
        self._fields.values_changed.connect(self._check)
        scroll = QScrollArea(self)
        scroll.setWidgetResizable(True)
        holder = QWidget(scroll)
        inner = QVBoxLayout(holder)
        inner.addWidget(self._fields)
        inner.addStretch(1)
        scroll.setWidget(holder)
        self._message = QLabel(self)
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
        layout.addWidget(scroll, 1)
        layout.addLayout(buttons)
        self.resize(theme.px(520), theme.px(420))
        self._check()
        missing = self._fields.missing()
        if missing:
            self._fields.focus_key(missing[0])
        else:
            self._run.setFocus()

    def _reset(self) -> None:
        self._fields.show_inputs(self._spec.inputs, {spec.key: default_text(spec) for spec in self._spec.inputs})
        self._check()

    def _check(self) -> None:
        missing = self._fields.missing()
        self._run.setEnabled(not missing)
        needed = self.tr("Still needed: %1").replace("%1", ", ".join(missing))
        self._message.setText(needed if missing else "")

    def _submit(self, *, run: bool) -> None:
        self.submitted.emit(self._fields.texts(), run)
        self.accept()
