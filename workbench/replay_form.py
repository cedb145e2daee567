"""The dialog before a replay: what is on the tape, and how fast it is played."""

from datetime import datetime

from PySide6.QtCore import QLocale, Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QDialog,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from engine import RecordedTape
from workbench.text_format import visible_text, when_text
from workbench.theme import theme

SPEEDS = (1.0, 4.0, 20.0, 0.0)
"""As for `Engine.replaying`."""


class ReplayForm(QDialog):
    """`open` it and wait for `chosen`."""

    chosen = Signal(float)
    """The speed."""
    other_wanted = Signal()
    """The person wants another tape."""

    def __init__(self, tape: RecordedTape, name: str, parent: QWidget) -> None:
        """Tell of a tape; `name` says where the answers come from."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setModal(True)
        self.setWindowTitle(self.tr("Replay a wire tape"))
        self.speeds: dict[float, QRadioButton] = {}
        self._group = QButtonGroup(self)
        flow = self._label(visible_text(tape.start.flow or tape.path.name), 13, 600)
        about = self._label(self._about(tape), 12, 400)
        note = self._label(
            self.tr("The answers come from %1. No model is called, no tool runs, nothing is paid.").replace("%1", name),
            12,
            400,
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(theme.px(16),) * 4)
        layout.setSpacing(theme.px(12))
        head = QVBoxLayout()
        head.setSpacing(theme.px(4))
        for label in (flow, about):
            head.addWidget(label)
        layout.addLayout(head)
        layout.addWidget(note)
        layout.addLayout(self._speed_row())
        layout.addStretch(1)
        layout.addLayout(self._button_row())
        self.setMinimumWidth(theme.px(460))
        self._play.setFocus()

    def _label(self, text: str, size: float, weight: int) -> QLabel:
        label = QLabel(text, self)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        label.setFont(theme.font(size, weight))
        return label

    def _about(self, tape: RecordedTape) -> str:
        """When it was recorded, how many calls are on it, and whether it is whole."""
        count = sum(not call.known for call in tape.calls)
        calls = self.tr("1 call") if count == 1 else self.tr("%1 calls").replace("%1", QLocale().toString(count))
        parts = [self.tr("recorded %1").replace("%1", recorded_text(tape)), calls]
        if tape.end is None:
            parts.append(self.tr("it breaks off before the run ended"))
        return visible_text(", ".join(parts))

    def _speed_row(self) -> QHBoxLayout:
        words = {
            1.0: self.tr("&Real time"),
            4.0: self.tr("×&4"),
            20.0: self.tr("×&20"),
            0.0: self.tr("&At once"),
        }
        row = QHBoxLayout()
        row.setSpacing(theme.px(16))
        label = QLabel(self.tr("Speed"), self)
        row.addWidget(label)
        for speed in SPEEDS:
            button = self.speeds[speed] = QRadioButton(words[speed], self)
            self._group.addButton(button)
            row.addWidget(button)
        self.speeds[1.0].setChecked(True)
        row.addStretch(1)
        return row

    def _button_row(self) -> QHBoxLayout:
        other = QPushButton(self.tr("&Other tape…"), self)
        other.setAutoDefault(False)
        other.clicked.connect(self._choose_other)
        cancel = QPushButton(self.tr("Cancel"), self)
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        self._play = QPushButton(self.tr("Replay"), self)
        self._play.setProperty("primary", "true")
        self._play.setDefault(True)
        self._play.clicked.connect(self._submit)
        row = QHBoxLayout()
        row.addWidget(other)
        row.addStretch(1)
        row.addWidget(cancel)
        row.addWidget(self._play)
        return row

    def _choose_other(self) -> None:
        self.reject()
        self.other_wanted.emit()

    def _submit(self) -> None:
        speed = next(speed for speed, button in self.speeds.items() if button.isChecked())
        self.accept()
        self.chosen.emit(speed)


def recorded_text(tape: RecordedTape) -> str:
    """When a tape was recorded, in local time."""
    try:
        return when_text(datetime.fromisoformat(tape.start.recorded).timestamp())
    except ValueError:
        return visible_text(tape.start.recorded)
