"""What the window does with the embedded server: start, stop, another model file, and its state in the status bar."""

import logging
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QMenu

from engine import Engine, LocalModelError, ServerState, ServerStatus
from workbench.error_presenter import error_banner
from workbench.main_window import MainWindow
from workbench.settings import Settings
from workbench.tasks import Tasks
from workbench.widgets.banner import Banner, BannerButton

logger = logging.getLogger(__name__)

COLORS = {
    ServerState.STOPPED: "muted",
    ServerState.STARTING: "run",
    ServerState.READY: "ok",
    ServerState.FAILED: "err",
    ServerState.STOPPING: "muted",
}


class LocalModel(QObject):
    """The embedded server in the window."""

    banner_made = Signal(Banner)

    def __init__(self, window: MainWindow, engine: Engine, settings: Settings, tasks: Tasks) -> None:
        super().__init__(window)
        self._window = window
        self._server = engine.server
        self._settings = settings
        self._tasks = tasks
        actions = window.actions_by_id
        actions["server_start"].triggered.connect(lambda: tasks.start(self._server.ensure()))
        actions["server_stop"].triggered.connect(lambda: tasks.start(self._server.stop()))
        actions["server_file"].triggered.connect(self.choose_file)
        menu = QMenu(window)
        menu.addActions([actions[name] for name in ("server_start", "server_stop", "server_file")])
        window.status.set_server_menu(menu)
        self.stop_listening = self._server.on_state(self.show)
        self.show(self._server.status)

    def begin(self) -> None:
        """Get the model ready, if there is one."""
        if self._server.find_model() is not None:
            self._tasks.start(self._server.ensure())

    def show(self, status: ServerStatus) -> None:
        """Tell the state of the server; what went wrong as a banner."""
        words = {
            ServerState.STOPPED: self.tr("Embedded model stopped"),
            ServerState.STARTING: self.tr("Embedded model starting"),
            ServerState.READY: self.tr("Embedded model ready"),
            ServerState.FAILED: self.tr("Embedded model failed"),
            ServerState.STOPPING: self.tr("Embedded model stopping"),
        }
        self._window.status.show_server(words[status.state], COLORS[status.state], status.text)
        running = status.state in (ServerState.STARTING, ServerState.READY)
        self._window.actions_by_id["server_start"].setEnabled(not running)
        self._window.actions_by_id["server_stop"].setEnabled(running)
        if status.error is not None:
            self._tell(status.error)

    def choose_file(self) -> None:
        """Ask for a model file, and serve it."""
        dialog = QFileDialog(self._window, self.tr("Choose a model file"), "", self.tr("GGUF models (*.gguf)"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda name: self._tasks.start(self.serve(Path(name))))
        dialog.open()

    async def serve(self, file: Path) -> None:
        """Serve this file from now on; one that is no model changes nothing and is told."""
        try:
            await self._server.choose_model(file)
        except LocalModelError as error:
            # Nothing has changed: say so before saying what to choose instead.
            hint = self.tr("The model that was in use stays in use. %1").replace("%1", error.hint)
            self._tell(LocalModelError(error.message, hint=hint, facts=error.facts))
            return
        self._settings.model_file = str(file)
        await self._server.ensure()

    def _tell(self, error: LocalModelError) -> None:
        logger.warning("%s", error)
        choose = BannerButton(self.tr("Choose a model file…"), self.choose_file)
        self.banner_made.emit(error_banner(error, [choose]))
