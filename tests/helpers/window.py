"""The real window over the real engine in a data folder of its own, driven by mouse and keyboard as a person would."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QMessageBox, QTabBar, QWidget

from engine import EmbeddedServer, Engine, EngineSettings, ProfileStore, RunHistory, SqliteCache
from engine.flow_access import FlowAccess
from engine.folders import Folders
from engine.prompt_library import PromptLibrary
from engine.trust import TrustStore
from tests.helpers.fake_server import Answer, FakeServer, Received
from tests.helpers.model_answers import write_profile
from tests.helpers.qt_loop import until
from workbench.desk import Desk
from workbench.flow_tab import FlowTab
from workbench.log_dock import QtLogHandler
from workbench.main_window import MainWindow
from workbench.settings import Settings
from workbench.theme import DARK, theme
from workbench.widgets.banner import Banner

W = TypeVar("W", bound=QWidget)

SECONDS = 40.0
"""How long a condition may take on a busy machine; on a quiet one it holds after a few milliseconds."""


class NoModel(EmbeddedServer):
    """The embedded server on a machine without a model: the window does not start it by itself."""

    def find_model(self) -> Path | None:
        return None


@dataclass
class Workbench:
    """The window at work, with hands and eyes."""

    window: MainWindow
    desk: Desk
    engine: Engine
    folders: Folders
    settings: Settings
    quits: list[bool]
    """One entry once the desk wants to end the application."""

    @property
    def tab(self) -> FlowTab:
        """The flow in front."""
        tab = self.desk.documents.current
        assert tab is not None, "no flow is open"
        return tab

    @property
    def banners(self) -> list[Banner]:
        """The banners over the documents, oldest first; only the newest is shown until a count opens the rest."""
        return self.window.banners.banners[::-1]

    def banner_texts(self) -> list[str]:
        """What the banners say, each as it would be copied."""
        return [banner.copied for banner in self.banners]

    def card_state(self, agent: str) -> str:
        """What a run made of an agent, as its card shows it."""
        self.tab.editor._show_figures()  # the canvas follows ten times a second
        return str(self.tab.editor.scene.agents[agent].look.state)

    # -- hands --------------------------------------------------------------------------------------------------------

    def press(self, key: str, widget: QWidget | None = None) -> None:
        """Press a key combination as written in a menu (`F5`, `Ctrl+S`)."""
        QTest.keySequence(widget or QApplication.focusWidget() or self.window, key)

    def type_text(self, widget: QWidget, text: str) -> None:
        """Click into a field, choose all it has, and type."""
        self.click(widget)
        QTest.keySequence(widget, "Ctrl+A")
        QTest.keyClicks(widget, text)

    def click(self, widget: QWidget, pos: QPoint | None = None) -> None:
        """Click with the left button, in the middle unless said otherwise."""
        assert widget.isVisible(), f"{widget.objectName() or type(widget).__name__} cannot be seen"
        target = getattr(widget, "viewport", lambda: widget)()
        QTest.mouseClick(target, Qt.MouseButton.LeftButton, pos=pos or target.rect().center())

    def click_agent(self, name: str) -> None:
        """Click the card of an agent on the canvas."""
        view = self.tab.editor.view
        card = self.tab.editor.scene.agents[name].card_rect()
        place = view.mapFromScene(card.left() + card.width() / 2, card.top() + 14)
        assert view.viewport().rect().contains(place), f"the card of {name} is out of sight"
        self.click(view, place)

    def click_tab(self, bar: QTabBar, text: str) -> None:
        """Click the tab with this text."""
        index = next(index for index in range(bar.count()) if bar.tabText(index).replace("&", "") == text)
        self.click(bar, bar.tabRect(index).center())

    def trigger(self, action_id: str) -> None:
        """Trigger an action of the window."""
        self.window.actions_by_id[action_id].trigger()

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds."""
        await until(condition, SECONDS)

    async def saved(self) -> None:
        """Wait until the flow in front is saved, and the disk has nothing left to do for it."""
        await self.until(lambda: not self.tab.document.is_modified)
        await self.tab.document.settled()

    async def run_to_end(self) -> str:
        """Press F5 and wait for the end of the run; its status."""
        self.press("F5")
        assert self.tab.is_running
        return await self.run_end()

    async def shows(self, text: str) -> None:
        """Wait until the content pane shows exactly this, blanks at the ends aside."""
        pane = self.tab.panel.stream.content.text
        try:
            await self.until(lambda: pane.toPlainText().strip() == text)
        except TimeoutError:
            raise AssertionError(f"shown is {pane.toPlainText()!r}, not {text!r}") from None

    async def run_end(self) -> str:
        """Wait for the end of the run in front; its status."""
        tab = self.tab
        await self.until(lambda: not tab.is_running)
        return tab.progress.status

    async def dialog(self, kind: type[W]) -> W:
        """Wait for a dialog of this kind."""
        await self.until(lambda: isinstance(QApplication.activeModalWidget(), kind))
        found = QApplication.activeModalWidget()
        assert isinstance(found, kind)
        return found

    async def answer(self, text: str) -> str:
        """Press the button of the question on screen that says so; what the question says."""
        question = await self.dialog(QMessageBox)
        words = question.text()
        self.click(button(question, text))
        await self.reactivate()
        return words

    async def reactivate(self) -> None:
        """Give the focus back to the window after a dialog: without a window manager nobody else does."""
        await self.settle()
        self.window.activateWindow()
        await self.until(self.window.isActiveWindow)

    async def settle(self) -> None:
        """Let everything that is due happen."""
        for _ in range(5):
            await asyncio.sleep(0)
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


QT_OWN = ("ScrollLeftButton", "ScrollRightButton", "qt_toolbar_ext_button", "qt_dockwidget_floatbutton")
"""Names of parts of Qt's own widgets."""


def find_button(parent: QWidget, text: str) -> QAbstractButton | None:
    """The button with this text (mnemonics aside) or this accessible name, None when there is none to be seen."""
    for found in parent.findChildren(QAbstractButton):
        if text in (found.text().replace("&", ""), found.accessibleName()) and not found.isHidden():
            return found
    return None


def button(parent: QWidget, text: str) -> QAbstractButton:
    """The button with this text or accessible name; there must be one."""
    found = find_button(parent, text)
    names = [other.text() or other.accessibleName() for other in parent.findChildren(QAbstractButton)]
    assert found is not None, f"no button {text!r} among {names}"
    return found


def focusable(root: QWidget) -> Iterator[QWidget]:
    """All widgets inside that take the focus by keyboard; those of popups and dialogs aside."""
    for widget in root.findChildren(QWidget):
        takes_it = widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.focusProxy() is None
        if takes_it and widget.window() is root.window() and widget.objectName() not in QT_OWN:
            yield widget


@asynccontextmanager
async def opened(
    home: Path,
    documents: Sequence[str | Path] = (),
    *,
    server: EmbeddedServer | None = None,
    size: tuple[int, int] = (1600, 1000),
    started: bool = True,
    cache: bool = False,
) -> AsyncIterator[Workbench]:
    """The window on the data folder `home`, shown and started; afterwards it is closed as the application closes it.

    Answers are kept only with `cache`: without it, each run asks the server a test looks at.
    """
    if not theme.reduced_motion:
        theme.reduced_motion = True
        theme.install(DARK, 1.0)
    folders = Folders(home)
    settings = Settings(folders.settings)
    window = MainWindow(QtLogHandler())
    engine = Engine(
        profiles=ProfileStore(folders.profiles),
        server=server or NoModel(data_dir=home),
        history=RunHistory(folders.history),
        access=FlowAccess(TrustStore(home)),
        prompts=PromptLibrary(folders.prompts),
        cache=SqliteCache(folders.cache) if cache else None,
        settings=EngineSettings.load(folders.engine_settings),
    )
    desk = Desk(window, engine, settings, folders)
    quits: list[bool] = []
    desk.quit_requested.connect(lambda: quits.append(True))
    bench = Workbench(window, desk, engine, folders, settings, quits)
    window.resize(*size)
    window.show()
    window.activateWindow()
    try:
        if started:
            desk.start([str(document) for document in documents])
            window.resize(*size)
            window.arrange()
            await until(window.isActiveWindow, SECONDS)
            await until(lambda: window.explorer.items("flow"), SECONDS)
        yield bench
    finally:
        await desk.shut_down()
        await engine.close()
        window.allow_close()
        window.close()
        window.deleteLater()
        await bench.settle()


@asynccontextmanager
async def opened_on(
    script: Callable[[Received], Answer] | Answer,
    home: Path,
    documents: Sequence[str | Path] = (),
    *,
    server: EmbeddedServer | None = None,
    cache: bool = False,
    **settings: str,
) -> AsyncIterator[tuple[Workbench, FakeServer]]:
    """The window whose category M is answered by a scripted server; `settings` go into its profile."""
    with FakeServer(script) as answering:
        write_profile(Folders(home), "fake", answering.url, category="M", **settings)
        async with opened(home, documents, server=server, cache=cache) as bench:
            yield bench, answering


async def choose_file(bench: Workbench, path: Path) -> None:
    """Choose a file in the dialog on screen; what happens inside Qt's dialog is Qt's own."""
    dialog = await bench.dialog(QFileDialog)
    dialog.reject()
    if dialog.fileMode() == QFileDialog.FileMode.ExistingFiles:
        dialog.filesSelected.emit([str(path)])
    else:
        dialog.fileSelected.emit(str(path))
    await bench.reactivate()
