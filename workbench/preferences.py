"""What a person sets: looks, keys and the options of the engine, and the dialog that shows them."""

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QDesktopServices

from engine import Engine
from engine.folders import Folders
from workbench.alarm_banners import AlarmBanners
from workbench.appearance import Appearance
from workbench.engine_options import EngineOptions
from workbench.key_bindings import KeyBindings
from workbench.main_window import MainWindow
from workbench.settings import Settings
from workbench.tasks import Tasks


class Preferences(QObject):
    """Applies what was set before, and opens the settings."""

    def __init__(
        self,
        window: MainWindow,
        engine: Engine,
        settings: Settings,
        folders: Folders,
        options: EngineOptions,
        tasks: Tasks,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self._folders = folders
        self._options = options
        self._tasks = tasks
        actions = window.actions_by_id
        self.appearance = Appearance(actions, settings, self)
        self.keys = KeyBindings(actions, settings, self)
        self.alarms = AlarmBanners(options, self)
        self.alarms.settings_wanted.connect(lambda: self.show_settings("alarms"))
        actions["settings"].triggered.connect(lambda: self.show_settings())
        actions["data_folder"].triggered.connect(lambda: self._show_data_folder())

    def show_settings(self, page: str = "") -> None:
        """Show the settings beside the window, or bring them to the front; `page` is one of SettingsDialog.by_name."""
        from workbench.settings_dialog.dialog import SettingsDialog

        dialog = self._window.findChild(SettingsDialog)
        if dialog is None:
            dialog = SettingsDialog(
                self._engine,
                self._options,
                self.appearance,
                self._folders,
                self._window.actions_by_id,
                self.keys,
                self._tasks,
                self._window,
            )
        if page:
            dialog.show_page(dialog.by_name[page])
        dialog.show()
        dialog.raise_()
        dialog.activateWindow()

    def _show_data_folder(self) -> None:
        self._folders.root.mkdir(parents=True, exist_ok=True)
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folders.root)))
