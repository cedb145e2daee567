"""Recorded runs in the window: go on, start from an agent, repeat, freeze, export, compare, delete."""

import json
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMenu, QMessageBox

from tests.helpers.fake_server import Answer, Received, chat, delta, failure
from tests.helpers.menus import agent_menu, choose, explorer_menu, offers
from tests.helpers.model_answers import flow_file, prompt_of, stalled
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, find_button, opened, opened_on
from workbench.run_comparison import COST, STEP, TIME, TOKENS, RunComparisonDialog
from workbench.run_from_form import RunFromForm
from workbench.run_panel.run_state import State

pytestmark = pytest.mark.usefixtures("qapp")


class Model:
    """Answers by the first word of the prompt; what has no answer fails."""

    def __init__(self, **answers: str | Answer) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, request: Received) -> Answer:
        prompt = prompt_of(request)
        self.asked.append(prompt)
        answer = self.answers.get(prompt.split()[0].lower(), failure(500, "broken"))
        return answer if isinstance(answer, Answer) else chat(answer, usage=(10, 5))


def three_agents(folder: Path, **members: Any) -> Path:
    """Draft → Check → Final, each with its answer under a key of its own."""
    agents = [
        {"name": "Draft", "template": "draft {{topic}}", "handler": {"type": "text", "key": "draft"}},
        {"name": "Check", "template": "check {{draft}}", "handler": {"type": "text", "key": "check"}},
        {"name": "Final", "template": "final {{check}}", "handler": {"type": "text", "key": "final"}},
    ]
    inputs = [{"key": "topic", "type": "text", "default": "robots"}]
    return flow_file(folder / "three.flow.json", *agents, inputs=inputs, outputs=["final"], **members)


def rows(bench: Workbench) -> list[tuple[str, State]]:
    """Name and state of the lines of the run."""
    tree = bench.tab.panel.tree.rows
    return [(row.agent, row.state) for row in (tree.row_of(tree.index(n, 0)) for n in range(tree.rowCount()))]


async def listed(bench: Workbench, count: int) -> list[str]:
    """The numbers of the recorded runs, newest first, once there are so many."""
    items = bench.window.explorer.items
    await bench.until(lambda: len(items("run")) == count and all(item.status != "running" for item in items("run")))
    return [item.id for item in items("run")]


async def run_menu(bench: Workbench) -> QMenu:
    """The menu of the newest run."""
    return await explorer_menu(bench, "run", bench.window.explorer.items("run")[0].id)


# -- resume -----------------------------------------------------------------------------------------------------------


def test_a_failed_run_resumes_where_it_broke_and_tells_old_and_new_apart(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a draft", check="fine")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            assert not bench.tab.panel.resume.isVisible()
            assert await bench.run_to_end() == "failed"
            assert bench.card_state("Final") == "failed"
            assert bench.window.actions_by_id["resume"].isEnabled()
            assert [asked.split()[0] for asked in model.asked] == ["draft", "check", "final"]
            model.answers["final"] = "done"
            banner = bench.tab.panel.stream.banner
            await bench.until(lambda: find_button(banner, "Resume") is not None)
            assert not bench.tab.panel.resume.isVisible()
            bench.tab.panel.show_tab("Trace")  # there is no banner there
            bench.click(bench.tab.panel.resume)
            await bench.until(lambda: bench.tab.is_running)
            assert await bench.run_end() == "finished"
            assert [asked.split()[0] for asked in model.asked] == ["draft", "check", "final", "final"]
            assert rows(bench) == [(name, State.ANSWERED) for name in ("Draft", "Check", "Final")]
            assert [bench.card_state(name) for name in ("Draft", "Check", "Final")] == ["finished"] * 3
            run = bench.tab.panel.model
            assert (run.origin, run.statistics().requests, run.statistics().out_tokens) == ("resume", 1, 5)
            assert run.before is not None
            assert (run.before.requests, run.before.out_tokens) == (2, 10)
            assert list(run.agent_statistics()) == ["Final"]
            assert "Before: Requests 2" in bench.tab.panel.summary_text()
            bench.tab.panel.show_tab("Statistics")
            text = bench.tab.panel.statistics.text
            assert [line.split("\t")[:2] for line in text.splitlines()[1:]] == [
                ["Final", "1"],
                ["Total", "1"],
                ["Before, not in the total", "2"],
            ]
            tip = bench.tab.panel.tree.rows.data(bench.tab.panel.tree.rows.index(0, 0), 3)
            assert "kept from the run before" in str(tip)
            assert not bench.tab.panel.resume.isVisible()
            newest, _ = await listed(bench, 2)
            item = bench.window.explorer.items("run")[0]
            assert item.text.endswith("· resumed")
            # It looks the same when it is opened from the record.
            await bench.desk.overview.open_run(newest)
            assert rows(bench) == [(name, State.ANSWERED) for name in ("Draft", "Check", "Final")]
            assert bench.tab.panel.model.statistics().requests == 1

    run_qt(story(), 90)


def test_a_stopped_run_resumes_from_the_explorer_in_a_tab_of_its_own(tmp_path: Path) -> None:
    path = three_agents(tmp_path)
    model = Model(draft="a draft", check=stalled(delta("x")))

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            bench.press("F5")
            await bench.until(lambda: bench.card_state("Check") == "running" and len(model.asked) == 2)
            bench.press("Shift+F5")
            assert await bench.run_end() == "stopped"
            await listed(bench, 1)
            flow_tab = bench.tab
            model.answers |= {"check": "fine", "final": "done"}
            bench.desk.documents.close_tab(flow_tab)
            await bench.until(lambda: not bench.desk.documents.tabs)
            menu = await run_menu(bench)
            assert offers(menu) == [
                "Open", "Resume", "Repeat", "Repeat fresh", "Compare with…", "Export as", "Delete…",
                "Copy number of the run",
            ]  # fmt: skip
            await choose(bench, menu, "Resume")
            await bench.until(lambda: bench.desk.documents.tabs and bench.tab.progress.status == "finished")
            assert [asked.split()[0] for asked in model.asked] == ["draft", "check", "check", "final"]
            assert await bench.run_end() == "finished"

    run_qt(story(), 90)


def test_a_finished_run_offers_no_resume(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a", check="b", final="c")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            assert not bench.window.actions_by_id["resume"].isEnabled()
            await listed(bench, 1)
            menu = await run_menu(bench)
            resume = next(action for action in menu.actions() if action.text() == "Resume")
            assert not resume.isEnabled()
            assert "broke off" in resume.toolTip()
            menu.close()

    run_qt(story(), 90)


# -- run from here ----------------------------------------------------------------------------------------------------


def test_a_run_from_an_agent_uses_what_it_had(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a draft", check="fine", final="done")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            bench.tab.editor.select(["Check"])
            action = bench.window.actions_by_id["run_from"]
            assert not action.isEnabled()
            assert action.toolTip().startswith("Run the flow once")
            await bench.run_to_end()
            bench.tab.editor.select(["Check"])
            assert action.isEnabled()
            bench.press("F8")
            await bench.until(lambda: len(model.asked) == 5)
            assert await bench.run_end() == "finished"
            assert model.asked[3:] == ["check a draft", "final fine"]
            assert (bench.tab.panel.model.origin, bench.tab.panel.model.edited) == ("from", False)
            assert bench.card_state("Draft") == "idle"
            bench.tab.editor.select(["Draft"])
            assert action.toolTip() == "The run on show did not come to Draft."

    run_qt(story(), 90)


def test_its_context_can_be_edited_and_the_run_says_so(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a draft", check="fine", final="done")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            await bench.run_to_end()
            await choose(bench, await agent_menu(bench, "Check"), "Run from here with changes…")
            form = await bench.dialog(RunFromForm)
            assert not form.visit.isVisible()
            assert not form.branch.isVisible()
            assert form.field("draft").toPlainText() == "a draft"
            bench.type_text(form.field("draft"), "another draft")
            bench.click(button(form, "Run from here"))
            await bench.reactivate()
            await bench.until(lambda: len(model.asked) == 5)
            assert await bench.run_end() == "finished"
            assert model.asked[3] == "check another draft"
            assert bench.tab.panel.model.edited
            await listed(bench, 2)
            assert bench.window.explorer.items("run")[0].text.endswith("· run from an agent, edited")

    run_qt(story(), 90)


def test_with_several_branches_one_can_be_chosen(tmp_path: Path) -> None:
    agents = [
        {"name": "List", "template": "list", "handler": {"type": "json", "key": "item"}},
        {"name": "Each", "template": "each [[item]]", "handler": {"type": "text", "key": "text"}},
        {"name": "Last", "template": "last {{text}}", "handler": {"type": "text", "key": "last"}},
    ]
    path = flow_file(tmp_path / "fan.flow.json", *agents, outputs=["last"])
    model = Model(list=json.dumps({"item": ["one", "two"]}), each="told", last="done")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            before = len(model.asked)
            bench.tab.editor.select(["Last"])
            bench.press("F8")
            form = await bench.dialog(RunFromForm)
            names = [form.branch.itemText(number) for number in range(form.branch.count())]
            assert names == ["All 2 branches", "1/2", "2/2"]
            form.branch.setCurrentIndex(2)
            bench.click(button(form, "Run from here"))
            await bench.reactivate()
            await bench.until(lambda: len(model.asked) == before + 1)
            assert await bench.run_end() == "finished"

    run_qt(story(), 90)


# -- repeat -----------------------------------------------------------------------------------------------------------


def test_a_repeated_run_is_answered_by_the_cache_and_a_fresh_one_is_not(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a draft", check="fine", final="done")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path], cache=True) as (bench, _server):
            await bench.run_to_end()
            await listed(bench, 1)
            await choose(bench, await run_menu(bench), "Repeat")
            await listed(bench, 2)
            assert len(model.asked) == 3
            assert {state for _, state in rows(bench)} == {State.CACHED}
            await choose(bench, await run_menu(bench), "Repeat fresh")
            await listed(bench, 3)
            assert len(model.asked) == 6

    run_qt(story(), 90)


# -- freeze -----------------------------------------------------------------------------------------------------------


def test_a_frozen_agent_is_not_asked_and_says_when_it_is_stale(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a draft", check="fine", final="done")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            freeze = bench.window.actions_by_id["freeze"]
            bench.tab.editor.select(["Check"])
            assert not freeze.isEnabled()
            await bench.run_to_end()
            bench.tab.editor.select(["Check"])
            assert freeze.text() == "Free&ze"
            bench.press("Ctrl+Shift+E")
            await bench.until(lambda: "Check" in bench.tab.frozen)
            assert freeze.text() == "Thaw"
            assert bench.tab.editor.scene.agents["Check"].look.frozen
            bench.trigger("run_fresh")
            assert await bench.run_end() == "finished"
            assert [asked.split()[0] for asked in model.asked[3:]] == ["draft", "final"]
            assert bench.card_state("Check") == "frozen"
            assert ("Check", State.FROZEN) in rows(bench)
            assert "❄" in bench.tab.panel.model.results[0].trace
            bench.tab.panel.select_agent("Check")
            bench.tab.panel.show_tab("Trace")
            entry = next(one for one in bench.tab.panel.trace.lines[0].entries if one.text == "❄")
            assert entry.icon == ("frozen", "ice")
            assert "frozen" in entry.explanation()

            bench.tab.editor.select(["Check"])
            form = bench.tab.inspector.agent_form
            bench.type_text(form.template, "check again {{draft}}")
            bench.tab.inspector.finish_editing()
            await bench.until(lambda: bench.tab.frozen.marks()["Check"].stale == ("prompt",))
            assert bench.card_state("Check") == "frozen"  # what the run on show made of it
            await bench.run_to_end()
            assert bench.card_state("Check") == "stale"
            footer = bench.tab.editor.scene.agents["Check"].look.footer
            assert footer is not None
            assert footer.label == "stale: prompt changed"
            bench.tab.panel.show_tab("Stream")
            bench.tab.panel.select_agent("Check")
            banner = bench.tab.panel.stream.banner
            await bench.until(lambda: "its answer is stale: prompt changed since" in banner.copied)

            before = len(model.asked)
            model.answers["check"] = "better"
            bench.click(button(banner, "Run it again"))
            await bench.until(lambda: bench.tab.frozen.marks()["Check"].stale == ())
            assert model.asked[before] == "check again a draft"
            await bench.run_end()
            await bench.run_to_end()
            assert bench.card_state("Check") == "frozen"
            bench.tab.panel.select_agent("Check")
            bench.click(button(banner, "Thaw"))
            await bench.until(lambda: not bench.tab.editor.scene.agents["Check"].look.frozen)
            assert "Check" not in bench.tab.frozen

    run_qt(story(), 90)


def test_frozen_agents_are_kept_with_the_flow_and_follow_its_name_and_path(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a draft", check="fine", final="done")
    home, copy = tmp_path / "home", tmp_path / "copy.flow.json"

    async def first() -> None:
        async with opened_on(model, home, [path]) as (bench, _server):
            await bench.run_to_end()
            bench.tab.editor.select(["Check"])
            bench.press("Ctrl+Shift+E")
            await bench.until(lambda: "Check" in bench.tab.frozen)

    async def second() -> None:
        async with opened(home, [path]) as bench:
            await bench.until(lambda: "Check" in bench.tab.frozen)
            assert bench.card_state("Check") == "frozen"
            footer = bench.tab.editor.scene.agents["Check"].look.footer
            assert footer is not None
            assert footer.label == "frozen"
            assert footer.figures
            bench.tab.editor.select(["Check"])
            bench.type_text(bench.tab.inspector.agent_form.name, "Review")
            bench.tab.inspector.finish_editing()
            await bench.until(lambda: "Review" in bench.tab.frozen)
            assert "Check" not in bench.tab.frozen
            bench.desk.documents._save_soon_to(bench.tab, copy)
            await bench.until(lambda: bench.tab.source == str(copy))
            await bench.saved()

    async def third() -> None:
        async with opened(home, [copy]) as bench:
            await bench.until(lambda: "Review" in bench.tab.frozen)

    run_qt(first(), 90)
    run_qt(second(), 90)
    run_qt(third(), 90)


# -- export, delete ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "md", "html"])
def test_a_run_is_exported_and_opened_outside_only_when_wanted(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, model = three_agents(tmp_path), Model(draft="a draft", check="fine", final="all done")
    shown: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", shown.append)

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            await bench.run_to_end()
            (run_id,) = await listed(bench, 1)
            target = tmp_path / f"report.{form}"
            await bench.desk.run_actions.export_to(run_id, form, target)
            assert "all done" in target.read_text("utf-8")
            assert shown == []
            bench.click(button(bench.banners[-1], "Open it outside"))
            assert [url.toLocalFile() for url in shown] == [str(target)]

    run_qt(story(), 90)


def test_a_run_with_a_key_in_it_is_not_exported(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="my-very-own-key-1", check="fine", final="done")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path], apiKey="my-very-own-key-1") as (bench, _server):
            await bench.run_to_end()
            (run_id,) = await listed(bench, 1)
            target = tmp_path / "report.html"
            bench.desk.tasks.start(bench.desk.run_actions.export_to(run_id, "html", target))
            await bench.until(lambda: any("is a key" in text for text in bench.banner_texts()))
            assert not target.exists()

    run_qt(story(), 90)


def test_a_run_is_deleted_after_asking(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a draft", check="fine", final="done")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            await bench.run_to_end()
            await listed(bench, 1)
            await choose(bench, await run_menu(bench), "Delete…")
            question = await bench.dialog(QMessageBox)
            assert question.defaultButton().text().replace("&", "") == "Cancel"
            assert "Delete the recorded run" in await bench.answer("Cancel")
            assert len(bench.window.explorer.items("run")) == 1
            await choose(bench, await run_menu(bench), "Delete…")
            await bench.answer("Delete")
            await bench.until(lambda: not bench.window.explorer.items("run"))

    run_qt(story(), 90)


# -- compare ----------------------------------------------------------------------------------------------------------


def test_two_runs_are_compared_word_by_word(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a short draft", check="fine", final="done")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            await bench.run_to_end()
            model.answers["draft"] = "a long draft"
            bench.trigger("run_fresh")
            await bench.run_end()
            newest, oldest = await listed(bench, 2)
            explorer = bench.window.explorer
            explorer.set_current("run", oldest)
            explorer._tree.selectAll()
            dialog = bench.desk.run_actions.compare(oldest, newest)
            await bench.until(dialog.table.topLevelItemCount)
            lines = [[item.text(column) for column in range(2)] for item in items(dialog)]
            assert lines == [
                ["Output final", "same"],
                ["Draft", "answer, keys"],
                ["Check", "prompt, keys"],
                ["Final", "keys"],
            ]
            assert dialog.summary.text() == "3 of 3 steps differ."
            current = dialog.table.currentItem()
            assert current is not None
            assert current.text(0) == "Draft"
            assert [piece for piece in dialog.difference.pieces if piece.kind != "same"] == [
                ("removed", "short"),
                ("added", "long"),
            ]
            bench.press("Down", dialog.table)
            bench.click_tab(dialog.pages, "Prompt")
            assert ("removed", "short") in dialog.difference.pieces
            dialog.only_different.click()
            assert [item.text(0) for item in items(dialog)] == ["Draft", "Check", "Final"]
            dialog.choices[0].setCurrentIndex(dialog.choices[1].currentIndex())
            dialog.choices[0].activated.emit(0)
            await bench.until(lambda: not dialog.table.isVisible())
            dialog.reject()

    run_qt(story(), 90)


def test_comparing_begins_with_an_empty_place_and_a_run_finds_its_elder(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a", check="b", final="c")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            bench.trigger("compare_runs")
            dialog = bench.window.findChild(RunComparisonDialog)
            assert dialog is not None
            await bench.until(lambda: not dialog.choices[0].isEnabled())
            assert not dialog.table.isVisible()
            dialog.reject()
            for _ in range(2):
                bench.window.activateWindow()
                bench.trigger("run")
                await bench.run_end()
            newest, oldest = await listed(bench, 2)
            await choose(bench, await run_menu(bench), "Compare with…")
            dialog = next(one for one in bench.window.findChildren(RunComparisonDialog) if one.isVisible())
            await bench.until(dialog.table.topLevelItemCount)
            assert [choice.currentData() for choice in dialog.choices] == [oldest, newest]
            assert dialog.summary.text() == "All 3 steps are the same."
            dialog.reject()

    run_qt(story(), 90)


def test_a_narrow_comparison_leaves_out_figures_and_keeps_the_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(chat("An answer."), tmp_path, [three_agents(tmp_path)]) as (bench, _server):
            for _ in range(2):
                assert await bench.run_to_end() == "finished"
            dialog = bench.desk.run_actions.compare()
            await bench.until(lambda: dialog.table.topLevelItemCount() > 0)
            dialog.resize(1600, 600)
            await bench.until(lambda: hidden_columns(dialog) == [])
            assert dialog.table.columnWidth(STEP) >= 120
            dialog.resize(760, 600)
            # How wide the figures are depends on how long the runs took; the last ones go first.
            await bench.until(lambda: hidden_columns(dialog) in ([COST], [COST, TOKENS]))
            assert dialog.table.columnWidth(STEP) >= 120

    run_qt(story(), 60)


def hidden_columns(dialog: RunComparisonDialog) -> list[int]:
    return [column for column in (COST, TOKENS, TIME) if dialog.table.isColumnHidden(column)]


def items(dialog: RunComparisonDialog) -> list[Any]:
    return [dialog.table.topLevelItem(number) for number in range(dialog.table.topLevelItemCount())]


def test_a_changed_profile_makes_a_frozen_agent_stale_at_once(tmp_path: Path) -> None:
    path, model = three_agents(tmp_path), Model(draft="a draft", check="fine", final="done")

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [path]) as (bench, _server):
            await bench.run_to_end()
            bench.tab.editor.select(["Check"])
            bench.press("Ctrl+Shift+E")
            await bench.until(lambda: "Check" in bench.tab.frozen)
            profile = bench.folders.profiles / "fake.properties"
            profile.write_text(profile.read_text("latin-1").replace("temperature=0", "temperature=0.7"), "latin-1")
            bench.trigger("reload_profiles")
            await bench.until(lambda: bench.tab.frozen.marks()["Check"].stale == ("profile",))

    run_qt(story(), 90)
