"""A check box that stands for an action: what one does, the other shows."""

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCheckBox, QWidget

from workbench.theme import theme


class ActionBox(QCheckBox):
    """Checked and enabled as its action is; a click triggers it."""

    def __init__(self, action: QAction, parent: QWidget) -> None:
        super().__init__(action.text().replace("&", ""), parent)
        self._action = action
        self.setAccessibleName(self.text())
        self.clicked.connect(action.trigger)
        action.changed.connect(self._follow)
        theme.changed.connect(self._restyle)
        self._follow()
        self._restyle()

    def _follow(self) -> None:
        self.setChecked(self._action.isChecked())
        self.setEnabled(self._action.isEnabled())
        self.setToolTip(self._action.toolTip())

    def _restyle(self) -> None:
        self.setFont(theme.font(12))
        margin = theme.px(6)
        self.setContentsMargins(margin, 0, margin, 0)
