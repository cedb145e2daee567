"""The Help menu: documentation, shortcuts, log, diagnostics; and the way from an unforeseen error to the log."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from engine import EngineError
from tests.helpers.model_answers import write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import button, find_button, opened
from workbench import documentation
from workbench.actions import ACTIONS
from workbench.documentation import Documentation, documentation_folder, page_title, pages
from workbench.shortcuts import Shortcuts, canvas_rows

pytestmark = pytest.mark.usefixtures("qapp")


def test_the_shortcuts_are_those_of_the_actions_and_can_be_searched(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            bench.press("Ctrl+F1")
            page = await bench.dialog(Shortcuts)
            native = QKeySequence.SequenceFormat.NativeText
            keys = {", ".join(key.toString(native) for key in row.first_keys) for row in ACTIONS if row.shortcut}
            assert {key for _text, key in page.rows()} == keys | {key for _text, key in canvas_rows()}
            QTest.keyClicks(page.filter, "text larger")
            assert page.rows() == [("Text larger", "Ctrl+Alt++")]
            page.filter.clear()
            assert len(page.rows()) == len(keys) + len(canvas_rows())
            page.close()

    run_qt(story(), 60)


def the_documentation() -> Documentation | None:
    shown = (widget for widget in QApplication.topLevelWidgets() if isinstance(widget, Documentation))
    return next((widget for widget in shown if widget.isVisible()), None)


def test_the_documentation_is_read_page_by_page_and_follows_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_links: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened_links.append)

    async def story() -> None:
        async with opened(tmp_path) as bench:
            bench.press("F1")
            await bench.until(lambda: the_documentation() is not None)
            reader = the_documentation()
            assert reader is not None
            titles = [reader.list.item(row).text() for row in range(reader.list.count())]
            assert titles[0] == "How a flow runs"
            assert all(titles)
            assert reader.text.toPlainText().startswith("How a flow runs\nA flow is a set of agents")
            reader.text.anchorClicked.emit(QUrl("profiles.md#keys"))
            assert reader.list.currentItem().text() == "Profiles"
            assert reader.text.toPlainText().startswith("Profiles\n")
            reader.text.anchorClicked.emit(QUrl("https://example.org/"))
            reader.text.anchorClicked.emit(QUrl("no-such-page.md"))
            assert opened_links == [QUrl("https://example.org/")]
            assert reader.list.currentItem().text() == "Profiles"
            reader.close()

    run_qt(story(), 60)


def test_every_page_has_a_title() -> None:
    folder = documentation_folder()
    assert folder is not None
    found = pages(folder)
    assert [page.stem for page in found[:2]] == ["running-flows", "flow-format"]
    assert all(page_title(page.read_text("utf-8")) for page in found)
    assert page_title("no heading\n") == ""


def test_a_copy_without_documentation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documentation, "FIRST_PAGES", ("no-such-page",))

    async def story() -> None:
        async with opened(tmp_path) as bench:
            bench.trigger("documentation")
            assert bench.banner_texts()[-1].startswith("The documentation did not come with this copy.")

    run_qt(story(), 60)


def test_diagnostics_tell_versions_and_states_but_no_keys_and_no_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret-secret")

    async def story() -> None:
        async with opened(tmp_path / "home") as bench:
            write_profile(bench.folders, "mine", "http://localhost:1", apiKey="sk-plain-plain-plain")
            bench.trigger("reload_profiles")
            bench.trigger("copy_diagnostics")
            text = QGuiApplication.clipboard().text()
            lines = dict(line.split(": ", 1) for line in text.splitlines())
            assert lines["python"]
            assert lines["PySide6-Essentials"] != "none"
            assert lines["embedded model"] == "stopped"
            assert lines["data folder writable"] == "yes"
            assert "secret" not in text
            assert "plain" not in text
            assert str(tmp_path) not in text
            assert bench.window.status.note() == "Diagnostics copied"

    run_qt(story(), 60)


def test_the_log_file_is_opened_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", shown.append)

    async def story() -> None:
        async with opened(tmp_path) as bench:
            bench.trigger("open_log")
            assert not shown
            bench.folders.log.write_text("a line\n", "utf-8")
            bench.trigger("open_log")
            assert [url.toLocalFile() for url in shown] == [str(bench.folders.log)]

    run_qt(story(), 60)


def in_front(widget: QWidget) -> bool:
    return widget.isVisible() and not widget.visibleRegion().isEmpty()


def test_an_unforeseen_error_leads_to_the_log_and_a_foreseen_one_need_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            bench.desk.show_error(EngineError("The disk is full."))
            assert find_button(bench.banners[0], "Open log") is None
            bench.desk.show_error(ZeroDivisionError("division by zero"))
            opener = button(next(told for told in bench.banners if "division by zero" in told.copied), "Open log")
            assert not in_front(bench.window.docks["log"].widget())
            QTest.mouseClick(opener, Qt.MouseButton.LeftButton)
            await bench.until(lambda: in_front(bench.window.docks["log"].widget()))

    run_qt(story(), 60)
