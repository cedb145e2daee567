"""What the Help menu does."""

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication

from engine import Engine
from engine.folders import Folders
from workbench.about import About
from workbench.diagnostics import diagnostics_text
from workbench.documentation import Documentation, documentation_folder, pages
from workbench.main_window import MainWindow
from workbench.shortcuts import Shortcuts
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
            "shortcuts": lambda: Shortcuts(window.actions_by_id, window).open(),
            "open_log": self.open_log,
            "copy_diagnostics": self._copy_diagnostics,
            "about": lambda: About(folders, window).open(),
        }
        for action_id, handler in handlers.items():
            window.actions_by_id[action_id].triggered.connect(lambda _checked=False, run=handler: run())

    def open_log(self) -> None:
        """Open the log file, or the Log dock where there is none."""
        if self._folders.log.is_file():
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folders.log)))
        else:
            self._window.show_dock("log")

    def _read(self) -> None:
        folder = documentation_folder()
        if folder is None:
            title = self.tr("The documentation did not come with this copy.")
            text = self.tr("It is in the folder docs of the source distribution.")
            self.banner_made.emit(Banner(Message(kind="accent", title=title, text=text)))
            return
        Documentation(pages(folder), self._window).show()

    def _copy_diagnostics(self) -> None:
        QGuiApplication.clipboard().setText(diagnostics_text(self._engine, self._folders))
        self._window.status.show_note(self.tr("Diagnostics copied"))
