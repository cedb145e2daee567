"""The frame of the window: actions, names for screen readers, looks, errors from anywhere, keys that stay hidden."""

import asyncio
import base64
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, QTimer, QTimerEvent, QUrl, Signal
from PySide6.QtGui import QAction, QDesktopServices, QKeyEvent, QPaintEvent, QUndoCommand
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QLineEdit, QWidget

from engine import EmbeddedServer
from engine.folders import Folders
from tests.helpers.fake_server import Answer, delta, failure
from tests.helpers.heartbeat import Heartbeat
from tests.helpers.model_answers import announcement_answers, flow_file, stalled, write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, focusable, opened, opened_on
from workbench.actions import ACTIONS
from workbench.desk import NEEDS_FLOW
from workbench.error_presenter import LastResort
from workbench.log_dock import QtLogHandler, install_logging, remove_logging
from workbench.main_window import MainWindow
from workbench.profiles.key_field import KeyField
from workbench.profiles.page import ProfilesPage
from workbench.theme import DARK, LIGHT, theme

pytestmark = pytest.mark.usefixtures("qapp")

CHILD = Path(__file__).parents[1] / "helpers" / "fake_server_child.py"


def close_dialogs() -> None:
    for widget in QApplication.topLevelWidgets():
        if isinstance(widget, QDialog) and widget.isVisible():
            widget.reject()


# -- actions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_flow", [True, False], ids=["with a flow", "without"])
def test_every_action_can_be_triggered(with_flow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", shown.append)

    async def story() -> None:
        async with opened_on(stalled(delta("x")), tmp_path) as (bench, _server):
            if not with_flow:
                bench.press("Ctrl+W")
                await bench.until(lambda: not bench.desk.documents.tabs)
                enabled = {row.id for row in ACTIONS if bench.window.actions_by_id[row.id].isEnabled()}
                assert not enabled & {*NEEDS_FLOW, "run", "stop", "undo", "redo"}
            for row in ACTIONS:
                if row.id not in ("quit", "new"):  # the actions are for the flow that is open
                    bench.window.actions_by_id[row.id].trigger()
                    await bench.settle()
                    close_dialogs()
                    await bench.reactivate()
            assert [url.toLocalFile() for url in shown] == [str(tmp_path)]
            assert bench.window.docks["log"].isVisible()  # there is no log file to open
            bench.trigger("quit")
            if with_flow:  # run was triggered, stop as well
                await bench.until(lambda: bench.quits or not bench.tab.is_running)
                close_dialogs()
                bench.trigger("quit")
            await bench.until(lambda: bench.quits == [True])

    try:
        run_qt(story(), 60)
    finally:
        theme.choose(DARK)
        theme.set_zoom(1.0)
        theme.set_reduced_motion(True)


def test_every_action_has_words_and_no_shortcut_is_taken_twice(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            shortcuts = [action.shortcut().toString() for action in bench.window.actions_by_id.all()]
            taken = [shortcut for shortcut in shortcuts if shortcut]
            assert len(taken) == len(set(taken))
            for action in bench.window.actions_by_id.all():
                assert action.text()
                assert action.statusTip()
            in_menus = {action for menu in bench.window.menus.values() for action in menu.actions()}
            assert in_menus >= set(bench.window.actions_by_id.all())
            mnemonics = [menu.title().partition("&")[2][0].lower() for menu in bench.window.menus.values()]
            assert len(mnemonics) == len(set(mnemonics))

    run_qt(story(), 60)


def test_the_palette_runs_an_action_by_keyboard(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            bench.press("Ctrl+K")
            palette = bench.desk.overview._palette
            assert palette.isVisible()
            QTest.keyClicks(palette._field, "featureanalyzer")
            QTest.keyClick(palette._field, Qt.Key.Key_Return)
            assert bench.tab.editor.selected() == ("FeatureAnalyzer",)

    run_qt(story(), 60)


def test_docks_are_toggled_from_the_rail_and_reset(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            docks = bench.window.docks
            for button in bench.window._rail.findChildren(QAbstractButton):
                if button.isVisible():
                    bench.click(button)
            bench.trigger("reset_layout")
            assert {name for name, dock in docks.items() if not dock.isHidden()} == set(docks) - {"outline"}
            assert docks["inspector"].width() == pytest.approx(308, abs=4)
            assert docks["explorer"].width() == pytest.approx(226, abs=4)

    run_qt(story(), 60)


# -- screen readers and looks -----------------------------------------------------------------------------------------


def test_everything_that_takes_the_focus_has_a_name(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path) as (bench, _server):
            await bench.run_to_end()
            bench.tab.editor.select(["FeatureAnalyzer"])
            nameless = [
                f"{type(widget).__name__} {widget.objectName()} in {type(widget.parent()).__name__}"
                for widget in focusable(bench.window)
                if not (widget.accessibleName() or named_by_text(widget))
            ]
            assert nameless == []

    run_qt(story(), 60)


def named_by_text(widget: QWidget) -> bool:
    """Whether Qt tells a screen reader the text of the widget, or of the action behind it, as its name."""
    return isinstance(widget, QAbstractButton) and bool(widget.text())


def cut_off(window: MainWindow) -> list[str]:
    """The widgets of tool bar and status bar that are not inside the window, or lie on each other."""
    faults = []
    for bar in (window.status, window.main_bar):
        shown = [widget for widget in bar.findChildren(QWidget) if widget.isVisible() and widget.parent() is bar]
        areas = [(widget, QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())) for widget in shown]
        areas.sort(key=lambda pair: pair[1].left())
        faults += [f"{widget} at {area}" for widget, area in areas if not window.rect().contains(area)]
        faults += [f"{two[0]} over {one[0]}" for one, two in pairwise(areas) if one[1].intersects(two[1])]
    return faults


@pytest.mark.parametrize("size", [(1280, 800), (1600, 1000)], ids=["1280", "1600"])
@pytest.mark.parametrize("zoom", [1.0, 1.5])
def test_nothing_is_cut_off_at_any_size_and_zoom(size: tuple[int, int], zoom: float, tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, size=size) as bench:
            theme.set_zoom(zoom)
            theme.choose(LIGHT)
            try:
                await bench.until(lambda: not cut_off(bench.window))
            except TimeoutError:
                pytest.fail(f"cut off: {cut_off(bench.window)}")
            assert (bench.window.width(), bench.window.height()) == size
            assert bench.tab.editor.view.width() >= 300

    try:
        run_qt(story(), 60)
    finally:
        theme.choose(DARK)
        theme.set_zoom(1.0)


# -- errors from anywhere ---------------------------------------------------------------------------------------------


PLACES = [
    "slot",
    "queued slot",
    "slot of a thread's signal",
    "timer",
    "action",
    "timer event",
    "posted event",
    "event filter",
    "painting",
    "key press",
    "undo command",
    "callback",
    "later callback",
    "callback from a thread",
    "reader",
    "done callback",
    "task",
    "task of a group",
    "owned task",
    "thread",
]


@pytest.mark.parametrize("place", PLACES)
def test_an_error_from_anywhere_is_told_once_and_logged_once(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Surprise(Exception):
        pass

    def fail() -> None:
        raise Surprise(f"from a {place}")

    async def fail_later() -> None:
        fail()

    async def story() -> None:
        install_logging(log := QtLogHandler(), tmp_path / "log" / "workbench.log")
        last_resort = LastResort()
        last_resort.install()
        try:
            async with opened(tmp_path / "home") as bench:
                last_resort.error_caught.connect(bench.desk.show_error)
                last_resort.follow(asyncio.get_running_loop())
                start_failing(bench, place, fail, fail_later)
                await bench.until(lambda: bench.banners)
                await bench.settle()
                assert bench.banner_texts() == [f"Something went wrong: from a {place}\nThe log has the details."]
                traced = [line for line in log.lines if "Unhandled error" in line]
                assert len(traced) == 1
                assert "Surprise" in traced[0]
                bench.trigger("select_all")
                assert len(bench.tab.editor.selected()) == 4
        finally:
            last_resort.remove()
            remove_logging(log)

    run_qt(story(), 60)
    assert "never retrieved" not in capsys.readouterr().err


class Failing(QLineEdit):
    """A widget in which something goes wrong, once."""

    called = Signal()

    def __init__(self, place: str, fail: Callable[[], None], parent: QWidget) -> None:
        super().__init__(parent)
        self._places = [place]
        self._fail = fail

    def _fail_once(self, place: str) -> None:
        if place in self._places:
            self._places.clear()
            self._fail()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.User:
            self._fail_once("posted event")
        return super().event(event)

    def timerEvent(self, event: QTimerEvent) -> None:
        self.killTimer(event.timerId())
        self._fail_once("timer event")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self._fail_once("event filter")
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        self._fail_once("painting")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self._fail_once("key press")


def start_failing(
    bench: Workbench, place: str, fail: Callable[[], None], fail_later: Callable[[], Coroutine[object, object, None]]
) -> None:
    if not (fail_in_qt(bench, place, fail) or fail_in_loop(bench, place, fail, fail_later)):
        raise ValueError(place)


def fail_in_qt(bench: Workbench, place: str, fail: Callable[[], None]) -> bool:
    widget = Failing(place, fail, bench.window)
    match place:
        case "slot":
            bench.window.status.offline_clicked.disconnect()
            bench.window.status.offline_clicked.connect(fail)
            bench.click(bench.window.status.offline)
        case "queued slot" | "slot of a thread's signal":
            widget.called.connect(fail, Qt.ConnectionType.QueuedConnection)
            threading.Thread(target=widget.called.emit).start() if "thread" in place else widget.called.emit()
        case "timer":
            QTimer.singleShot(0, fail)
        case "action":
            action = QAction(bench.window)
            action.triggered.connect(lambda: fail())
            action.trigger()
        case "timer event":
            widget.startTimer(0)
        case "posted event":
            QApplication.postEvent(widget, QEvent(QEvent.Type.User))
        case "event filter":
            bench.window.installEventFilter(widget)
            QApplication.postEvent(bench.window, QEvent(QEvent.Type.User))
        case "painting":
            widget.show()
        case "key press":
            pressed = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_A.value, Qt.KeyboardModifier.NoModifier)
            QApplication.postEvent(widget, pressed)
        case "undo command":

            class Command(QUndoCommand):
                def redo(self) -> None:
                    fail()

            QTimer.singleShot(0, lambda: bench.tab.editor.undo_stack.push(Command()))
        case _:
            return False
    return True


def fail_in_loop(
    bench: Workbench, place: str, fail: Callable[[], None], fail_later: Callable[[], Coroutine[object, object, None]]
) -> bool:
    loop = asyncio.get_running_loop()

    async def in_a_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60))
            fail()

    match place:
        case "callback":
            loop.call_soon(fail)
        case "later callback":
            loop.call_later(0.001, fail)
        case "callback from a thread":
            threading.Thread(target=loop.call_soon_threadsafe, args=(fail,)).start()
        case "reader":
            here, there = socket.socketpair()

            def ready() -> None:
                loop.remove_reader(here)
                here.close()
                there.close()
                fail()

            loop.add_reader(here, ready)
            there.send(b"x")
        case "done callback":
            future = loop.create_future()
            future.add_done_callback(lambda _: fail())
            future.set_result(None)
        case "task":
            loop.create_task(fail_later())  # noqa: RUF006 - nobody owns it, which is the point
        case "task of a group":
            bench.desk.tasks.start(in_a_group())
        case "owned task":
            bench.desk.tasks.start(fail_later())
        case "thread":
            threading.Thread(target=fail).start()
        case _:
            return False
    return True


# -- a window that stays alive ----------------------------------------------------------------------------------------


def test_the_window_breathes_during_a_run(tmp_path: Path) -> None:
    words = Answer(
        pieces=[piece for number in range(150) for piece in (delta(f"word{number} "), 0.004)] + [delta(finish="stop")]
    )

    async def story() -> None:
        path = flow_file(tmp_path / "f.flow.json", {"name": "Writer", "template": "Write."})
        async with opened_on(words, tmp_path / "home", [path]) as (bench, _server):
            heart = Heartbeat()
            bench.press("F5")
            await bench.run_end()
            heart.stop()
            assert heart.percentile(0.5) < 0.05

    run_qt(story(), 60)


def test_a_disk_that_hangs_does_not_hang_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import engine.run_history as run_history

    stuck, release = threading.Event(), threading.Event()
    really_open = run_history.open_for_writing

    def slow(*arguments: object, **options: object) -> object:
        stuck.set()
        assert threading.current_thread() is not threading.main_thread()
        release.wait(30)
        return really_open(*arguments, **options)

    monkeypatch.setattr(run_history, "open_for_writing", slow)

    async def story() -> None:
        path = flow_file(tmp_path / "f.flow.json", {"name": "Writer", "template": "Write."})
        async with opened_on(failure(500), tmp_path / "home", [path]) as (bench, _server):
            bench.press("F5")
            await bench.until(stuck.is_set)
            assert bench.tab.is_running
            bench.click_agent("Writer")
            bench.type_text(bench.tab.inspector.agent_form.template, "Meanwhile.")
            assert bench.tab.document.spec.agents[0].template == "Meanwhile."
            release.set()
            assert await bench.run_end() == "failed"

    try:
        run_qt(story(), 60)
    finally:
        release.set()


def test_a_name_that_is_looked_up_for_long_does_not_hold_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_look_up = socket.getaddrinfo
    asked: list[str] = []

    def slow(host: str, *arguments: object, **options: object) -> object:
        if host != "slow.example":
            return really_look_up(host, *arguments, **options)  # type: ignore[arg-type]
        asked.append(threading.current_thread().name)
        time.sleep(2)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", slow)

    async def story() -> None:
        home = tmp_path / "home"
        write_profile(Folders(home), "slow", "http://slow.example:80", category="M")
        path = flow_file(tmp_path / "f.flow.json", {"name": "Writer", "template": "Write."})
        async with opened(home, [path]) as bench:
            heart = Heartbeat()
            assert await bench.run_to_end() == "failed"
            await bench.until(lambda: "slow.example is unknown" in str(bench.tab.panel.summary_text()))
            bench.press("F5")
            await bench.until(lambda: len(asked) == 2)
            bench.press("Shift+F5")  # the look-up cannot be broken off, but nobody waits for it
            assert await bench.run_end() == "stopped"
            heart.stop()
            assert threading.main_thread().name not in asked
            assert heart.percentile(1) < 1.5, heart.dumps

    run_qt(story(), 60)


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_a_key_is_seen_by_its_server_only(tmp_path: Path) -> None:
    canary = "sk-canary-0123456789abcdefABCDEF"
    secrets = [canary]
    """Also the key of the embedded server, once it is there."""
    home = tmp_path / "home"
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF and so on")
    found_in_processes: list[str] = []

    def answers(request: object) -> Answer:
        if len(server_saw) == 1:
            return failure(401, f"the key {canary} is wrong")
        return announcement_answers(request)  # type: ignore[arg-type]

    server_saw: list[str] = []

    def script(request: object) -> Answer:
        server_saw.append(request.headers["authorization"])  # type: ignore[attr-defined]
        return answers(request)

    async def story() -> None:
        install_logging(log := QtLogHandler(), Folders(home).log)
        try:
            child = EmbeddedServer(data_dir=home, model_file=model, command=(sys.executable, str(CHILD), "serve"))
            async with opened_on(script, home, server=child, apiKey=canary) as (bench, _server):
                own_key = (await child.ensure()).api_key
                secrets.append(own_key)
                assert await bench.run_to_end() == "failed"
                texts = window_texts(bench.window)
                assert await bench.run_to_end() == "finished"
                for name in ("Stream", "Prompt", "Trace", "Statistics"):
                    bench.click_tab(bench.tab.panel._tabs, name)
                    texts += window_texts(bench.window)
                profile = next(item for item in bench.desk.overview.explorer.items("profile") if item.id == "fake")
                texts.append(bench.tab.panel.summary_text())
                bench.desk.overview.open_item(profile)
                page = bench.desk.pages.current
                assert isinstance(page, ProfilesPage)
                key = page.view.form.rows["apiKey"].edit
                assert isinstance(key, KeyField)
                await bench.until(lambda: key.line.text() == canary)
                # The file itself is on show here: its key cannot be read.
                assert key.line.echoMode() is QLineEdit.EchoMode.Password
                source = page.view.source
                block = source.document().findBlock(source.toPlainText().index("apiKey="))
                (_, value) = block.layout().formats()
                assert value.format.foreground() == value.format.background()
                key.line.clear()
                page.view.source.setPlainText("")
                found_in_processes.extend(
                    name for name, data in processes() if any(shape in data for shape in byte_shapes(secrets))
                )
                texts += [
                    *bench.banner_texts(),
                    *window_texts(bench.window),
                    *log.lines,
                ]
                bench.desk.leave()
        finally:
            remove_logging(log)
        assert server_saw[0] == f"Bearer {canary}"
        shapes = byte_shapes(secrets)
        assert found_in_processes == []
        assert [text for text in texts for shape in shapes if shape in text.encode()] == []
        for file in home.rglob("*"):
            data = file.name.encode()
            if file.is_file() and file.suffix != ".properties":
                data += file.read_bytes()
            assert not [shape for shape in shapes if shape in data], file.name

    run_qt(story(), 60)


def byte_shapes(secrets: list[str]) -> list[bytes]:
    """What to look for: the secrets as they are, in URLs and in base64."""
    return [
        shape
        for secret in secrets
        for shape in (secret.encode(), quote(secret, safe="").encode(), base64.b64encode(secret.encode()))
    ]


def processes() -> Iterator[tuple[str, bytes]]:
    """Name, arguments and environment of each process, as far as the system shows them (Linux)."""
    for folder in Path("/proc").glob("[0-9]*"):
        for part in ("cmdline", "environ"):
            with suppress(OSError):
                yield f"{folder.name} {part}", (folder / part).read_bytes()


def window_texts(window: QWidget) -> list[str]:
    """Every text, tip and name of all widgets."""
    texts = []
    for widget in (window, *window.findChildren(QWidget)):
        for getter in ("text", "toPlainText", "toolTip", "windowTitle", "accessibleName", "accessibleDescription"):
            method = getattr(widget, getter, None)
            if callable(method):
                value = method()
                texts.append(value if isinstance(value, str) else "")
    return texts
