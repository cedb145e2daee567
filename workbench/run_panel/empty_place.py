"""What stands where nothing is yet: an icon, a sentence, the next action."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from workbench.run_panel.labels import IconLabel
from workbench.theme import theme


class EmptyPlace(QWidget):
    """No run yet."""

    run_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        icon = IconLabel("run", "muted", 32, self)
        self._title = QLabel(self.tr("No run yet"), self)
        self._text = QLabel(
            self.tr("Press Run, and answers appear here word by word,\nwith prompt, cost and trace of every step."),
            self,
        )
        self.button = QPushButton(self.tr("Run"), self)
        self.button.setProperty("primary", False)
        self.button.clicked.connect(self.run_requested)
        layout = QVBoxLayout(self)
        layout.setSpacing(theme.px(8))
        layout.addStretch(1)
        for widget in (icon, self._title, self._text, self.button):
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(1)
        self._text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        for label, font, color in ((self._title, theme.font(15, 600), "text"), (self._text, theme.font(13), "text2")):
            label.setFont(font)
            palette = label.palette()
            palette.setColor(label.foregroundRole(), theme.color(color))
            label.setPalette(palette)
        self.button.setIcon(theme.icon("run", 14, "on.fill"))
        self.button.setIconSize(QSize(theme.px(14), theme.px(14)))
