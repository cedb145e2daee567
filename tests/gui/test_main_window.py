"""The frame of the window: actions, names for screen readers, looks, errors from anywhere, keys that stay hidden."""

import asyncio
import base64
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from PySide6.QtCore import QPoint, QRect, Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QWidget

from engine.folders import Folders
from tests.helpers.fake_server import Answer, delta, failure
from tests.helpers.model_answers import announcement_answers, flow_file, stalled
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, focusable, opened, opened_on
from workbench.actions import ACTIONS
from workbench.desk import NEEDS_FLOW
from workbench.error_presenter import LastResort
from workbench.log_dock import install_logging, remove_logging
from workbench.main_window import MainWindow
from workbench.theme import DARK, LIGHT, theme

pytestmark = pytest.mark.usefixtures("qapp")


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
                if row.id != "quit":
                    bench.window.actions_by_id[row.id].trigger()
                    await bench.settle()
                    close_dialogs()
                    await bench.reactivate()
            assert [url.toLocalFile() for url in shown] == [str(tmp_path)]
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
            assert {name for name, dock in docks.items() if not dock.isHidden()} == set(docks)
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


@pytest.mark.parametrize("place", ["slot", "timer", "callback", "task", "owned task", "thread"])
def test_an_error_from_anywhere_is_told_once_and_logged_once(place: str, tmp_path: Path) -> None:
    class Surprise(Exception):
        pass

    def fail() -> None:
        raise Surprise(f"from a {place}")

    async def fail_later() -> None:
        fail()

    async def story() -> None:
        log = install_logging(tmp_path / "log" / "workbench.log")
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


def start_failing(bench: Workbench, place: str, fail: Callable[[], None], fail_later: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()
    match place:
        case "slot":
            bench.window.status.offline_clicked.disconnect()
            bench.window.status.offline_clicked.connect(fail)
            bench.click(bench.window.status.offline)
        case "timer":
            QTimer.singleShot(0, fail)
        case "callback":
            loop.call_soon(fail)
        case "task":
            loop.create_task(fail_later())  # noqa: RUF006 - nobody owns it, which is the point
        case "owned task":
            bench.desk.tasks.start(fail_later())
        case "thread":
            threading.Thread(target=fail).start()


# -- a window that stays alive ----------------------------------------------------------------------------------------


class Heartbeat:
    """A timer of 10 ms on the window's thread that records how late it is."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self._last = time.monotonic()
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(10)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def _beat(self) -> None:
        now = time.monotonic()
        self.late.append(now - self._last - 0.01)
        self._last = now

    def stop(self) -> float:
        """The median lateness in seconds."""
        self._timer.stop()
        return sorted(self.late)[len(self.late) // 2]


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
            assert heart.stop() < 0.05

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


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_a_key_is_seen_by_its_server_only(tmp_path: Path) -> None:
    canary = "sk-canary-0123456789abcdefABCDEF"
    home = tmp_path / "home"

    def answers(request: object) -> Answer:
        if len(server_saw) == 1:
            return failure(401, f"the key {canary} is wrong")
        return announcement_answers(request)  # type: ignore[arg-type]

    server_saw: list[str] = []

    def script(request: object) -> Answer:
        server_saw.append(request.headers["authorization"])  # type: ignore[attr-defined]
        return answers(request)

    async def story() -> None:
        log = install_logging(Folders(home).log)
        try:
            async with opened_on(script, home, apiKey=canary) as (bench, _server):
                assert await bench.run_to_end() == "failed"
                texts = window_texts(bench.window)
                assert await bench.run_to_end() == "finished"
                for name in ("Stream", "Prompt", "Trace", "Statistics"):
                    bench.click_tab(bench.tab.panel._tabs, name)
                    texts += window_texts(bench.window)
                profile = next(item for item in bench.desk.overview.explorer.items("profile") if item.id == "fake")
                bench.desk.overview._open_item(profile)
                await bench.settle()
                texts += [
                    bench.tab.panel.summary_text(),
                    *bench.banner_texts(),
                    *window_texts(bench.window),
                    *log.lines,
                ]
                bench.desk.leave()
        finally:
            remove_logging(log)
        assert server_saw[0] == f"Bearer {canary}"
        shapes = [canary, quote(canary, safe=""), base64.b64encode(canary.encode()).decode()]
        found = [text for text in texts for shape in shapes if shape in text]
        assert found == []
        for file in home.rglob("*"):
            if file.is_file() and file.suffix != ".properties":
                data = file.read_bytes()
                assert not [shape for shape in shapes if shape.encode() in data], file.name
        command_line = Path("/proc/self/cmdline")
        if command_line.exists():
            assert canary.encode() not in command_line.read_bytes()

    run_qt(story(), 60)


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
