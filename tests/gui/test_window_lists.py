"""What the window lists: samples, tabs, flows, profiles and recorded runs."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QStatusTipEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QTreeView

from engine.folders import Folders
from tests.helpers.fake_server import chat
from tests.helpers.model_answers import flow_file, write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, opened, opened_on
from workbench.designer.view import FlowView
from workbench.explorer import Explorer, ExplorerItem
from workbench.flow_tab import FlowTab
from workbench.overview import Overview
from workbench.theme import theme
from workbench.widgets.empty_place import EmptyPlace

pytestmark = pytest.mark.usefixtures("qapp")


def flow_ids(bench: Workbench) -> list[str]:
    return [item.id for item in bench.window.explorer.items("flow")]


async def recorded_run(bench: Workbench) -> ExplorerItem:
    """Run the flow in front and wait until the explorer lists the run."""
    assert await bench.run_to_end() == "finished"
    await bench.until(lambda: [item.icon for item in bench.window.explorer.items("run")[:1]] == ["ok"])
    return bench.window.explorer.items("run")[0]


def one_agent(folder: Path) -> Path:
    return flow_file(folder / "file-name.flow.json", {"name": "Writer", "template": "Write."}, name="Two words")


# -- samples ----------------------------------------------------------------------------------------------------------


def test_only_samples_that_can_run_are_offered(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            bench.desk._sample_menu.aboutToShow.emit()
            offered = [action.text() for action in bench.desk._sample_menu.actions()]
            assert "Release announcement" in offered
            listed = flow_ids(bench)
            assert len(offered) == len(listed)
            for name in listed:
                tab = await bench.desk.documents.open(name)
                assert tab is not None
                assert not [problem for problem in tab.check() if problem.severity == "error"], name

    run_qt(story(), 60)


@pytest.mark.parametrize(
    ("faulty", "told"),
    [
        (1, "which is not an agent."),
        (2, "which is not an agent. Another problem stands in its way, too."),
        (3, "which is not an agent. 2 more problems stand in its way, too."),
    ],
)
def test_a_flow_that_cannot_run_says_so_in_whole_sentences(faulty: int, told: str, tmp_path: Path) -> None:
    agents = [{"name": f"A{number}", "template": "x", "routes": [{"to": "Gone"}]} for number in range(faulty)]
    path = flow_file(tmp_path / "faulty.flow.json", *agents)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.press("F5")
            await bench.until(lambda: any("cannot run" in text for text in bench.banner_texts()))
            title = next(banner.title() for banner in bench.banners if "cannot run" in banner.title())
            assert title.endswith(told)

    run_qt(story(), 60)


# -- recorded runs ----------------------------------------------------------------------------------------------------


def test_a_recorded_run_has_a_tab_of_its_own_and_is_no_flow(tmp_path: Path) -> None:
    path = one_agent(tmp_path)

    async def story() -> None:
        async with opened_on(chat("Done."), tmp_path / "home", [path]) as (bench, _server):
            run = await recorded_run(bench)
            flows = flow_ids(bench)
            bench.desk.overview.open_item(run)
            await bench.until(lambda: len(bench.desk.documents.tabs) == 2)
            await bench.settle()
            tabs = bench.window.tabs
            assert tabs.tabText(0) == "Two words"
            assert tabs.tabText(1).startswith("Two words, ")
            assert tabs.tabText(1)[-5:].replace(":", "").isdigit()
            assert (tabs.tabBar().tabData(0), tabs.tabBar().tabData(1)) == ("flow", "history")
            assert bench.window.windowTitle().startswith(tabs.tabText(1))
            await bench.desk.overview.read_lists()
            assert flow_ids(bench) == flows
            bench.press("Ctrl+W")
            await bench.until(lambda: len(bench.desk.documents.tabs) == 1)
            await bench.desk.overview.read_lists()
            assert flow_ids(bench) == flows

    run_qt(story(), 60)


def test_a_closed_sample_is_listed_once_more_without_its_tab(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            before = {item.id: item.color for item in bench.window.explorer.items("flow")}
            bench.press("Ctrl+W")
            await bench.until(lambda: not bench.desk.documents.tabs)
            assert before["release-announcement"] == "accent"
            after = before | {"release-announcement": "text2"}
            await bench.until(lambda: {item.id: item.color for item in bench.window.explorer.items("flow")} == after)

    run_qt(story(), 60)


# -- the explorer -----------------------------------------------------------------------------------------------------


def test_runs_stand_above_profiles_and_begin_with_their_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(chat("Done."), tmp_path / "home", [one_agent(tmp_path)]) as (bench, _server):
            run = await recorded_run(bench)
            tree = bench.window.explorer._tree
            heads = [tree.model().index(row, 0).data() for row in range(tree.model().rowCount())]
            assert heads == ["FLOWS", "SAVED AGENTS", "RUNS", "PROFILES", "PAGES"]
            assert run.text[:5].replace(":", "").isdigit()
            assert run.text.endswith("  Two words")
            assert "Finished" in run.tip
            assert tree.textElideMode() == Qt.TextElideMode.ElideRight

    run_qt(story(), 60)


def test_folded_groups_stay_folded_until_they_are_opened(tmp_path: Path) -> None:
    def folds(bench: Workbench) -> list[bool]:
        tree = bench.window.explorer._tree
        return [not tree.isExpanded(tree.model().index(row, 0)) for row in range(3)]

    async def story() -> None:
        async with opened(tmp_path) as bench:
            assert folds(bench) == [False, False, False]
            tree = bench.window.explorer._tree
            tree.collapse(tree.model().index(2, 0))
            bench.window.explorer._filter.setText("sort")
            assert not any(folds(bench)[: tree.model().rowCount()])
            bench.window.explorer._filter.clear()
            await bench.desk.overview.read_lists()
            assert folds(bench) == [False, False, True]
        async with opened(tmp_path) as bench:
            assert folds(bench) == [False, False, True]
            tree = bench.window.explorer._tree
            tree.expand(tree.model().index(2, 0))
            assert bench.settings.folded == []

    run_qt(story(), 60)


def test_a_saved_flow_is_listed_by_its_name_with_the_file_as_tip(tmp_path: Path) -> None:
    path = one_agent(tmp_path)

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            bench.press("Ctrl+W")
            await bench.until(lambda: not bench.desk.documents.tabs)
            await bench.desk.overview.read_lists()
            item = next(item for item in bench.window.explorer.items("flow") if item.id == str(path))
            assert (item.text, item.tip) == ("Two words", str(path))
            path.write_text("no flow", "utf-8")
            await bench.desk.overview.read_lists()
            item = next(item for item in bench.window.explorer.items("flow") if item.id == str(path))
            assert item.text == "file-name"

    run_qt(story(), 60)


def test_profiles_without_a_key_look_unlike_faulty_ones_and_reloading_counts_them(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    write_profile(folders, "keyless", "http://127.0.0.1:9", apiKey="${NO_SUCH_KEY_ANYWHERE}")
    write_profile(folders, "faulty", "http://127.0.0.1:9", temperature="hot")

    async def story() -> None:
        async with opened(tmp_path) as bench:
            looks = {item.id: (item.icon, item.color) for item in bench.window.explorer.items("profile")}
            assert looks["keyless"] == ("key", "muted")
            assert looks["faulty"] == ("warning", "err")
            bench.trigger("reload_profiles")
            keyless = sum(icon == "key" for icon, _color in looks.values())
            told = f"{len(looks)} profiles, {keyless} without a key, 1 with problems"
            assert bench.window.status.note() == told

    run_qt(story(), 60)


# -- docks ------------------------------------------------------------------------------------------------------------


def test_a_rail_click_raises_a_dock_behind_another_and_hides_the_one_in_front(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            run, problems = bench.window.docks["run"], bench.window.docks["problems"]
            await bench.until(lambda: not run.visibleRegion().isEmpty())
            opener = button(bench.window._rail, "Problems")
            bench.click(opener)
            await bench.until(lambda: not problems.visibleRegion().isEmpty())
            assert (problems.isHidden(), opener.isChecked()) == (False, True)
            await bench.until(lambda: not button(bench.window._rail, "Run").isChecked())
            assert not run.isHidden()
            bench.click(opener)
            assert (problems.isHidden(), opener.isChecked()) == (True, False)
            bench.click(opener)
            await bench.until(lambda: not problems.visibleRegion().isEmpty())

    run_qt(story(), 60)


def test_hints_never_replace_the_status_text(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            opener = button(bench.window._rail, "Problems")
            assert opener.toolTip() == "Show or hide Problems"
            for action in (bench.window.actions_by_id["stop"], bench.window._rail.actions()[0]):
                action.showStatusText()
                QApplication.sendEvent(opener, QStatusTipEvent("Stop the run"))
            assert bench.window.status.currentMessage() == ""

    run_qt(story(), 60)


def test_without_a_flow_nothing_of_it_is_left(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, size=(700, 560)) as bench:
            window = bench.window
            bench.press("Ctrl+W")
            await bench.until(lambda: not bench.desk.documents.tabs)
            await bench.settle()
            assert window.run_hint.text() == ""
            for name in ("undo", "redo", "zoom_in", "zoom_out", "fit", "run"):
                assert not window.actions_by_id[name].isEnabled()
            for stack in (window.run_panels, window.inspectors):
                assert isinstance(stack.currentWidget(), EmptyPlace)
            sample = button(window.welcome, "Open a sample")
            bench.click(sample)
            menu = bench.desk._sample_menu
            assert menu.isVisible()
            assert menu.pos() == sample.mapToGlobal(sample.rect().bottomLeft())
            menu.close()

    run_qt(story(), 60)


def test_ctrl_e_brings_the_prompt_into_view(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, size=(1280, 600)) as bench:
            bench.tab.editor.select(["FeatureAnalyzer"])
            scroll = bench.tab.inspector.currentWidget()
            assert isinstance(scroll, QScrollArea)
            await bench.settle()
            scroll.verticalScrollBar().setValue(scroll.verticalScrollBar().maximum())
            bench.press("Ctrl+E")
            template = bench.tab.inspector.agent_form.template
            assert template.hasFocus()
            await bench.until(lambda: not template.visibleRegion().isEmpty())

    run_qt(story(), 60)


def current_row(bench: Workbench) -> str:
    tree = bench.window.explorer.findChild(QTreeView)
    assert isinstance(tree, QTreeView)
    return str(tree.currentIndex().data() or "")


def test_the_flow_in_front_is_the_current_row_and_unfolds_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, ["release-announcement", "thinking"]) as bench:
            await bench.until(lambda: current_row(bench) == "Think, then answer")
            bench.window.tabs.setCurrentIndex(0)
            await bench.until(lambda: current_row(bench) == "Release announcement")
            theme.changed.emit()  # the rows are made anew
            assert current_row(bench) == "Release announcement"
            bench.window.explorer.set_folded(["flow"])
            bench.window.tabs.setCurrentIndex(1)
            await bench.settle()
            assert bench.window.explorer._folded == {"flow"}
            assert current_row(bench) == ""

    run_qt(story(), 60)


def test_flows_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "mine.flow.json", {"name": "A"}, name="Release announcement")

    async def story() -> None:
        async with opened(tmp_path / "home", [path]) as bench:
            texts = [item.text for item in bench.window.explorer.items("flow")]
            assert texts[0] == "Release announcement (mine)"
            assert "Release announcement (sample)" in texts
            assert "Think, then answer" in texts
            bench.tab.editor.select(["A"])
            bench.type_text(bench.tab.inspector.agent_form.template, "New.")
            await bench.desk.overview.read_lists()
            assert bench.window.explorer.items("flow")[0].text == "Release announcement (mine) •"

    run_qt(story(), 60)


def test_lists_that_are_not_read_yet_do_not_say_that_they_are_empty(qapp: QApplication) -> None:
    def texts(explorer: Explorer) -> list[str]:
        tree = explorer.findChild(QTreeView)
        assert isinstance(tree, QTreeView)
        model = tree.model()
        heads = [model.index(row, 0) for row in range(model.rowCount())]
        return [str(model.index(line, 0, head).data()) for head in heads for line in range(model.rowCount(head))]

    explorer = Explorer()
    assert texts(explorer) == []
    explorer.show_items("run", [])
    assert texts(explorer) == ["None yet"]
    explorer.deleteLater()


def test_the_flow_is_painted_before_lists_and_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    paint, check, refresh = FlowView.drawBackground, FlowTab.check, Overview.refresh_lists
    monkeypatch.setattr(
        FlowView, "drawBackground", lambda view, painter, rect: (done.append("paint"), paint(view, painter, rect))[1]
    )
    monkeypatch.setattr(FlowTab, "check", lambda tab: (done.append("check"), check(tab))[1])
    monkeypatch.setattr(Overview, "refresh_lists", lambda view: (done.append("lists"), refresh(view))[1])

    async def story() -> None:
        async with opened(tmp_path, ["release-announcement"]) as bench:
            await bench.until(lambda: {"check", "lists"} <= set(done))
            assert done[0] == "paint"

    run_qt(story(), 60)
