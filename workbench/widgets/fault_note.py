"""What is wrong with a field, below it: an icon and a sentence."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from workbench.text_format import visible_text
from workbench.theme import theme
from workbench.widgets.icon_label import IconLabel


class FaultNote(QWidget):
    """Hidden while there is nothing to say. Its parts are made when there first is: most fields have no fault."""

    def __init__(self, parent: QWidget | None) -> None:
        super().__init__(parent)
        self._shown = ("", False)
        self._parts: tuple[IconLabel, QLabel] | None = None
        self.hide()

    @property
    def text(self) -> str:
        """What it says; empty when hidden."""
        return self._shown[0]

    def show_fault(self, text: str, *, is_warning: bool = False) -> None:
        """Say this, or nothing."""
        if (text, is_warning) == self._shown:
            return
        self._shown = (text, is_warning)
        if text:
            if self._parts is None:
                self._parts = self._build()
            icon, words = self._parts
            icon.show_icon(*(("warning", "warn") if is_warning else ("error", "err")))
            words.setText(visible_text(text))
            self._restyle()
        self.setVisible(bool(text))

    def _build(self) -> tuple[IconLabel, QLabel]:
        icon, words = IconLabel("error", "err", 14, self), QLabel(self)
        words.setWordWrap(True)
        words.setTextFormat(Qt.TextFormat.PlainText)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, theme.px(2), 0, theme.px(2))
        row.setSpacing(theme.px(6))
        row.addWidget(icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(words, 1)
        theme.changed.connect(self._restyle)
        return icon, words

    def _restyle(self) -> None:
        if self._parts is not None:
            words = self._parts[1]
            words.setFont(theme.font(12))
            words.setStyleSheet(f"color: {theme.hex('warn' if self._shown[1] else 'err')};")


def mark_invalid(field: QWidget, invalid: bool) -> None:
    """Give a field the border of one that has a fault, or take it away."""
    before = field.property("invalid")
    value = "true" if invalid else "false"
    if before == value or (before is None and not invalid):
        return
    field.setProperty("invalid", value)
    field.style().unpolish(field)
    field.style().polish(field)
