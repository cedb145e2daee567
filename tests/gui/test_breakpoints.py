"""Breakpoints as a person uses them: F9, a run that waits, F10, an edited context, F5."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QAbstractButton

from tests.helpers.fake_server import Answer, Received, chat
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import button, opened_on
from workbench.paused_form import PausedForm

pytestmark = pytest.mark.usefixtures("qapp")


def echo(request: Received) -> Answer:
    return chat("re " + request.json()["messages"][-1]["content"])


def flow(folder: Path) -> Path:
    folder.mkdir(parents=True)
    first = {
        "name": "First",
        "template": "one",
        "handler": {"type": "text", "key": "note"},
        "routes": [{"to": "Second"}],
    }
    second = {"name": "Second", "template": "two {{note}}", "handler": {"type": "text", "key": "end"}}
    return flow_file(folder / "held.flow.json", first, second)


def test_a_run_waits_is_edited_stepped_and_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(echo, tmp_path / "home", [flow(tmp_path / "flow")]) as (bench, server):
            tab, actions = bench.tab, bench.window.actions_by_id
            bench.click_agent("First")
            bench.press("F9")
            assert tab.document.spec.editor.breakpoints == ("First",)
            assert not actions["step"].isEnabled()
            bench.press("F5")
            await bench.until(lambda: tab.is_paused)
            await bench.until(lambda: tab.panel.stream.banner.isVisible())
            assert bench.card_state("First") == "paused"
            assert len(server.requests) == 0
            await bench.until(actions["step"].isEnabled)
            bench.press("F10")
            await bench.until(lambda: [one.agent for one in tab.breakpoints.waiting] == ["Second"])
            await bench.until(lambda: tab.panel.stream.banner.isVisible())
            edit: QAbstractButton = button(tab.panel.stream.banner, "Edit context…")
            bench.click(edit)
            form = await bench.dialog(PausedForm)
            form.field("note").setPlainText("edited by hand")
            bench.click(button(form, "Apply"))
            await bench.reactivate()
            assert actions["run"].isEnabled()
            bench.press("F5")
            assert await bench.run_end() == "finished"
            await bench.shows("re two edited by hand")
            assert not tab.is_paused
            assert 'The context was edited before "Second": note.' in tab.panel.model.warnings
            bench.click_agent("First")
            bench.press("F9")
            assert tab.document.spec.editor.breakpoints == ()
            bench.press("Ctrl+Z")
            assert tab.document.spec.editor.breakpoints == ("First",)

    run_qt(story(), 60)


def test_stop_ends_a_run_that_waits(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(echo, tmp_path / "home", [flow(tmp_path / "flow")]) as (bench, _server):
            bench.click_agent("Second")
            bench.press("F9")
            bench.press("F5")
            await bench.until(lambda: bench.tab.is_paused)
            bench.trigger("stop")
            assert await bench.run_end() == "stopped"
            assert not bench.tab.is_paused
            assert bench.card_state("Second") == "stopped"

    run_qt(story(), 60)
