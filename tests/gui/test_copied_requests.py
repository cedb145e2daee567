"""The request of a call on the clipboard: from the tab Prompt and from the menu of its line, also of a reopened run."""

from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QTreeView

from tests.helpers.fake_server import Answer, Received, chat
from tests.helpers.menus import choose, explorer_menu, menu_at, offers
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened_on

pytestmark = pytest.mark.usefixtures("qapp")

QUOTED = "It's $HOME and 你好."


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def show_prompt(bench: Workbench) -> None:
    bench.tab.panel.show_tab("Prompt")


async def row_menu(bench: Workbench, agent: str) -> QMenu:
    tree: QTreeView = bench.tab.panel.tree
    rows = [bench.tab.panel.tree.rows.index(number, 0) for number in range(bench.tab.panel.tree.rows.rowCount())]
    index = next(index for index in rows if bench.tab.panel.tree.rows.row_of(index).agent == agent)
    return await menu_at(bench, tree.viewport(), tree.visualRect(index).center())


def test_what_was_sent_is_copied_from_the_tab_and_from_the_menu(tmp_path: Path) -> None:
    bodies: list[bytes] = []

    def answer(request: Received) -> Answer:
        bodies.append(request.body)
        return chat("Yes.")

    path = flow_file(tmp_path / "one.flow.json", {"name": "First", "template": QUOTED})

    async def story() -> None:
        async with opened_on(answer, tmp_path / "home", [path]) as (bench, server):
            show_prompt(bench)
            buttons = bench.tab.panel.prompt.copy_buttons
            assert not buttons["curl"].isEnabled()
            assert await bench.run_to_end() == "finished"
            await bench.until(lambda: buttons["curl"].isVisible() and buttons["curl"].isEnabled())
            bench.click(buttons["curl"])
            quoted = bodies[0].decode().replace("'", "'\\''")
            assert clipboard().startswith(
                f"curl --no-buffer --globoff --request POST '{server.url}/v1/chat/completions'"
            )
            assert clipboard().endswith(f"--data-raw '{quoted}'\n")
            bench.click(buttons["python"])
            assert "httpx.stream" in clipboard()
            program = clipboard()
            await choose(bench, await row_menu(bench, "First"), "Copy as curl")
            assert clipboard().endswith(f"--data-raw '{quoted}'\n")
            await choose(bench, await row_menu(bench, "First"), "Copy as Python")
            assert clipboard() == program

    run_qt(story(), 60)


def test_a_reopened_run_can_be_copied_and_an_old_record_says_why_not(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "one.flow.json", {"name": "First", "template": QUOTED * 40})

    async def story() -> None:
        async with opened_on(chat("Yes."), tmp_path / "home", [path]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            show_prompt(bench)
            buttons = bench.tab.panel.prompt.copy_buttons
            await bench.until(lambda: buttons["curl"].isVisible() and buttons["curl"].isEnabled())
            bench.click(buttons["curl"])
            first = clipboard()
            assert await bench.run_to_end() == "finished"
            await bench.until(lambda: len(bench.window.explorer.items("run")) == 2)
            oldest = bench.window.explorer.items("run")[-1].id
            await choose(bench, await explorer_menu(bench, "run", oldest), "Open")
            await bench.until(lambda: bench.tab.panel.model.run_id == oldest)
            show_prompt(bench)
            shown = bench.tab.panel.prompt
            await bench.until(lambda: shown.isVisible() and shown.copy_buttons["curl"].isEnabled())
            QGuiApplication.clipboard().setText("")
            bench.click(shown.copy_buttons["curl"])
            assert clipboard() == first
            attempt = next(iter(bench.tab.panel.model.steps[1].branches.values())).attempts[0]
            attempt.request = None
            shown.show_attempt(attempt)
            assert shown.copy_buttons["curl"].toolTip() == "No request is recorded that could be copied"
            menu = await row_menu(bench, "First")
            assert "Copy as curl" in offers(menu)
            action = next(action for action in menu.actions() if action.text() == "Copy as curl")
            assert (action.isEnabled(), action.toolTip()) == (False, shown.copy_buttons["curl"].toolTip())
            menu.close()

    run_qt(story(), 60)
