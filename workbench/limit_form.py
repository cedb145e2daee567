"""The question before an agent is asked again with a higher limit of tokens."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from workbench.text_format import visible_text
from workbench.theme import theme

MOST_TOKENS = 999_999_999


class LimitForm(QDialog):
    """`open` it and wait for `chosen`; twice the present limit is offered."""

    chosen = Signal(int)
    """The limit, in tokens."""

    def __init__(self, agent: str, limit: int, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setModal(True)
        self.setWindowTitle(self.tr("Retry with a higher limit"))
        text = self.tr(
            "%1 is asked again with what it had, and the run goes on from there. The limit stays in the flow."
        )
        words = QLabel(visible_text(text.replace("%1", agent)))
        words.setTextFormat(Qt.TextFormat.PlainText)
        words.setWordWrap(True)
        self.limit = QSpinBox(self)
        self.limit.setRange(1, MOST_TOKENS)
        self.limit.setValue(min(MOST_TOKENS, 2 * limit))
        self.limit.setGroupSeparatorShown(True)
        self.limit.setSuffix(self.tr(" tokens"))
        self.limit.setAccessibleName(self.tr("Max tokens"))
        self.limit.selectAll()
        form = QFormLayout()
        form.addRow(self.tr("&Max tokens"), self.limit)
        now = QLabel(self.tr("now %1").replace("%1", f"{limit:,}"))
        now.setProperty("role", "muted")
        form.addRow("", now)
        buttons = QDialogButtonBox(self)
        run = QPushButton(self.tr("Run from here"), buttons)
        run.setProperty("primary", "true")
        run.setDefault(True)
        buttons.addButton(run, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        buttons.accepted.connect(self._submit)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(theme.px(16),) * 4)
        layout.setSpacing(theme.px(12))
        layout.addWidget(words)
        layout.addLayout(form)
        layout.addWidget(buttons)
        self.resize(theme.px(420), self.sizeHint().height())

    def _submit(self) -> None:
        self.chosen.emit(self.limit.value())
        self.accept()
