"""The Requests tab: a line for each request while it goes on and when it is over, and the way to its branch."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.completion import Phase
from engine.errors import Attempted
from engine.events import AnyEvent, RequestFailed, Statistics
from tests.helpers.fake_server import chat
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.run_events import Script, fan_out, statistics
from tests.helpers.window import opened_on
from workbench.profiles.page import ProfilesPage
from workbench.run_panel.panel import RunPanel
from workbench.run_panel.requests_view import AGENT, COST, END, HOST, NUMBER, TIME, TOKENS_IN, WAITED, RequestsView


@pytest.fixture
def panel(qtbot: QtBot) -> RunPanel:
    made = RunPanel()
    page = RequestsView(made)
    page.branch_chosen.connect(made.choose_branch)
    made.add_page("Requests", page)
    qtbot.addWidget(made)
    made.resize(1500, 400)
    made.show()
    return made


def page_of(panel: RunPanel) -> RequestsView:
    (page,) = panel.findChildren(RequestsView)
    return page


def cells(panel: RunPanel, row: int, *columns: int) -> list[str]:
    model = page_of(panel).model
    return [str(model.index(row, column).data()) for column in columns]


def refused(script: Script, at: float) -> AnyEvent:
    first = Attempted(profile="small", host="here:1", outcome="transient", status=503, sent=20_000, received=7)
    attempts = (first, replace(first, waited=1.5))
    return RequestFailed(
        **script.place(at), attempt=1, profile="small", model="tiny-1", error="transient", attempts=attempts,
        statistics=Statistics(), provider="OAI_CHAT_COMPLETION", memory=50_000_000,
    )  # fmt: skip


def test_a_request_is_followed_from_its_queue_to_its_end(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    panel.apply([script.run(), script.begin("Writer\u202e", 0), *script.ask(1), script.phase(Phase.QUEUED, 1)])
    assert cells(panel, 0, NUMBER, AGENT, TIME, END) == ["1", "Writer‹RLO›", "", "queued"]
    panel.apply([script.phase(Phase.READING_PROMPT, 3)])
    assert cells(panel, 0, END) == ["reading prompt"]
    panel.apply([script.answer(4, "Hello", statistics=statistics(seconds=1.0))])
    assert cells(panel, 0, WAITED, TIME, TOKENS_IN, END) == ["2.0 s", "1.0 s", "100", "DONE"]
    panel.clear()
    assert page_of(panel).model.rowCount() == 0


def test_a_request_that_failed_says_why_and_has_its_attempts_in_the_tip(panel: RunPanel) -> None:
    script = Script()
    panel.start("Flow")
    panel.apply([script.run(), script.begin("Writer", 0), *script.ask(1), refused(script, 4)])
    shown = cells(panel, 0, HOST, WAITED, TIME, TOKENS_IN, COST, END)
    assert shown == ["here:1", "1.5 s", "3.0 s", "", "", "transient"]
    tip = str(page_of(panel).model.index(0, END).data(Qt.ItemDataRole.ToolTipRole))
    for line in (
        "Sent: 40 kB",
        "Received: 14 B",
        "Memory of the program: 50 MB",
        "Attempt: small at here:1: transient",
    ):
        assert line in tip
    panel.show_tab("Requests")
    panel.copy_shown()
    head, line = QGuiApplication.clipboard().text().splitlines()
    assert head.startswith("No.\tAgent\t")
    assert line.startswith("1\tWriter\tsmall\there:1\t1.5 s")


def test_a_click_shows_the_branch_and_a_narrow_panel_leaves_columns_out(panel: RunPanel) -> None:
    panel.show_run("Flow", list(fan_out(Script(), ["a", "b", "c"])))
    panel.show_tab("Requests")
    page = page_of(panel)
    rows = page.model.rowCount()
    assert rows >= 3
    place = page.table.visualRect(page.model.index(rows - 1, AGENT)).center()
    QTest.mouseClick(page.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    row = panel.tree.current
    assert row is not None
    assert row.only_branch is not None
    assert (row.only_branch.step, row.only_branch.path) == page.model.place(rows - 1)
    shown = []
    for width in (2200, 900):
        page.resize(width, 300)
        shown.append([not page.table.isColumnHidden(column) for column in range(len(page.model.names))].count(True))
    assert shown[0] == len(page.model.names) > shown[1]
    assert not page.table.isColumnHidden(END)


def test_what_a_profile_used_since_the_start_is_told_with_its_settings(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "one.flow.json", {"name": "First", "template": "Say yes."})

    async def story() -> None:
        async with opened_on(chat("Yes."), tmp_path / "home", [path]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            explorer = bench.window.explorer
            await bench.until(lambda: [one for one in explorer.items("profile") if one.id == "fake"])
            explorer.item_activated.emit(next(one for one in explorer.items("profile") if one.id == "fake"))
            page = bench.desk.pages.current
            assert isinstance(page, ProfilesPage)
            await bench.until(lambda: "Since the start: Requests 1," in page.view.info.text())

    run_qt(story(), 60)
