"""The cache in the window: the switch beside Run, new answers on demand, and how kept ones are told."""

from pathlib import Path

import pytest

from engine import EngineSettings
from tests.helpers.fake_server import Answer, Received, chat
from tests.helpers.model_answers import announcement_answers, flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, find_button, opened, opened_on
from workbench.run_panel.run_rows import Column
from workbench.run_panel.run_state import State

pytestmark = pytest.mark.usefixtures("qapp")

AGENTS = ["CodeSummarizer", "FeatureIdentifier", "FeatureAnalyzer", "AnswerGenerator"]


class Counted:
    """Answers each request with its number."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _request: Received) -> Answer:
        self.count += 1
        return chat(f"answer {self.count}")


def one_agent(folder: Path) -> Path:
    return flow_file(folder / "one.flow.json", {"name": "Writer", "template": "Write a line."})


async def fresh_run(bench: Workbench) -> str:
    bench.press("Ctrl+F5")
    assert bench.tab.is_running
    return await bench.run_end()


def test_the_same_run_again_asks_no_model_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path, cache=True) as (bench, server):
            assert await bench.run_to_end() == "finished"
            assert len(server.requests) == 7
            assert find_button(bench.tab.panel, "Run fresh") is None
            assert await bench.run_to_end() == "finished"
            assert len(server.requests) == 7
            panel = bench.tab.panel
            assert [bench.card_state(agent) for agent in AGENTS] == ["cached"] * 4
            assert [step.state for step in panel.model.steps.values()] == [State.CACHED] * 4
            rows = panel.tree.rows
            shown = [row for row in (rows.step_row(number) for number in range(1, 5)) if row is not None]
            assert [rows.text(row, Column.COST) for row in shown] == ["cached"] * 4
            assert [rows.text(row, Column.TOKENS) for row in shown] == ["30 → 6", "40 → 20", "80 → 40", "50 → 12"]
            card = bench.tab.editor._overlay.agent("FeatureAnalyzer")
            assert (card.in_tokens, card.out_tokens) == (80, 40)
            totals = panel.model.statistics()
            assert (totals.requests, totals.cached_prompts, totals.in_tokens, totals.cost) == (0, 7, 0, 0)
            message = panel.stream.banner.message
            assert message is not None
            assert message.title == "Every answer came from the cache: no model was asked, nothing was paid."
            assert bench.window.status.cost.text() == "Run free"
            assert bench.window.status.run.text() == "Finished, all from the cache"
            bench.click_tab(panel._tabs, "Statistics")
            bench.click_tab(panel._tabs, "Stream")
            bench.click(button(panel.stream.banner, "Run fresh"))
            assert await bench.run_end() == "finished"
            assert len(server.requests) == 14
            assert [bench.card_state(agent) for agent in AGENTS] == ["finished"] * 4

    run_qt(story(), 120)


def test_a_fresh_run_asks_anew_and_keeps_the_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(Counted(), tmp_path, [one_agent(tmp_path)], cache=True) as (bench, _server):
            await bench.run_to_end()
            await bench.shows("answer 1")
            assert await fresh_run(bench) == "finished"
            await bench.shows("answer 2")
            await bench.run_to_end()
            await bench.shows("answer 2")
            assert bench.card_state("Writer") == "cached"

    run_qt(story(), 90)


def test_the_switch_beside_run_is_remembered(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(Counted(), tmp_path, [one_agent(tmp_path)], cache=True) as (bench, _server):
            box = button(bench.window.main_bar, "Use cache")
            assert box.isChecked()
            await bench.run_to_end()
            bench.click(box)
            assert not bench.window.actions_by_id["use_cache"].isChecked()
            await bench.run_to_end()
            await bench.shows("answer 2")
            path = bench.folders.engine_settings
            await bench.until(path.exists)
            await bench.until(lambda: not EngineSettings.load(path).cache)
        async with opened(tmp_path, [one_agent(tmp_path)], cache=True) as bench:
            box = button(bench.window.main_bar, "Use cache")
            assert not box.isChecked()
            bench.trigger("use_cache")
            assert box.isChecked()
            assert bench.engine.settings.cache

    run_qt(story(), 90)


def test_without_a_cache_there_is_nothing_to_switch(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            box = button(bench.window.main_bar, "Use cache")
            assert not box.isEnabled()
            assert not box.isChecked()

    run_qt(story(), 60)
