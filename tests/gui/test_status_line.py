"""The status bar: a menu, a lock, a bar that fills; and who has the keyboard."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu

from engine import ServerState, ServerStatus
from tests.helpers.model_answers import announcement_answers
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, opened, opened_on
from workbench.theme import theme

pytestmark = pytest.mark.usefixtures("qapp")


def on_canvas(bench: Workbench) -> bool:
    return QApplication.focusWidget() is bench.tab.editor.view


def test_the_server_text_offers_a_menu_and_does_nothing_by_itself(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            actions = bench.window.actions_by_id
            bench.desk.model.show(ServerStatus(state=ServerState.READY, text="Ready"))
            triggered: list[str] = []
            actions["server_stop"].triggered.connect(lambda: triggered.append("stop"))
            menu = bench.window.status.server.menu()
            assert isinstance(menu, QMenu)
            assert menu.actions() == [actions[name] for name in ("server_start", "server_stop", "server_file")]
            menu.aboutToShow.connect(lambda: triggered.append("menu"))
            menu.aboutToShow.connect(menu.close, Qt.ConnectionType.QueuedConnection)
            bench.click(bench.window.status.server)
            assert triggered == ["menu"]

    run_qt(story(), 60)


def test_a_file_that_is_no_model_is_told_and_the_model_in_use_stays(tmp_path: Path) -> None:
    wrong = tmp_path / "notes.gguf"
    wrong.write_text("no model", "utf-8")

    async def story() -> None:
        async with opened(tmp_path / "home") as bench:
            await bench.desk.model.serve(wrong)
            (text,) = bench.banner_texts()
            assert text.startswith("notes.gguf is not a model in gguf format.")
            assert "The model that was in use stays in use. " in text
            assert bench.settings.model_file == ""
            assert button(bench.banners[0], "Choose a model file…").isVisible()

    run_qt(story(), 60)


def test_the_lock_is_a_toggle_that_shows_whether_it_is_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            lock = bench.window.status.offline
            assert (lock.isCheckable(), lock.isChecked(), lock.text()) == (True, False, "Online")
            for locked in (True, False):
                bench.click(lock)
                assert (lock.isChecked(), bench.engine.offline, bench.settings.offline) == (locked,) * 3
            bench.trigger("offline")
            assert (lock.isChecked(), lock.text()) == (True, "Offline")
            assert "Offline lock is on" in lock.toolTip()

    run_qt(story(), 60)


def test_the_keyboard_is_with_the_documents_not_with_the_status_bar(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            assert on_canvas(bench)
            bench.press("Ctrl+K")
            palette = bench.desk.overview._palette
            QTest.keyClick(palette._field, Qt.Key.Key_Escape)
            await bench.until(lambda: not palette.isVisible())
            await bench.reactivate()
            assert on_canvas(bench)
            bench.press("Ctrl+W")
            await bench.until(lambda: not bench.desk.documents.tabs)
            await bench.settle()
            assert QApplication.focusWidget() is button(bench.window.welcome, "Open a sample")
            bench.press("Ctrl+K")
            QTest.keyClicks(palette._field, "sort messages")
            QTest.keyClick(palette._field, Qt.Key.Key_Return)
            await bench.until(lambda: bench.desk.documents.current is not None)
            await bench.reactivate()
            await bench.until(lambda: on_canvas(bench))

    run_qt(story(), 60)


def test_the_bar_fills_over_a_run(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path) as (bench, _server):
            shares: list[float] = []
            bench.press("F5")
            bench.tab.runs.events_received.connect(lambda _events: shares.append(bench.tab.progress.share))
            assert await bench.run_end() == "finished"
            assert shares == sorted(shares)
            # Events that come close together are shown together: some steps may be skipped.
            assert set(shares) & {0.25, 0.5, 0.75}
            assert shares[-1] == 1.0
            bar = bench.window.status.progress
            assert bar.isVisible()
            assert bar.value() == bar.maximum()

    run_qt(story(), 60)


def test_where_the_room_is_short_the_long_texts_give_way_and_figures_stay_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, size=(1280, 800)) as bench:
            status = bench.window.status
            status.show_server("Embedded model: Ready: a-model-with-quite-a-long-name", "ok", "Ready")
            status.show_running("FeatureAnalyzer 3/4", 0.5, "12:34", "~123.4 tok/s")
            status.show_cost("free", "free")
            theme.set_zoom(1.5)
            await bench.settle()
            whole = (status.clock, status.rate, status.cost, status.offline)
            await bench.until(lambda: all(part.width() >= part.sizeHint().width() for part in whole))
            assert status.server.width() < status.server.sizeHint().width()
            theme.set_zoom(1.0)
            await bench.until(lambda: status.server.width() >= status.server.sizeHint().width())

    try:
        run_qt(story(), 60)
    finally:
        theme.set_zoom(1.0)
