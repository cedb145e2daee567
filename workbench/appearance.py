"""Colours, text size and motion of the window: what the View menu and the settings change, remembered."""

from PySide6.QtCore import QObject, Signal

from workbench.actions import Actions
from workbench.settings import Settings
from workbench.theme import DARK, LIGHT, SYSTEM, theme

ZOOM_STEP = 0.1


class Appearance(QObject):
    """Changes the theme and remembers it."""

    changed = Signal()
    """Something was chosen; also when nothing looks different for it."""

    def __init__(self, actions: Actions, settings: Settings, parent: QObject) -> None:
        super().__init__(parent)
        self._actions = actions
        self._settings = settings
        for preference in (SYSTEM, DARK, LIGHT):
            actions[f"theme_{preference}"].triggered.connect(lambda _=False, name=preference: self.set_theme(name))
        actions["theme_toggle"].triggered.connect(lambda: self.set_theme(LIGHT if theme.dark else DARK))
        actions["text_larger"].triggered.connect(lambda: self.set_zoom(theme.zoom + ZOOM_STEP))
        actions["text_smaller"].triggered.connect(lambda: self.set_zoom(theme.zoom - ZOOM_STEP))
        actions["text_reset"].triggered.connect(lambda: self.set_zoom(1.0))
        actions["reduced_motion"].triggered.connect(self.set_reduced_motion)
        self._show()

    def set_theme(self, preference: str) -> None:
        """Take `system`, `dark` or `light`."""
        self._settings.theme = preference
        theme.choose(preference)
        self._show()

    def set_zoom(self, zoom: float) -> None:
        """Show all text larger or smaller; 1.0 is 100 %."""
        theme.set_zoom(zoom)
        self._settings.zoom = theme.zoom
        self._show()

    def set_reduced_motion(self, reduced: bool) -> None:
        """Let nothing move by itself, or let it."""
        self._settings.reduced_motion = reduced
        theme.set_reduced_motion(reduced)
        self._show()

    def _show(self) -> None:
        for preference in (SYSTEM, DARK, LIGHT):
            self._actions[f"theme_{preference}"].setChecked(theme.preference == preference)
        self._actions["reduced_motion"].setChecked(theme.reduced_motion)
        self.changed.emit()
