"""The page *Tools*: what there is, trying a tool under the rules that hold for models, approvals taken back."""

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QCheckBox, QMessageBox, QWidget

from engine import Tool, ToolDefinition
from engine.plugins import Plugin
from tests.helpers.fake_server import DONE, EVENT_STREAM, Answer, Received, chat, delta
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, opened, opened_on
from workbench.toolbox.page import ToolsPage
from workbench.toolbox.tool_entries import ToolEntry

pytestmark = pytest.mark.usefixtures("qapp")

CODE = """
def note(text: str, times: int = 1) -> str:
    \"\"\"Writes a note.\"\"\"
    return "noted " + text * times


PLUGINS = {"tools": {"note": note}}
"""


def page_of(bench: Workbench) -> ToolsPage:
    (page,) = bench.desk.pages.open
    assert isinstance(page, ToolsPage)
    return page


@asynccontextmanager
async def page_with(home: Path, documents: tuple[Path, ...] = ()) -> AsyncIterator[tuple[Workbench, ToolsPage]]:
    async with opened(home, documents) as bench:
        bench.trigger("tools")
        page = page_of(bench)
        await bench.until(lambda: page.entries)
        yield bench, page


async def called(bench: Workbench, page: ToolsPage) -> str:
    """Press Call and wait for what comes of it."""
    bench.click(page.form.call)
    await bench.until(lambda: page.form.state.text() not in ("running", "not called yet"))
    return page.form.result.toPlainText()


def tab_to(widget: QWidget) -> None:
    """Press Tab until a widget has the focus."""
    for _ in range(12):
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        if widget.hasFocus():
            return
    raise AssertionError(f"Tab does not come to {widget.accessibleName()}")


def with_tool(folder: Path) -> Path:
    (folder / "plugins").mkdir(parents=True)
    (folder / "plugins" / "notes.py").write_text(CODE, "utf-8")
    agent = {"name": "Writer", "template": "Note milk.", "tools": ["note"], "handler": {"type": "tools"}}
    return flow_file(folder / "notes.flow.json", agent, name="Notes")


def test_a_tool_is_tried_by_keyboard(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            QTest.keySequence(bench.window, bench.window.actions_by_id["tools"].shortcut())
            page = page_of(bench)
            await bench.until(lambda: page.entries)
            assert page.list.hasFocus()
            assert page.list.currentItem().text() == "calculator"
            assert page.view.asks.text() == "only computes"
            (row,) = [page.view.table.topLevelItem(0)]
            assert [row.text(column) for column in range(3)] == ["expression", "string", "yes"]
            (field,) = page.form.fields.widgets()
            await bench.until(field.isVisible)
            tab_to(field)
            QTest.keyClicks(field, "6 * (3 + 4)")
            tab_to(page.form.call)
            QTest.keyClick(page.form.call, Qt.Key.Key_Space)
            await bench.until(lambda: page.form.result.toPlainText() == "6 * (3 + 4) = 42")
            assert page.form.state.text().endswith("16 characters")
            bench.type_text(field, "six")
            assert "cannot be calculated" in await called(bench, page)
            assert page.form.state.text().startswith("failed after")
            bench.type_text(field, "")
            QTest.keyClick(field, Qt.Key.Key_Backspace)
            page.list.setFocus()
            QTest.keyClick(page.list, Qt.Key.Key_Down)
            assert page.entry().name == "clock"
            assert page.form.state.text() == "not called yet"
            assert "+" in await called(bench, page)

    run_qt(story(), 60)


def test_a_tool_that_reads_asks_first_and_reads_granted_folders_only(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "a.txt").write_text("Bread", "utf-8")

    async def story() -> None:
        async with page_with(tmp_path / "home") as (bench, page):
            page.choose("read_file")
            assert ("Folders", "none granted: it refuses every call") in page.view.facts
            (field,) = page.form.fields.widgets()
            await bench.until(field.isVisible)
            bench.type_text(field, "a.txt")
            bench.click(page.form.call)
            question = await bench.dialog(QMessageBox)
            assert '"path": "a.txt"' in question.informativeText()
            await bench.answer("Refuse")
            await bench.until(lambda: page.form.result.toPlainText() == "Error: read_file was not allowed.")
            page._grant_folder(str(shared))
            await bench.until(lambda: ("Folders", str(shared)) in page.view.facts)
            bench.click(page.form.call)
            await bench.answer("Allow once")
            await bench.until(lambda: page.form.result.toPlainText() == "Bread")
            page._grant_host("https://Example.com/page")
            assert bench.engine.settings.tool_hosts == ("example.com",)
            bench.click(page.form.call)
            await bench.dialog(QMessageBox)
            page._stop()
            await bench.until(lambda: page.form.state.text().startswith("stopped after"))
            assert QApplication.activeModalWidget() is None

    run_qt(story(), 60)


def test_grants_are_taken_back_by_keyboard(tmp_path: Path) -> None:
    async def story() -> None:
        async with page_with(tmp_path) as (bench, page):
            page.views.setCurrentIndex(1)
            assert not page.approvals.table.isVisible()  # nothing is approved yet
            page._grant_host("example.com")
            page._grant_folder(str(tmp_path))
            table = page.approvals.table
            await bench.until(lambda: table.topLevelItemCount() == 2)
            table.setFocus()
            QTest.keyClick(table, Qt.Key.Key_Home)
            QTest.keyClick(table, Qt.Key.Key_Down)
            assert table.currentItem().text(0) == str(tmp_path)
            QTest.keyClick(table, Qt.Key.Key_Delete)
            await bench.until(lambda: table.topLevelItemCount() == 1)
            assert bench.engine.settings.tool_folders == ()
            assert bench.engine.settings.tool_hosts == ("example.com",)

    run_qt(story(), 60)


def test_the_tools_beside_a_flow_run_once_it_is_trusted_and_no_longer_than_that(tmp_path: Path) -> None:
    file = with_tool(tmp_path / "flow")

    async def story() -> None:
        async with page_with(tmp_path / "home", (file,)) as (bench, page):
            (tab,) = bench.desk.documents.tabs
            page.choose("note")
            assert page.entry().group == "Beside the flow Notes"
            assert page.view.restricted.text() == "not trusted"
            assert not page.form.call.isEnabled()
            access = tab.trust.restricted
            assert access is not None
            tab.trust.trust(access)
            await bench.until(page.form.call.isEnabled)
            text, times = page.form.fields.widgets()
            await bench.until(times.isVisible)
            bench.type_text(text, "ho")
            bench.type_text(times, "3")
            bench.click(page.form.call)
            await bench.answer("Allow once")
            await bench.until(lambda: page.form.result.toPlainText() == "noted hohoho")
            page.views.setCurrentIndex(1)
            table = page.approvals.table
            table.setCurrentItem(table.topLevelItem(0).child(0))
            assert table.currentItem().text(1) == str(file)
            bench.click(page.approvals.take_back)
            await bench.until(lambda: not page.form.call.isEnabled())
            assert tab.trust.restricted is not None
            assert bench.engine.access.approvals() == []

    run_qt(story(), 60)


def test_what_is_allowed_for_a_run_is_listed_and_taken_back(tmp_path: Path) -> None:
    go_on = threading.Event()

    def script(request: Received) -> Answer:
        results = [turn["content"] for turn in request.json()["messages"] if turn["role"] == "tool"]
        if len(results) == 2:
            return chat(" | ".join(results))
        if results:
            go_on.wait(30)
        call = {"name": "note", "arguments": json.dumps({"text": f"milk {len(results)}"})}
        part = {"index": 0, "id": f"c{len(results)}", "type": "function", "function": call}
        return Answer(headers=EVENT_STREAM, pieces=[delta(tool_calls=[part]), delta(finish_reason="tool_calls"), DONE])

    async def story() -> None:
        async with opened_on(script, tmp_path / "home", [with_tool(tmp_path / "flow")]) as (bench, _server):
            tab = bench.tab
            access = tab.trust.restricted
            assert access is not None
            tab.trust.trust(access)
            bench.press("F5")
            await bench.answer("Allow in this run")
            bench.trigger("tools")
            page = page_of(bench)
            page.views.setCurrentIndex(1)
            table = page.approvals.table
            await bench.until(lambda: table.topLevelItemCount() == 2)
            table.setCurrentItem(table.topLevelItem(1).child(0))
            assert table.currentItem().text(0) == "note"
            bench.click(page.approvals.take_back)
            await bench.until(lambda: table.topLevelItemCount() == 1)
            go_on.set()
            await bench.answer("Refuse")
            await bench.until(lambda: not tab.is_running)
            assert tab.allowed_tools == ()

    try:
        run_qt(story(), 60)
    finally:
        go_on.set()


def test_fields_fit_their_arguments_and_say_what_is_missing(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "exact": {"type": "boolean", "default": True},
            "more": {"type": "object"},
        },
        "required": ["city", "days"],
    }
    tool = Tool(definition=ToolDefinition(name="weather", parameters=schema), function=lambda **given: given)

    async def story() -> None:
        async with page_with(tmp_path) as (bench, page):
            page.form.show_tool(tool, "")
            city, days, exact, more = page.form.fields.widgets()
            await bench.until(more.isVisible)
            calls: list[object] = []
            page.form.called.disconnect()
            page.form.called.connect(calls.append)
            bench.type_text(city, "Bern")
            bench.click(page.form.call)
            assert page.form._fault.text == "days has no value."
            assert days.hasFocus()
            bench.type_text(days, "many")
            bench.click(page.form.call)
            assert page.form._fault.text.startswith("days: found")
            bench.type_text(days, "3")
            bench.type_text(more, '{"a": [1]}')
            assert isinstance(exact, QCheckBox)
            exact.setChecked(False)
            bench.click(page.form.call)
            assert calls == [{"city": "Bern", "days": 3, "exact": False, "more": {"a": [1]}}]

    run_qt(story(), 60)


def test_a_plug_in_of_a_package_is_loaded_when_it_is_wanted(tmp_path: Path) -> None:
    def double(number: int) -> int:
        """Doubles a number."""
        return 2 * number

    async def story() -> None:
        async with page_with(tmp_path) as (bench, page):
            plugin = Plugin(kind="tools", name="double", given=double)
            page.entries = [*page.entries, ToolEntry(name="double", group="Packages", tool=None, plugin=plugin)]
            page._fill()
            page.choose("double")
            assert not page.form.call.isEnabled()
            assert page.view.facts[0][1].endswith("each call is asked about.")
            bench.click(button(page, "Load it"))
            await bench.until(lambda: page.banners.banners)  # this one is in no package
            assert 'no plug-in "double"' in page.banners.banners[0].title()

    run_qt(story(), 60)
