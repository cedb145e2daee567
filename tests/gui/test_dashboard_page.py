"""The dashboard: opened by key, figures of runs, from a bar or a line to its run, the run that goes on, CSV."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest

from engine import EngineSettings, Spending
from engine.events import AnyEvent, CompletionFinished
from engine.folders import Folders
from engine.run_history import RunHistory
from engine.statistics import CostProvenance
from tests.helpers.fake_server import chat, delta
from tests.helpers.history_events import run_events
from tests.helpers.model_answers import flow_file, stalled
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, choose_file, opened, opened_on
from workbench.dashboard.charts import BarChart
from workbench.dashboard.page import DashboardPage
from workbench.dashboard.table import Shown

pytestmark = pytest.mark.usefixtures("qapp")


def priced(event: AnyEvent, profile: str, provenance: CostProvenance) -> AnyEvent:
    """A request to this profile that cost a quarter, or nobody knows what."""
    if not isinstance(event, CompletionFinished):
        return event
    cost = Decimal(0) if provenance is CostProvenance.UNKNOWN else Decimal("0.25")
    used = msgspec.structs.replace(event.statistics, cost=cost, provenance=provenance)
    return msgspec.structs.replace(event, profile=profile, statistics=used)


async def recorded(home: Path) -> None:
    """Two runs of noon three days ago, the second to a profile without a price."""
    day = datetime.now().astimezone().date() - timedelta(days=3)
    noon = datetime.combine(day, time(12)).astimezone().timestamp()
    home.mkdir(parents=True, exist_ok=True)
    history = RunHistory(Folders(home).history)
    kinds = (("run-1", "Letters", "dear", CostProvenance.MEASURED), ("run-2", "Poems", "odd", CostProvenance.UNKNOWN))
    for run_id, flow, profile, provenance in kinds:
        await history.begin(run_id, flow, "{}", {}, {})
        for event in run_events(run_id, 2, noon):
            history.record(priced(event, profile, provenance))
    assert await history.close()
    with closing(sqlite3.connect(Folders(home).history)) as connection, connection:
        connection.execute("UPDATE runs SET started = ?", (noon,))  # a run is said to begin when it is recorded


@asynccontextmanager
async def dashboard(home: Path) -> AsyncIterator[tuple[Workbench, DashboardPage]]:
    async with opened(home) as bench:
        bench.trigger("dashboard")
        page = page_of(bench)
        await bench.until(lambda: page.found.shares and not page.is_reading)
        yield bench, page


def page_of(bench: Workbench) -> DashboardPage:
    (page,) = bench.desk.pages.open
    assert isinstance(page, DashboardPage)
    return page


def click_bar(chart: BarChart, day: int, height: float) -> None:
    """Click into the bar of a day."""
    place = chart.plot.mapFromScene(chart.plot.getViewBox().mapViewToScene(QPointF(day, height)))
    QTest.mouseClick(chart.plot.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_without_records_it_says_what_to_do(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            QTest.keySequence(bench.window, bench.window.actions_by_id["dashboard"].shortcut())
            page = page_of(bench)
            await bench.until(lambda: page.view.empty.isVisible() and not page.is_reading)
            assert page.view.span.hasFocus()
            assert not page.view.export.isEnabled()

    run_qt(story())


def test_unknown_costs_are_lower_bounds_and_filters_narrow(tmp_path: Path) -> None:
    async def story() -> None:
        await recorded(tmp_path)
        async with dashboard(tmp_path) as (bench, page):
            view = page.view
            assert view.figures.cost.figure.text() == "≥ $0.50"
            assert view.figures.cost.remark.text() == "one profile has no price"
            assert view.figures.calls.figure.text() == "4"
            assert any(view.cost.data.bounds)
            assert [one.name for one in view.cost.data.series] == ["dear"]
            view.profile.setFocus()
            QTest.keyClicks(view.profile, "odd")
            await bench.until(lambda: view.figures.cost.figure.text() == "unknown" and not page.is_reading)
            assert not view.cost.has_data()
            assert view.cost.nothing.isVisible()
            view.profile.setCurrentIndex(0)
            await bench.until(lambda: not page.is_reading)
            view.flow.setCurrentIndex(view.flow.findData("Letters"))
            await bench.until(lambda: view.figures.cost.figure.text() == "$0.50")

    run_qt(story())


def test_a_bar_leads_to_its_runs_and_a_line_to_the_run(tmp_path: Path) -> None:
    async def story() -> None:
        await recorded(tmp_path)
        async with dashboard(tmp_path) as (bench, page):
            view = page.view
            day = next(place for place, value in enumerate(view.cost.data.series[0].values) if value)
            await bench.until(lambda: view.cost.plot is not None and view.cost.plot.isVisible())
            click_bar(view.cost, day, 0.2)
            await bench.until(lambda: view.shown is Shown.RUNS)
            await bench.until(lambda: [row.texts[1] for row in view.table.figures.rows] == ["Letters"])
            assert view.note.text().endswith(", dear")
            await bench.until(view.table.hasFocus)
            bench.click(view.back)
            assert {row.texts[1] for row in view.table.figures.rows} == {"Letters", "Poems"}
            page.run_wanted.disconnect()
            wanted: list[str] = []
            page.run_wanted.connect(wanted.append)
            QTest.keyClick(view.table, Qt.Key.Key_Return)
            assert wanted == [view.table.figures.rows[0].values[-1]]

    run_qt(story())


def test_spreads_lead_to_runs_by_keyboard(tmp_path: Path) -> None:
    async def story() -> None:
        await recorded(tmp_path)
        async with dashboard(tmp_path) as (bench, page):
            view = page.view
            view.rows.setFocus()
            QTest.keyClick(view.rows, Qt.Key.Key_Right)
            assert view.shown is Shown.SPREADS
            assert {row.values[1] for row in view.table.figures.rows} == {"dear", "odd"}
            view.table.setFocus()
            QTest.keyClick(view.table, Qt.Key.Key_Return)
            await bench.until(lambda: view.shown is Shown.RUNS)
            assert [row.texts[1] for row in view.table.figures.rows] == ["Letters"]

    run_qt(story())


def test_the_table_is_exported_with_unknown_costs_empty(tmp_path: Path) -> None:
    async def story() -> None:
        await recorded(tmp_path)
        async with dashboard(tmp_path) as (bench, page):
            file = tmp_path / "days.csv"
            bench.click(button(page, "Export CSV…"))
            await choose_file(bench, file)
            await bench.until(lambda: "days.csv" in page.view.state.text())
            head, *lines = file.read_text("utf-8").splitlines()
            assert head.startswith('"day","profile","requests"')
            cost = head.split(",").index('"cost"')
            found = {line.split(",")[1]: line.split(",")[cost] for line in lines}
            assert found['"odd"'] == '""'
            assert Decimal(found['"dear"']) == Decimal("0.50")

    run_qt(story())


def test_the_run_that_goes_on_is_drawn_and_counts_against_budgets(tmp_path: Path) -> None:
    async def story() -> None:
        home = tmp_path / "home"
        folders = Folders(home)
        folders.root.mkdir(parents=True)
        limit = Spending(cost=Decimal(1), requests=10)
        EngineSettings(run_budget=limit, day_budget=limit).save(folders.engine_settings)
        path = flow_file(tmp_path / "a.flow.json", {"name": "Writer", "template": "Write."}, name="Letters")
        async with opened_on(chat("some ", "words", usage=(40, 20)), home, [path]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            bench.trigger("dashboard")
            page = page_of(bench)
            await bench.until(lambda: page.found.shares and not page.is_reading)
            view = page.view
            assert [line.name for line in view.live.rate.lines] == ["whole"]
            assert view.live.cost.has_data()
            names = [bar.accessibleName() for bar in view.budgets.bars()]
            assert "Calls today: 1 of 10" in names
            assert "Calls, newest run: 1 of 10" in names
            tab = bench.desk.documents.tabs[0]
            bench.desk.run(tab)
            await bench.until(lambda: page.found.total.used.requests == 2 and not page.is_reading)
            view.list_rows(Shown.RUNS)
            tabs = len(bench.desk.documents.tabs)
            QTest.keyClick(view.table, Qt.Key.Key_Return)
            await bench.until(lambda: len(bench.desk.documents.tabs) > tabs)

    run_qt(story())


def test_the_first_run_of_all_is_seen_while_it_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        path = flow_file(tmp_path / "a.flow.json", {"name": "Writer", "template": "Write."}, name="Letters")
        async with opened_on(stalled(delta("some words")), tmp_path / "home", [path]) as (bench, _server):
            bench.trigger("dashboard")
            page = page_of(bench)
            await bench.until(lambda: page.view.empty.isVisible() and not page.is_reading)
            tab = bench.desk.documents.tabs[0]
            bench.desk.run(tab)
            await bench.until(lambda: page.view.live.rate.isVisible() and page.view.live.rate.has_data())
            assert not page.view.empty.isVisible()
            assert page.view.live.rate.run_id == tab.branches.run_id
            tab.runs.stop()
            await bench.until(lambda: not tab.is_running)

    run_qt(story())
