"""The form that edits the context of a branch that waits at a breakpoint."""

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine.flow.breakpoints import Waiting
from workbench.run_from_form import MOST_KEYS, ValueField
from workbench.run_panel.labels import Figures
from workbench.text_format import visible_text
from workbench.theme import theme


class PausedForm(QDialog):
    """One field a key of the branch that is chosen; *Apply* changes what the run goes on with."""

    def __init__(self, waiting: Sequence[Waiting], parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setModal(True)
        self.setWindowTitle(self.tr("Edit context"))
        self._waiting = waiting
        self._fields: list[ValueField] = []
        self.branch = QComboBox(self)
        self.branch.setAccessibleName(self.tr("Branch that waits"))
        self.branch.addItems([visible_text(" · ".join(filter(None, (one.agent, one.branch)))) for one in waiting])
        self.branch.setVisible(len(waiting) > 1)
        self.branch.currentIndexChanged.connect(self._show_keys)
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._message = Figures(12, 400, "err", self)
        buttons = QDialogButtonBox(self)
        self._apply = buttons.addButton(self.tr("Apply"), QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        buttons.accepted.connect(self._submit)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(self.branch)
        layout.addWidget(self._scroll, 1)
        layout.addWidget(self._message)
        layout.addWidget(buttons)
        self.resize(theme.px(520), theme.px(420))
        self._show_keys()

    def _show_keys(self) -> None:
        context = self._waiting[self.branch.currentIndex()].context
        holder = QWidget(self._scroll)
        form = QFormLayout(holder)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapAllRows)
        self._fields = []
        for key in list(context)[:MOST_KEYS]:
            value = ValueField(key, context[key], holder)
            value.textChanged.connect(self._check)
            form.addRow(QLabel(visible_text(key)), value)
            self._fields.append(value)
        if not self._fields:
            form.addRow(QLabel(self.tr("The context is empty.")))
        self._scroll.setWidget(holder)
        self._check()

    def field(self, key: str) -> ValueField:
        """The field of a key."""
        return next(one for one in self._fields if one.key == key)

    def _check(self) -> None:
        faults = [one.key for one in self._fields if one.is_edited and not _is_readable(one)]
        text = QCoreApplication.translate("PausedForm", "No JSON list: %1").replace("%1", ", ".join(faults))
        self._message.setText(visible_text(text) if faults else "")
        self._apply.setEnabled(not faults)

    def _submit(self) -> None:
        self._waiting[self.branch.currentIndex()].edit({one.key: one.values() for one in self._fields if one.is_edited})
        self.accept()


def _is_readable(field: ValueField) -> bool:
    try:
        field.values()
    except ValueError:
        return False
    return True
