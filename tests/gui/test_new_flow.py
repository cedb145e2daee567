"""A flow from nothing: Ctrl+N, the first agent, saving, what a crash keeps; and holding a run by hand."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog

from engine import load_flow
from tests.gui.test_breakpoints import echo, flow
from tests.helpers.canvas import choose
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import button, choose_file, opened, opened_on

pytestmark = pytest.mark.usefixtures("qapp")


def test_a_new_flow_is_built_and_saved_by_keyboard(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home") as bench:
            bench.press("Ctrl+N")
            assert bench.tab.title == "New flow"
            assert not bench.tab.document.is_modified
            bench.press("Space")
            choose(bench.tab.editor, "conversation")
            assert len(bench.tab.document.spec.agents) == 1
            await bench.reactivate()
            bench.press("Ctrl+S")
            dialog = await bench.dialog(QFileDialog)
            assert dialog.windowTitle() == "Save flow as"
            await choose_file(bench, tmp_path / "mine.flow.json")
            await bench.until(lambda: bench.tab.source == str(tmp_path / "mine.flow.json"))
            await bench.saved()
            assert load_flow(tmp_path / "mine.flow.json").spec == bench.tab.document.spec

    run_qt(story(), 60)


def test_new_flows_are_told_apart_and_not_looked_for_at_the_next_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home") as bench:
            for _ in range(3):
                bench.press("Ctrl+N")
            assert [tab.title for tab in bench.desk.documents.tabs][1:] == ["New flow", "New flow 2", "New flow 3"]
            explorer = bench.window.explorer
            await bench.until(lambda: {"New flow", "New flow 2"} <= {item.text for item in explorer.items("flow")})
            first = bench.desk.documents.tabs[1]
            await bench.desk.documents.open(first.source)
            assert bench.tab is first
            assert bench.settings.open_documents == ["release-announcement"]
        async with opened(tmp_path / "home") as bench:
            assert [tab.source for tab in bench.desk.documents.tabs] == ["release-announcement"]
            assert bench.banner_texts() == []

    run_qt(story(), 60)


def test_what_a_crash_keeps_of_a_new_flow_is_offered(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home") as bench:
            bench.press("Ctrl+N")
            bench.press("Space")
            choose(bench.tab.editor, "conversation")
            kept = bench.tab.document.spec
            bench.tab.document.keep_now()
            await bench.tab.document.settled()
        async with opened(tmp_path / "home") as bench:
            await bench.until(lambda: bench.banners)
            assert "a new flow" in bench.banner_texts()[0]
            bench.click(button(bench.banners[0], "Open it"))
            await bench.until(lambda: bench.tab.document.spec == kept)
            assert bench.tab.title == "New flow •" or bench.tab.document.is_modified
            assert len(bench.desk.documents.tabs) == 2

    run_qt(story(), 60)


def test_a_run_is_held_and_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(echo, tmp_path / "home", [flow(tmp_path / "flow")]) as (bench, server):
            tab, actions = bench.tab, bench.window.actions_by_id
            assert not actions["pause"].isEnabled()
            bench.press("F5")
            bench.press("F6")
            assert actions["pause"].isChecked()
            await bench.until(lambda: tab.is_paused)
            assert len(server.requests) < 2
            bench.press("F6")
            assert await bench.run_end() == "finished"
            await bench.until(lambda: not actions["pause"].isChecked())
            await bench.shows("re two re one")

    run_qt(story(), 60)
