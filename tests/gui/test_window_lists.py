"""What the window lists: samples, tabs, flows, profiles and recorded runs."""

from pathlib import Path

import pytest

from tests.helpers.fake_server import chat
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened, opened_on
from workbench.explorer import ExplorerItem

pytestmark = pytest.mark.usefixtures("qapp")


def flow_ids(bench: Workbench) -> list[str]:
    return [item.id for item in bench.window.explorer.items("flow")]


async def recorded_run(bench: Workbench) -> ExplorerItem:
    """Run the flow in front and wait until the explorer lists the run."""
    assert await bench.run_to_end() == "finished"
    await bench.until(lambda: bench.window.explorer.items("run"))
    return bench.window.explorer.items("run")[0]


def one_agent(folder: Path) -> Path:
    return flow_file(folder / "file-name.flow.json", {"name": "Writer", "template": "Write."}, name="Two words")


# -- samples ----------------------------------------------------------------------------------------------------------


def test_only_samples_that_can_run_are_offered(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            offered = [action.text() for action in bench.desk._sample_menu.actions()]
            assert "Release announcement" in offered
            listed = flow_ids(bench)
            assert len(offered) == len(listed)
            for name in listed:
                tab = bench.desk.documents.open(name)
                assert tab is not None
                assert not [problem for problem in tab.document.problems if problem.severity == "error"], name

    run_qt(story(), 60)


@pytest.mark.parametrize(
    ("faulty", "told"),
    [
        (1, "which this version does not have yet."),
        (2, "does not have yet. Another problem stands in its way, too."),
        (3, "does not have yet. 2 more problems stand in its way, too."),
    ],
)
def test_a_flow_that_cannot_run_says_so_in_whole_sentences(faulty: int, told: str, tmp_path: Path) -> None:
    agents = [{"name": f"A{number}", "template": "x", "tools": ["calculator"]} for number in range(faulty)]
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
            bench.desk.overview._open_item(run)
            await bench.until(lambda: len(bench.desk.documents.tabs) == 2)
            await bench.settle()
            tabs = bench.window.tabs
            assert tabs.tabText(0) == "Two words"
            assert tabs.tabText(1).startswith("Two words, ")
            assert tabs.tabText(1)[-5:].replace(":", "").isdigit()
            assert (tabs.tabBar().tabData(0), tabs.tabBar().tabData(1)) == ("flow", "history")
            assert bench.window.windowTitle().startswith(tabs.tabText(1))
            bench.desk.overview.refresh_lists()
            assert flow_ids(bench) == flows
            bench.press("Ctrl+W")
            await bench.until(lambda: len(bench.desk.documents.tabs) == 1)
            assert flow_ids(bench) == flows

    run_qt(story(), 60)


def test_a_closed_sample_is_listed_once_more_without_its_tab(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as bench:
            before = {item.id: item.color for item in bench.window.explorer.items("flow")}
            bench.press("Ctrl+W")
            await bench.until(lambda: not bench.desk.documents.tabs)
            after = {item.id: item.color for item in bench.window.explorer.items("flow")}
            assert set(after) == set(before)
            assert (before["release-announcement"], after["release-announcement"]) == ("accent", "text2")

    run_qt(story(), 60)
