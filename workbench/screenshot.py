"""A picture of the window, drawn offscreen."""

import asyncio
from pathlib import Path

from PySide6.QtCore import QEvent, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

from engine import Engine, LoadedFlow, ProfileStore, RunHistory
from engine.folders import Folders
from workbench.app import log_qt, make_application
from workbench.desk import Desk
from workbench.event_loop import run_application
from workbench.log_dock import QtLogHandler
from workbench.main_window import MainWindow
from workbench.settings import Settings
from workbench.theme import theme


def take(loaded: LoadedFlow, output: Path, scheme: str, size: tuple[int, int], run: str, folders: Folders) -> int:
    """Draw the window with a flow, or with a recorded run, into a PNG; the exit status."""
    app = make_application()
    # The offscreen platform notes what it cannot do; that is no news for a terminal.
    qInstallMessageHandler(log_qt)
    theme.reduced_motion = True
    theme.install(scheme)
    return run_application(app, _take(app, loaded, output, size, run, folders))


async def _take(
    app: QApplication, loaded: LoadedFlow, output: Path, size: tuple[int, int], run: str, folders: Folders
) -> int:
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        # The person's own settings and recovery files must neither show nor change.
        scratch = Folders(Path(temporary))
        window = MainWindow(QtLogHandler())
        engine = Engine(profiles=ProfileStore(folders.profiles), history=RunHistory(folders.history))
        desk = Desk(window, engine, Settings(scratch.settings), scratch)
        window.resize(*size)
        window.arrange()
        window.show()
        try:
            if run:
                await _show_run(desk, engine, run)
            else:
                desk.documents.add(loaded, loaded.spec.name, None)
            desk.overview.refresh_lists()
            await _settle(app)
            output.parent.mkdir(parents=True, exist_ok=True)
            saved = window.grab().save(str(output), "PNG")
        finally:
            await desk.shut_down()
            await engine.close()
            window.allow_close()
            window.close()
            window.deleteLater()
    if not saved:
        print(f"error: {output} cannot be written.")  # noqa: T201
    return 0 if saved else 1


async def _show_run(desk: Desk, engine: Engine, run: str) -> None:
    history = engine.history
    assert history is not None  # noqa: S101 - this module made it
    if run == "last":
        rows = await history.runs(1)
        run = rows[0].id if rows else run
    await desk.overview.open_run(run)


async def _settle(app: QApplication) -> None:
    """Let layouts, timers and the first paint happen."""
    for _ in range(20):
        app.sendPostedEvents(None, QEvent.Type.LayoutRequest)
        await asyncio.sleep(0.03)
