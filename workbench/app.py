"""Builds the application: Qt, the loop, the engine, the window; and takes them down again in order."""

import gc
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QMessageLogContext, Qt, QtMsgType, qInstallMessageHandler
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from engine.folders import Folders
from workbench.error_presenter import LastResort
from workbench.log_dock import QtLogHandler, install_logging, remove_logging
from workbench.main_window import MainWindow
from workbench.settings import Settings
from workbench.theme import theme

if TYPE_CHECKING:
    from engine import Engine

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 7.0
"""From the decision to end to the end of the loop, at most."""

QT_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.DEBUG,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


def make_application() -> QApplication:
    """The QApplication with its name; call it once in a process."""
    QGuiApplication.setHighDpiScaleFactorRoundingPolicy(Qt.HighDpiScaleFactorRoundingPolicy.PassThrough)
    app = QApplication(sys.argv[:1])
    app.setApplicationName("Flow Workbench")
    app.setDesktopFileName("flow-workbench")
    app.setWindowIcon(theme.window_icon())
    app.setQuitOnLastWindowClosed(False)
    return app


def run_window(documents: Sequence[str], folders: Folders, *, offline: bool = False) -> int:
    """Open the window with these flows and stay until it is closed; the exit status."""
    app = make_application()
    qInstallMessageHandler(log_qt)
    settings = Settings(folders.settings)
    theme.reduced_motion = settings.reduced_motion
    theme.install(settings.theme, settings.zoom)
    log = QtLogHandler()
    last_resort = LastResort()
    last_resort.install()
    try:
        window = show_frame(settings, log)
        install_logging(log, folders.log)
        from workbench.event_loop import run_application

        return run_application(app, _live(documents, folders, settings, window, last_resort, offline))
    finally:
        last_resort.remove()
        remove_logging(log)


def show_frame(settings: Settings, log: QtLogHandler) -> MainWindow:
    """Put the window on the screen, where it was the last time, before anything slow is loaded."""
    window = MainWindow(log)
    available = window.screen().availableGeometry()
    window.resize(
        min(theme.px(1600), round(available.width() * 0.96)), min(theme.px(1000), round(available.height() * 0.92))
    )
    window.arrange()
    window.restore_layout(*settings.window())
    window.show()
    QApplication.processEvents()
    return window


def make_engine(folders: Folders, settings: Settings, *, offline: bool) -> "Engine":
    """The engine with what the settings say."""
    from engine import Engine

    model = Path(settings.model_file) if settings.model_file else None
    return Engine.on_folders(folders, offline=offline or settings.offline, model_file=model)


async def _live(
    documents: Sequence[str],
    folders: Folders,
    settings: Settings,
    window: MainWindow,
    last_resort: LastResort,
    offline: bool,
) -> int:
    """The life of the window, from what is loaded once it is seen to closing everything."""
    import asyncio

    from workbench.desk import Desk

    loop = asyncio.get_running_loop()
    last_resort.follow(loop)
    ended = loop.create_future()
    engine = make_engine(folders, settings, offline=offline)
    desk = Desk(window, engine, settings, folders)
    last_resort.error_caught.connect(desk.show_error)
    desk.quit_requested.connect(lambda: None if ended.done() else ended.set_result(None))

    def leave_on(number: signal.Signals) -> None:
        logger.info("Ending on %s", number.name)
        desk.leave()

    with suppress(NotImplementedError):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, leave_on, number)
    gc.enable()  # off since the program began to load
    desk.start(documents)
    try:
        await ended
    finally:
        window.allow_close()
        window.hide()
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await desk.shut_down()
                await engine.close()
        except TimeoutError:
            logger.error("Closing took longer than %s seconds; what is left is given up.", SHUTDOWN_SECONDS)
        # From here on there is only the log to tell errors to.
        last_resort.error_caught.disconnect(desk.show_error)
        window.close()
        window.deleteLater()
    return 0


def log_qt(kind: QtMsgType, _context: QMessageLogContext, message: str | None) -> None:
    """Qt's messages become log lines. What a platform without windows cannot do is no news for anybody."""
    level = logging.DEBUG if "plugin does not support" in (message or "") else QT_LEVELS[kind]
    logging.getLogger("qt").log(level, "%s", message)
