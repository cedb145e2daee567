"""What a right click or the menu key offers, and that each offer does what it says."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QApplication, QMenu, QTreeView

from tests.helpers.fake_server import chat, failure
from tests.helpers.menus import agent_menu, choose, explorer_menu, menu_at, offers
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened, opened_on

pytestmark = pytest.mark.usefixtures("qapp")


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def two_agents(folder: Path) -> Path:
    first = {"name": "First", "template": "Say yes.", "routes": [{"to": "Second"}]}
    return flow_file(folder / "two.flow.json", first, {"name": "Second", "template": "Say no."})


def test_an_agent_can_be_renamed_copied_and_shown_in_the_run(tmp_path: Path) -> None:
    path = two_agents(tmp_path)

    async def story() -> None:
        async with opened_on(chat("Yes."), tmp_path / "home", [path]) as (bench, _server):
            menu = await agent_menu(bench, "Second")
            assert bench.tab.editor.selected() == ("Second",)
            assert offers(menu) == [
                "Edit prompt", "Rename", "Add agent after…", "Connect to…", "Remove link…", "Start here",
                "Mute", "Bypass", "Breakpoint", "Frame", "Cut", "Copy", "Duplicate", "Save agent…",
                "Delete", "Delete and reconnect",
                "Run from here", "Run from here with changes…", "Freeze",
                "Copy name", "Copy prompt", "Fit selection",
            ]  # fmt: skip
            await choose(bench, menu, "Copy prompt")
            assert clipboard() == "Say no."
            await choose(bench, await agent_menu(bench, "Second"), "Copy name")
            assert clipboard() == "Second"
            await choose(bench, await agent_menu(bench, "Second"), "Rename")
            field = bench.tab.inspector.agent_form.name
            assert (QApplication.focusWidget(), field.selectedText()) == (field, "Second")
            bench.tab.editor.view.setFocus()
            await bench.run_to_end()
            await choose(bench, await agent_menu(bench, "First"), "Show in Run")
            row = bench.tab.panel.tree.current
            assert row is not None
            assert row.agent == "First"

    run_qt(story(), 60)


def test_the_empty_canvas_offers_run_and_views_and_several_agents_their_names(tmp_path: Path) -> None:
    path = two_agents(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            viewport = bench.tab.editor.view.viewport()
            menu = await menu_at(bench, viewport, QPoint(viewport.width() // 2, 6))
            assert {"Add agent…", "Paste", "Tidy up", "Run", "Find…"} <= set(offers(menu))
            bench.tab.editor.zoom_in()
            await choose(bench, menu, "Actual size")
            assert bench.tab.editor.view.zoom == 1.0
            bench.tab.editor.select_all()
            menu = await agent_menu(bench, "First")
            assert bench.tab.editor.selected() == ("First", "Second")
            await choose(bench, menu, "Copy names")
            assert clipboard() == "First\nSecond"

    run_qt(story(), 60)


def test_the_menu_key_opens_the_menu_of_the_current_agent(tmp_path: Path) -> None:
    path = two_agents(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.tab.editor.select(["Second"])
            menu = await menu_at(bench, bench.tab.editor.view.viewport(), QPoint(3, 3), by_key=True)
            await choose(bench, menu, "Copy name")
            assert clipboard() == "Second"

    run_qt(story(), 60)


RUN_OFFERS = (
    "Open", "Resume", "Repeat", "Repeat fresh", "Compare with…", "Export as", "Delete…", "Copy number of the run",
)  # fmt: skip


async def row_menu(bench: Workbench, agent: str) -> QMenu:
    tree = bench.tab.panel.tree
    rows = [tree.rows.index(number, 0) for number in range(tree.rows.rowCount())]
    index = next(index for index in rows if tree.rows.row_of(index).agent == agent)
    return await menu_at(bench, tree.viewport(), tree.visualRect(index).center())


def test_answers_and_errors_of_a_run_can_be_copied(tmp_path: Path) -> None:
    path = two_agents(tmp_path)
    replies = iter((chat("Yes, of course."), failure(401, '{"error": {"message": "No such key."}}')))

    async def story() -> None:
        async with opened_on(lambda _request: next(replies), tmp_path / "home", [path]) as (bench, _server):
            assert await bench.run_to_end() == "failed"
            menu = await row_menu(bench, "First")
            assert "Copy error" not in offers(menu)
            await choose(bench, menu, "Copy answer")
            assert clipboard() == "Yes, of course."
            menu = await row_menu(bench, "Second")
            assert not menu.actions()[0].isEnabled()  # no answer came
            await choose(bench, menu, "Copy error")
            branch = bench.tab.panel.model.failed_branches()[0]
            assert branch.error is not None
            assert clipboard().startswith(f"{branch.error.message}\n{branch.error.hint}\n")
            await choose(bench, await row_menu(bench, "Second"), "Show on the canvas")
            assert bench.tab.editor.selected() == ("Second",)

    run_qt(story(), 60)


def test_the_explorer_offers_what_fits_each_thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: shown.append(QUrl.toLocalFile(url)))
    path = two_agents(tmp_path)

    def checked(menu: QMenu, expected: Sequence[str]) -> QMenu:
        assert offers(menu) == list(expected)
        return menu

    async def story() -> None:
        async with opened_on(chat("Yes."), tmp_path / "home", [path]) as (bench, _server):
            own = checked(await explorer_menu(bench, "flow", str(path)), ["Open", "Close", "Copy path", "Show folder"])
            await choose(bench, own, "Show folder")
            sample = checked(await explorer_menu(bench, "flow", "thinking"), ["Open", "Copy name for the command line"])
            await choose(bench, sample, "Copy name for the command line")
            assert clipboard() == "thinking"
            profile = checked(
                await explorer_menu(bench, "profile", "fake"),
                ["Edit", "Open file", "Copy name", "Reload profiles"],
            )
            await choose(bench, profile, "Open file")
            assert shown == [str(tmp_path), str(bench.folders.profiles / "fake.properties")]
            checked(
                await explorer_menu(bench, "profile", "embedded-chat"),
                ["Edit", "Copy name", "Reload profiles"],
            ).close()
            await bench.run_to_end()
            await bench.until(lambda: bench.window.explorer.items("run"))
            run_id = bench.window.explorer.items("run")[0].id
            run = checked(await explorer_menu(bench, "run", run_id), RUN_OFFERS)
            await choose(bench, run, "Copy number of the run")
            assert clipboard() == run_id
            await choose(bench, await explorer_menu(bench, "flow", str(path)), "Close")
            await bench.until(lambda: path not in [Path(tab.source) for tab in bench.desk.documents.tabs])
            tree = bench.window.explorer.findChild(QTreeView)
            assert isinstance(tree, QTreeView)
            tree.customContextMenuRequested.emit(QPoint(5, tree.viewport().height() + 5000))
            beside = QApplication.activePopupWidget()
            assert isinstance(beside, QMenu)
            assert offers(beside) == ["Open flow…", "Open sample", "Reload profiles"]
            beside.close()

    run_qt(story(), 60)
