"""How the window looks."""

from PySide6.QtCore import QCoreApplication, QSignalBlocker
from PySide6.QtWidgets import QComboBox, QWidget

from workbench.appearance import Appearance
from workbench.settings_dialog.page import Page
from workbench.theme import DARK, LARGEST_ZOOM, LIGHT, SMALLEST_ZOOM, SYSTEM, theme
from workbench.widgets.elided import ElidedComboBox


class AppearancePage(Page):
    """Colours, text size, motion."""

    def __init__(self, appearance: Appearance, parent: QWidget) -> None:
        super().__init__(QCoreApplication.translate("AppearancePage", "Appearance"), parent)
        self._appearance = appearance
        self.scheme = self._choice(self.tr("Colours"))
        for name, text in (
            (SYSTEM, self.tr("As the system")),
            (DARK, self.tr("Dark")),
            (LIGHT, self.tr("Light")),
        ):
            self.scheme.addItem(text, name)
        self.scheme.activated.connect(lambda index: appearance.set_theme(self.scheme.itemData(index)))
        self.zoom = self._choice(self.tr("Text size"))
        for percent in range(round(SMALLEST_ZOOM * 100), round(LARGEST_ZOOM * 100) + 1, 10):
            self.zoom.addItem(f"{percent} %", percent)
        self.zoom.activated.connect(lambda index: appearance.set_zoom(self.zoom.itemData(index) / 100))
        self.add_row(self.tr("Colours"), self.scheme)
        self.add_row(self.tr("Text size"), self.zoom, hint=self.tr("Rows, icons and the canvas grow with it."))
        self.motion = self.add_box(
            self.tr("Reduce motion"), appearance.set_reduced_motion, self.tr("Nothing on screen moves by itself.")
        )
        appearance.changed.connect(self._show)
        self.finish()
        self._show()

    def _choice(self, name: str) -> QComboBox:
        choice = ElidedComboBox(self)
        choice.setAccessibleName(name)
        choice.setMinimumContentsLength(14)
        return choice

    def _show(self) -> None:
        with QSignalBlocker(self.scheme), QSignalBlocker(self.zoom):
            self.scheme.setCurrentIndex(self.scheme.findData(theme.preference))
            self.zoom.setCurrentIndex(self.zoom.findData(round(theme.zoom * 10) * 10))
        self.motion.setChecked(theme.reduced_motion)
