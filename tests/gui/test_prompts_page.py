"""The page *Prompts*: tree, editor with checks and completion, preview, versions, saving, what others change."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCharFormat
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine.prompt_library import PromptLibrary
from engine.run_prompts import TOOL_FORMAT
from tests.helpers.fake_server import Answer, Received, chat
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, opened, opened_on
from workbench.prompts.page import PromptsPage

pytestmark = pytest.mark.usefixtures("qapp")

BASE = ("react.base_prompt", "en")


def page_of(bench: Workbench) -> PromptsPage:
    (page,) = bench.desk.pages.open
    assert isinstance(page, PromptsPage)
    return page


async def shown(bench: Workbench, place: tuple[str, str]) -> PromptsPage:
    """The page with a prompt in its editor."""
    bench.trigger("prompts")
    page = page_of(bench)
    await bench.until(lambda: page.source is not None)
    page.view.tree.choose(place)
    await bench.until(lambda: page.place == place and page.findings is not None)
    return page


@asynccontextmanager
async def page_with(home: Path, place: tuple[str, str] = BASE) -> AsyncIterator[tuple[Workbench, PromptsPage]]:
    async with opened(home) as bench:
        yield bench, await shown(bench, place)


def write(page: PromptsPage, text: str) -> None:
    """Choose all in the editor and type."""
    page.view.edit.setFocus()
    QTest.keySequence(page.view.edit, "Ctrl+A")
    for number, line in enumerate(text.split("\n")):
        if number:
            QTest.keyClick(page.view.edit, Qt.Key.Key_Return)
        QTest.keyClicks(page.view.edit, line)


def library(home: Path) -> PromptLibrary:
    return PromptLibrary(home / "prompts")


def test_a_prompt_is_edited_checked_previewed_and_saved_by_keyboard(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            QTest.keySequence(bench.window, bench.window.actions_by_id["prompts"].shortcut())
            page = page_of(bench)
            await bench.until(lambda: page.source is not None)
            view, tree = page.view, page.view.tree.view
            assert tree.hasFocus()
            assert not bench.window.docks["run"].isVisible()
            QTest.keyClick(tree, Qt.Key.Key_Down)  # Chinese
            await bench.until(lambda: page.place == ("planner.system_prompt", "zh"))
            await bench.until(lambda: "角色" in view.edit.toPlainText())
            for _ in range(12):
                if not view.edit.hasFocus():
                    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
            QTest.keySequence(view.edit, "Ctrl+A")
            QTest.keyClicks(view.edit, "Plan: {{qu")
            popup = view.edit.completion.popup
            await bench.until(popup.isVisible)
            QTest.keyClick(view.edit, Qt.Key.Key_Tab)
            assert view.edit.toPlainText() == "Plan: {{query}}"
            QTest.keyClicks(view.edit, " {{qeury}}")
            await bench.until(lambda: page.findings and any("qeury" in one.message for one in page.findings.problems))
            await bench.until(lambda: view.preview.text.toPlainText().startswith("Plan: Compare the prices"))
            assert "Nothing fills {{qeury}}" in view.problems.item(0).text()
            wrong = view.edit.document().firstBlock().layout().formats()[-1]
            assert wrong.format.underlineStyle() is QTextCharFormat.UnderlineStyle.WaveUnderline
            assert (wrong.start, wrong.length) == (16, 9)
            assert any("does not" in view.problems.item(row).text() for row in range(view.problems.count()))
            view.problems.setFocus()
            view.problems.setCurrentRow(0)
            QTest.keyClick(view.problems, Qt.Key.Key_Return)
            assert view.edit.textCursor().selectedText() == "{{qeury}}"
            assert bench.window.isWindowModified()
            bench.press("Ctrl+S")
            await bench.until(lambda: not page.is_modified)
            assert library(tmp_path).find("planner.system_prompt", "zh").text == "Plan: {{query}} {{qeury}}"
            assert view.head.differs.text() == "differs from the shipped text"
            bench.press("Ctrl+W")
            await bench.until(lambda: not bench.desk.pages.open)
            assert bench.window.docks["run"].isVisible()

    run_qt(story(), 60)


def test_a_template_is_rendered_in_the_sandbox_and_its_fault_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with page_with(tmp_path, ("report.markdown", "en")) as (bench, page):
            preview = page.view.preview
            await bench.until(lambda: "## prices.csv" in preview.text.toPlainText())
            write(page, "{% for file in files %}{{ file.title }};{% endfor %}{{ ''.__class__ }}")
            await bench.until(lambda: "report.markdown.en" in preview.fault.text)
            write(page, "{% for file in files %}{{ file.title }};{% endfor %}")
            await bench.until(lambda: preview.text.toPlainText() == "prices.csv;")
            assert preview.fault.text == ""
            (files,) = preview.fields.widgets()
            bench.type_text(files, '[{"title": "a"}, {"title": "b"}]')
            await bench.until(lambda: preview.text.toPlainText() == "a;b;")
            bench.type_text(files, "[")
            await bench.until(lambda: "files is no JSON" in preview.fault.text)
            write(page, "one\n{% if %}")
            await bench.until(lambda: page.view.problems.item(0).text().startswith("Line 2:"))

    run_qt(story(), 60)


def test_reset_and_earlier_texts(tmp_path: Path) -> None:
    async def story() -> None:
        async with page_with(tmp_path) as (bench, page):
            shipped = page.view.edit.toPlainText()
            for text in ("one", "two"):
                write(page, text)
                bench.click(page.view.head.save)
                await bench.until(lambda text=text: library(tmp_path).find(*BASE).text == text and not page.is_modified)
            await bench.until(lambda: [known.text for known in page.source.known] == ["two", "one", shipped])
            bench.click(page.view.head.reset)
            await bench.until(lambda: page.source.prompt.shipped and page.view.edit.toPlainText() == shipped)
            assert not (tmp_path / "prompts" / "react.base_prompt.en.md").exists()
            page.view.head.views.setCurrentIndex(1)
            versions = page.view.versions
            assert [known.text for known in page.source.known] == [shipped, "two", "one"]
            versions.list.setFocus()
            QTest.keyClick(versions.list, Qt.Key.Key_End)
            assert {piece.text for piece in versions.difference.pieces if piece.kind == "removed"} == {"one"}
            bench.click(versions.take)
            assert page.view.edit.toPlainText() == "one"
            assert page.is_modified
            QTest.keySequence(page.view.edit, "Ctrl+Z")
            assert page.view.edit.toPlainText() == shipped
            assert not page.is_modified

    run_qt(story(), 60)


def test_what_is_not_saved_comes_back_after_a_crash(tmp_path: Path) -> None:
    async def story() -> None:
        async with page_with(tmp_path) as (bench, page):
            write(page, "unsaved")
            await page.drafts.settle()
            assert bench.desk.pages.modified == {page: "Prompts"}
        async with opened(tmp_path) as bench:
            assert bench.window.tabs.count() == 2  # the tab comes back, too
            bench.trigger("prompts")
            page = page_of(bench)
            await bench.until(lambda: page.place == BASE and page.view.edit.toPlainText() == "unsaved")
            assert ["back" in banner.title() for banner in page.view.banners.banners] == [True]
            bench.trigger("close")
            words = await bench.answer("Close without saving")
            assert words == "Prompts has changes that are not saved."
            await bench.until(lambda: not bench.desk.pages.open)
            assert library(tmp_path).find(*BASE).shipped
        async with opened(tmp_path) as bench:
            page = await shown(bench, BASE)
            assert not page.is_modified

    run_qt(story(), 90)


def test_what_others_change_is_shown_and_never_overwritten_unasked(tmp_path: Path) -> None:
    async def story() -> None:
        async with page_with(tmp_path) as (bench, page):
            library(tmp_path).save(*BASE, "theirs")
            await page._read_again()  # as the watch of the folder does
            await bench.until(lambda: page.view.edit.toPlainText() == "theirs")
            write(page, "mine")
            library(tmp_path).save(*BASE, "theirs again")
            bench.click(page.view.head.save)
            await bench.until(page.view.changed.isVisible)
            assert library(tmp_path).find(*BASE).text == "theirs again"
            assert page.view.edit.toPlainText() == "mine"
            bench.click(button(page.view.changed, "Keep mine"))
            bench.click(page.view.head.save)
            await bench.until(lambda: library(tmp_path).find(*BASE).text == "mine" and not page.is_modified)
            write(page, "mine again")
            library(tmp_path).save(*BASE, "theirs at last")
            await page._read_again()
            await bench.until(page.view.changed.isVisible)
            bench.click(button(page.view.changed, "Take theirs"))
            assert page.view.edit.toPlainText() == "theirs at last"
            assert not page.is_modified

    run_qt(story(), 60)


def test_a_file_that_is_written_elsewhere_is_noticed(tmp_path: Path) -> None:
    async def story() -> None:
        library(tmp_path).save(*BASE, "first")
        async with page_with(tmp_path) as (bench, page):
            await bench.until(lambda: page._watch._watcher.files())
            library(tmp_path).save(*BASE, "second")
            await bench.until(lambda: page.view.edit.toPlainText() == "second")

    run_qt(story(), 60)


def test_a_text_that_cannot_be_read_or_saved_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        folder = tmp_path / "prompts"
        folder.mkdir()
        (folder / "react.base_prompt.en.md").write_bytes(b"\xff")
        async with opened(tmp_path) as bench:
            bench.trigger("prompts")
            page = page_of(bench)
            await bench.until(lambda: page.source is not None)
            page.view.tree.choose(BASE)
            await bench.until(lambda: page.place == BASE)
            assert page.source is None
            assert not page.view.edit.isVisible()
            bench.click(page.view.head.reset)
            await bench.until(lambda: page.source is not None and page.view.edit.isVisible())
            write(page, "new")
            (folder / "react.base_prompt.en.md").mkdir()
            bench.click(page.view.head.save)
            await bench.until(lambda: page.view.banners.banners)
            assert page.is_modified

    run_qt(story(), 60)


def test_a_language_is_added_and_chosen_for_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with page_with(tmp_path) as (bench, page):
            page._add_language(BASE[0], "no language")
            assert "is no name" in page.view.banners.banners[0].title()
            page._add_language(BASE[0], "fr")
            await bench.until(lambda: page.place == (BASE[0], "fr"))
            write(page, "Sois bref.")
            bench.press("Ctrl+S")
            await bench.until(lambda: not page.is_modified and "fr" in library(tmp_path).languages(BASE[0]))
            box = page.view.run_language
            await bench.until(lambda: box.findData("fr") >= 0)
            box.setFocus()
            QTest.keyClicks(box, "fr")
            QTest.keyClick(box, Qt.Key.Key_Return)
            box.activated.emit(box.findData("fr"))
            await bench.until(lambda: bench.engine.settings.prompt_language == "fr")

    run_qt(story(), 60)


def test_the_running_flow_shows_which_text_it_uses(tmp_path: Path) -> None:
    go_on = threading.Event()

    def answer(_request: Received) -> Answer:
        go_on.wait(30)
        return chat("12")

    flow = flow_file(
        tmp_path / "sums.flow.json",
        {"name": "Ask", "template": "2 * 6?", "tools": ["calculator"], "handler": {"type": "tools"}},
        name="Sums",
    )

    async def story() -> None:
        async with opened_on(answer, tmp_path, [flow]) as (bench, _server):
            bench.press("F5")
            await bench.until(lambda: bench.tab.panel.model.prompts)
            tab = bench.tab
            page = await shown(bench, (TOOL_FORMAT, "en"))
            await bench.until(lambda: "is running with this text" in page.view.version.text())
            write(page, "Otherwise")
            bench.press("Ctrl+S")
            await bench.until(lambda: "is running with an earlier text" in page.view.version.text())
            go_on.set()
            await bench.until(lambda: not tab.is_running)
            await bench.until(lambda: page.view.version.text().startswith("Version"))

    try:
        run_qt(story(), 60)
    finally:
        go_on.set()
