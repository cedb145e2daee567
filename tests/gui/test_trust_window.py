"""Flows from elsewhere in the window: restricted until trusted, asked with all they can do (reliability R58)."""

import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.helpers.fake_server import Answer, Received, chat
from tests.helpers.model_answers import flow_file, prompt_of
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, find_button, opened_on
from workbench.trust_dialog import TrustDialog

pytestmark = pytest.mark.usefixtures("qapp")

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "plugins"


def foreign(folder: Path) -> Path:
    shutil.copytree(EXAMPLE, folder)
    return folder / "slogan.flow.json"


def answers(request: Received) -> Answer:
    return chat("Bake!" if "bold" in prompt_of(request) else "Bread from warm hands.")


def pages(dialog: TrustDialog) -> str:
    return "\n".join(pane.toPlainText() for pane in dialog.panes)


def asked(bench: Workbench) -> bool:
    return any("was not made here" in text or "has changed since" in text for text in bench.banner_texts())


def test_a_foreign_flow_asks_and_runs_once_trusted(tmp_path: Path) -> None:
    file = foreign(tmp_path / "foreign")

    async def story() -> None:
        async with opened_on(answers, tmp_path / "home", [file]) as (bench, _server):
            assert bench.tab.document.problems == ()
            await bench.until(lambda: asked(bench))
            bench.press("F5")
            dialog = await bench.dialog(TrustDialog)
            assert not bench.tab.is_running
            told = [dialog.abilities.item(row).text() for row in range(dialog.abilities.count())]
            assert told[0] == 'Runs the function "word_count" of plugins/words.py.'
            assert 'raise ValueError(f"it has' in pages(dialog)
            QTest.keyClick(dialog, Qt.Key.Key_Return)  # keeping it restricted is what Enter does
            await bench.reactivate()
            assert not bench.tab.is_running
            assert asked(bench)
            bench.press("F5")
            dialog = await bench.dialog(TrustDialog)
            bench.click(button(dialog, "Trust"))
            await bench.reactivate()
            assert not asked(bench)
            assert await bench.run_to_end() == "finished"
            assert bench.engine.history is not None
            (row,) = await bench.engine.history.runs(5)
            recorded = await bench.engine.history.run(row.id)
            assert recorded.events[-1].outputs == {"draft": ["Bake!"], "words": [5]}
        async with opened_on(answers, tmp_path / "home", [file]) as (bench, _server):
            assert not asked(bench)
            assert await bench.run_to_end() == "finished"

    run_qt(story(), 120)


def test_edits_made_here_do_not_ask_but_other_code_does(tmp_path: Path) -> None:
    file = foreign(tmp_path / "foreign")

    async def story() -> None:
        async with opened_on(answers, tmp_path / "home", [file]) as (bench, _server):
            trust = bench.tab.trust
            access = trust.restricted
            assert access is not None
            trust.trust(access)
            assert trust.restricted is None
            bench.tab.editor.select(["Draft"])
            bench.type_text(bench.tab.inspector.agent_form.template, "Another prompt for [[tone]].")
            assert trust.restricted is None
            bench.trigger("save")
            await bench.until(lambda: not bench.tab.document.is_modified)
            words = file.parent / "plugins" / "words.py"
            words.write_text(words.read_text().replace("expected one", "expected a single one"))
            changed = trust.restricted
            assert changed is not None
            assert "single" in changed.trust.difference
            bench.press("F5")
            dialog = await bench.dialog(TrustDialog)
            assert "single" in pages(dialog)
            dialog.reject()
            await bench.reactivate()

    run_qt(story(), 120)


def test_saving_a_restricted_flow_does_not_trust_it(tmp_path: Path) -> None:
    file = foreign(tmp_path / "foreign")

    async def story() -> None:
        async with opened_on(answers, tmp_path / "home", [file]) as (bench, _server):
            bench.tab.editor.select(["Draft"])
            bench.type_text(bench.tab.inspector.agent_form.template, "Another prompt for [[tone]].")
            bench.trigger("save")
            await bench.until(lambda: not bench.tab.document.is_modified)
            assert bench.tab.trust.restricted is not None

    run_qt(story(), 120)


def test_flows_that_only_ask_models_are_not_asked_about(tmp_path: Path) -> None:
    plain = flow_file(tmp_path / "a.flow.json", {"name": "A", "syntax": "jinja", "template": "{{ 1 + 1 }}"})

    async def story() -> None:
        async with opened_on(chat("yes"), tmp_path / "home", [plain]) as (bench, _server):
            assert bench.banner_texts() == []
            assert find_button(bench.window.banners, "Trust…") is None
            assert await bench.run_to_end() == "finished"
            await bench.shows("yes")

    run_qt(story(), 120)
