"""The button that copies what the run panel shows."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QToolButton, QWidget

from workbench.theme import theme


class CopyButton(QToolButton):
    """Says what it does and takes the colours of the theme."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setToolTip(self.tr("Copy what is shown, whole"))
        self.setAccessibleName(self.tr("Copy"))
        theme.changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self.setIcon(theme.icon("copy", 16))
        self.setIconSize(QSize(theme.px(16), theme.px(16)))
