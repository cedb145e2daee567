"""A picture of the window, drawn offscreen."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QEvent, QPoint, QRect, qInstallMessageHandler
from PySide6.QtGui import QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QWidget

from engine import Engine, LoadedFlow
from engine.flow.subflow_files import SAMPLE, origin_path
from engine.folders import Folders
from workbench.app import log_qt, make_application
from workbench.desk import Desk
from workbench.event_loop import run_application
from workbench.log_dock import QtLogHandler
from workbench.main_window import MainWindow
from workbench.pages import pages
from workbench.settings import Settings
from workbench.theme import theme

WRONG = 2
"""Exit status of what was asked for wrongly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """What to draw."""

    output: Path
    scheme: str
    """`dark` or `light`."""
    size: tuple[int, int]
    """Width and height in px."""
    zoom: float = 1.0
    """Of all text."""
    run: str = ""
    """The recorded run on show; `last` is the newest, empty: none."""
    page: str = "flow"
    """The view in front (pages.py)."""


@dataclass(frozen=True, slots=True)
class _Untouched(Folders):
    """The person's data, but for settings and unsaved versions, which must neither show nor change."""

    scratch: Path

    @property
    def settings(self) -> Path:
        """No settings."""
        return self.scratch / "settings.ini"

    @property
    def recovery(self) -> Path:
        """Nothing unsaved."""
        return self.scratch / "recovery"

    @property
    def versions(self) -> Path:
        """No saved versions."""
        return self.scratch / "versions"


def take(loaded: LoadedFlow, shot: Shot, folders: Folders) -> int:
    """Draw the window with a flow, or with a recorded run, into a PNG; the exit status."""
    app = make_application()
    # The offscreen platform notes what it cannot do; that is no news for a terminal.
    qInstallMessageHandler(log_qt)
    theme.reduced_motion = True
    theme.install(shot.scheme, shot.zoom)
    return run_application(app, _take(app, loaded, shot, folders))


async def _take(app: QApplication, loaded: LoadedFlow, shot: Shot, folders: Folders) -> int:
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        own = _Untouched(folders.root, Path(temporary))
        window = MainWindow(QtLogHandler())
        engine = Engine.on_folders(folders)
        desk = Desk(window, engine, Settings(own.settings), own)
        window.resize(*shot.size)
        window.arrange()
        window.show()
        try:
            if shot.run:
                await _show_run(desk, engine, shot.run)
            else:
                desk.documents.add(loaded, loaded.origin.removeprefix(SAMPLE), origin_path(loaded.origin))
            await desk.overview.read_lists()
            await _settle(app)
            known = pages(desk)
            if shot.page not in known:
                names = ", ".join(sorted(known))
                print(f'error: --page: found "{shot.page}", expected one of {names}.', file=sys.stderr)  # noqa: T201
                return WRONG
            known[shot.page](desk)
            await _settle(app)
            shot.output.parent.mkdir(parents=True, exist_ok=True)
            saved = whole(window).save(str(shot.output), "PNG")
        finally:
            await desk.shut_down()
            await engine.close()
            window.allow_close()
            window.close()
            window.deleteLater()
    if not saved:
        print(f"error: {shot.output} cannot be written.", file=sys.stderr)  # noqa: T201
    return 0 if saved else 1


def whole(window: QWidget) -> QPixmap:
    """The window with the dialogs and menus before it, each with the frame a desktop would give it."""
    picture = window.grab()
    painter = QPainter(picture)
    for other in QApplication.topLevelWidgets():
        if other is window or not other.isVisible():
            continue
        place = window.mapFromGlobal(other.mapToGlobal(QPoint(0, 0)))
        painter.drawPixmap(place, other.grab())
        painter.setPen(theme.color("line.strong"))
        painter.drawRect(QRect(place, other.size()).adjusted(-1, -1, 0, 0))
    painter.end()
    return picture


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
