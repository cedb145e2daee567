"""What the Help menu does."""

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication

from engine import Engine
from engine.folders import Folders
from workbench.main_window import MainWindow
from workbench.widgets.banner import Banner, Message


class HelpMenu(QObject):
    """Connects its actions."""

    banner_made = Signal(object)
    """A Banner to show."""

    def __init__(self, window: MainWindow, engine: Engine, folders: Folders) -> None:
        super().__init__(window)
        self._window = window
        self._engine = engine
        self._folders = folders
        handlers = {
            "documentation": self._read,
            "shortcuts": self._show_shortcuts,
            "open_log": self.open_log,
            "copy_diagnostics": self._copy_diagnostics,
            "about": self._show_about,
        }
        for action_id, handler in handlers.items():
            window.actions_by_id[action_id].triggered.connect(lambda _checked=False, run=handler: run())

    def open_log(self) -> None:
        """Open the log file, or the Log dock where there is none."""
        if self._folders.log.is_file():
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folders.log)))
        else:
            self._window.show_dock("log")

    # What is asked for now and then is loaded when it is: the window opens sooner.

    def _show_shortcuts(self) -> None:
        from workbench.shortcuts import Shortcuts

        Shortcuts(self._window.actions_by_id, self._window).open()

    def _show_about(self) -> None:
        from workbench.about import About

        About(self._folders, self._window).open()

    def _read(self) -> None:
        from workbench.documentation import Documentation, documentation_folder, pages

        folder = documentation_folder()
        if folder is None:
            title = self.tr("The documentation did not come with this copy.")
            text = self.tr("It is in the folder docs of the source distribution.")
            self.banner_made.emit(Banner(Message(kind="accent", title=title, text=text)))
            return
        Documentation(pages(folder), self._window).show()

    def _copy_diagnostics(self) -> None:
        from workbench.diagnostics import diagnostics_text

        QGuiApplication.clipboard().setText(diagnostics_text(self._engine, self._folders))
        self._window.status.show_note(self.tr("Diagnostics copied"))
