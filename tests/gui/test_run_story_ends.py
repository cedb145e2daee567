"""What a run leaves to look at: stopped before a word, agents that did not run, a run that goes on among the runs."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_server import Answer, chat, delta
from tests.helpers.model_answers import flow_file, stalled, write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import button, opened, opened_on

pytestmark = pytest.mark.usefixtures("qapp")

WAITING = stalled()


def two_agents(folder: Path) -> Path:
    first = {"name": "First", "template": "one"}
    return flow_file(folder / "two.flow.json", first, {"name": "Second", "template": "two"})


def test_a_step_stopped_before_a_word_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(WAITING, tmp_path, [two_agents(tmp_path)]) as (bench, server):
            bench.press("F5")
            await bench.until(lambda: server.requests)
            pane = bench.tab.panel.stream.content.text
            assert pane.placeholderText() == ""
            bench.press("Shift+F5")
            assert await bench.run_end() == "stopped"
            assert pane.toPlainText() == ""
            assert pane.placeholderText() == "Stopped before the first word."

    run_qt(story(), 60)


def test_a_step_stopped_while_thinking_says_that_the_answer_is_missing(tmp_path: Path) -> None:
    thinking = stalled(delta(reasoning_content="Let me see."))

    async def story() -> None:
        async with opened_on(thinking, tmp_path, [two_agents(tmp_path)]) as (bench, _server):
            bench.press("F5")
            await bench.until(lambda: bench.tab.panel.stream.reasoning.text.toPlainText() == "Let me see.")
            bench.press("Shift+F5")
            await bench.run_end()
            pane = bench.tab.panel.stream.content.text
            assert pane.placeholderText() == "Stopped before the first word of the answer."

    run_qt(story(), 60)


def test_an_agent_that_has_not_run_shows_nothing_of_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(stalled(delta("Words")), tmp_path, [two_agents(tmp_path)]) as (bench, _server):
            bench.press("F5")
            await bench.shows("Words")
            bench.tab.editor.select(["Second"])
            await bench.shows("")
            panel = bench.tab.panel
            assert panel.stream.content.text.placeholderText() == "Second has not begun."
            assert panel.tree.current is not None
            assert panel.tree.current.waiting == "Second"
            bench.press("Shift+F5")
            await bench.run_end()
            assert panel.stream.content.text.placeholderText() == "Second did not run."
            bench.tab.editor.select(["First"])
            await bench.shows("Words")
            assert panel.stream.content.text.placeholderText() == ""

    run_qt(story(), 60)


def test_an_agent_chosen_before_it_runs_is_shown_once_it_does(tmp_path: Path) -> None:
    def script(request: object) -> Answer:
        return chat("one") if b'"one"' in request.body else stalled(delta("two"))  # type: ignore[attr-defined]

    async def story() -> None:
        async with opened_on(script, tmp_path, [two_agents(tmp_path)]) as (bench, _server):
            bench.press("F5")
            bench.tab.editor.select(["Second"])
            await bench.shows("two")
            bench.press("Shift+F5")
            await bench.run_end()

    run_qt(story(), 60)


def test_a_run_that_goes_on_is_among_the_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(stalled(delta("x")), tmp_path, [two_agents(tmp_path)]) as (bench, _server):
            bench.press("F5")
            explorer = bench.window.explorer
            await bench.until(lambda: explorer.items("run"))
            (item,) = explorer.items("run")
            assert item.tip.partition("\n")[2].startswith("Running, ")
            bench.desk.overview.open_item(item)  # it is that of the tab which runs it
            await bench.settle()
            assert len(bench.desk.documents.tabs) == 1
            assert bench.tab.is_running
            bench.press("Shift+F5")
            await bench.run_end()
            await bench.until(lambda: explorer.items("run")[0].tip.partition("\n")[2].startswith("Stopped"))

    run_qt(story(), 60)


def test_the_tab_knows_its_run_before_it_is_among_the_runs(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(chat("Done."), tmp_path, [two_agents(tmp_path)]) as (bench, _server):
            history, seen = bench.engine.history, []
            assert history is not None
            begin = history.begin

            async def noted(run_id: str, *rest: Any) -> bool:
                seen.append((run_id, bench.tab.run_id))
                return await begin(run_id, *rest)

            history.begin = noted  # type: ignore[method-assign]
            assert await bench.run_to_end() == "finished"
            assert [recorded == known for recorded, known in seen] == [True]
            assert bench.tab.run_id == seen[0][0]

    run_qt(story(), 60)


def test_profiles_that_change_on_the_disk_show_by_themselves(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [two_agents(tmp_path)]) as bench:
            names = [item.text for item in bench.window.explorer.items("profile")]
            assert "mine" not in names
            write_profile(bench.folders, "mine", "http://127.0.0.1:9")
            await bench.until(lambda: any(item.text == "mine" for item in bench.window.explorer.items("profile")))
            path = bench.folders.profiles / "mine.properties"
            path.write_text(path.read_text("latin-1").replace("temperature=0", "temperature=hot"), "latin-1")
            await bench.until(
                lambda: any(
                    item.text == "mine" and item.icon == "warning" for item in bench.window.explorer.items("profile")
                )
            )
            path.unlink()
            await bench.until(lambda: all(item.text != "mine" for item in bench.window.explorer.items("profile")))

    run_qt(story(), 90)


def test_an_error_nobody_foresaw_keeps_its_buttons(tmp_path: Path) -> None:
    from workbench.error_presenter import error_banner
    from workbench.widgets.banner import BannerButton

    pressed: list[bool] = []
    banner = error_banner(ZeroDivisionError("0"), [BannerButton("Again", lambda: pressed.append(True))])
    button(banner, "Again").click()
    assert pressed == [True]
    banner.deleteLater()
