"""Agents kept for other flows: saved by menu and palette, put into flows in each way there is, renamed and deleted."""

from pathlib import Path

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QTreeView

from engine import flow_text
from tests.helpers.canvas import check_agreement, choose
from tests.helpers.menus import choose as choose_in_menu
from tests.helpers.menus import explorer_menu, explorer_place, offers
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, opened
from workbench.widgets.dragged_flow import AGENT
from workbench.widgets.name_dialog import NameDialog

pytestmark = pytest.mark.usefixtures("qapp")


def two_agents(folder: Path) -> Path:
    writer = {"name": "Writer", "template": "Write.", "notes": "Kept short.", "routes": [{"to": "Editor"}]}
    return flow_file(folder / "two.flow.json", writer, {"name": "Editor", "template": "Edit."})


def listed(bench: Workbench) -> list[str]:
    return [item.text for item in bench.window.explorer.items("saved_agent")]


async def save(bench: Workbench, agent: str, name: str) -> None:
    """Save an agent under a name, from the command palette, by keyboard."""
    bench.tab.editor.select([agent])
    bench.press("Ctrl+K")
    palette = bench.desk.overview._palette
    await bench.until(palette.isVisible)
    QTest.keyClicks(palette.findChild(QLineEdit), ">save agent")
    bench.press("Return", palette.findChild(QLineEdit))
    dialog = await bench.dialog(NameDialog)
    assert dialog.field.text() == agent
    QTest.keyClicks(dialog.field, name)  # the name is selected
    bench.press("Return", dialog.field)
    await bench.until(lambda: name in listed(bench))
    await bench.reactivate()


def agents(bench: Workbench) -> list[str]:
    return [agent.name for agent in bench.tab.document.spec.agents]


def test_a_saved_agent_comes_back_in_each_way_as_one_step(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home", [two_agents(tmp_path)]) as bench:
            before = flow_text(bench.tab.document.spec)
            await save(bench, "Writer", "Author")
            assert flow_text(bench.tab.document.spec) == before
            item = bench.window.explorer.items("saved_agent")[0]
            assert "Kept short." in item.tip
            editor = bench.tab.editor

            bench.trigger("add_agent")  # the palette of the canvas
            choose(editor, "author")
            added = bench.tab.document.spec.agents[-1]
            assert (added.name, added.template, added.notes, added.routes) == ("Author", "Write.", "Kept short.", ())

            tree = bench.window.explorer.findChild(QTreeView)
            model = bench.window.explorer._model
            index = tree.indexAt(explorer_place(tree, "saved_agent", item.id))
            data = model.mimeData([tree.model().mapToSource(index)])
            assert data.hasFormat(AGENT)
            place = QPointF(editor.view.mapFromScene(QPointF(300.0, 400.0)))
            left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
            editor.view.dropEvent(QDropEvent(place, Qt.DropAction.CopyAction, data, left, none))
            dropped = editor.scene.agents["Author 2"]
            assert (QPointF(dropped.x(), dropped.y()) - QPointF(300.0, 400.0)).manhattanLength() < 4

            tree.setCurrentIndex(index)  # Enter in the explorer
            tree.setFocus()
            bench.press("Return", tree)
            assert agents(bench) == ["Writer", "Editor", "Author", "Author 2", "Author 3"]

            check_agreement(editor)
            assert editor.undo_stack.count() == 3
            for _ in range(3):
                bench.trigger("undo")
            assert flow_text(bench.tab.document.spec) == before

    run_qt(story(), 60)


def test_the_name_says_what_it_replaces_and_is_needed(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home", [two_agents(tmp_path)]) as bench:
            await save(bench, "Writer", "Author")
            bench.tab.editor.select(["Editor"])
            bench.trigger("save_agent")
            dialog = await bench.dialog(NameDialog)
            QTest.keyClicks(dialog.field, "Author")
            assert dialog.field.note.text == "The saved agent of this name will be replaced."
            assert button(dialog, "Save").isEnabled()
            bench.type_text(dialog.field, " ")
            assert dialog.field.note.text == "A name is needed."
            assert not button(dialog, "Save").isEnabled()
            bench.type_text(dialog.field, "Author")
            bench.click(button(dialog, "Save"))
            await bench.until(lambda: "Edit." in bench.window.explorer.items("saved_agent")[0].tip)
            assert listed(bench) == ["Author"]

    run_qt(story(), 60)


def test_rename_and_delete_in_the_explorer_by_menu_and_key(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home", [two_agents(tmp_path)]) as bench:
            await save(bench, "Writer", "Author")
            await save(bench, "Editor", "Cutter")
            author = bench.window.explorer.items("saved_agent")[0].id
            menu = await explorer_menu(bench, "saved_agent", author)
            assert offers(menu) == ["Add to the flow", "Rename…", "Delete…", "Show folder"]
            await choose_in_menu(bench, menu, "Rename…")
            dialog = await bench.dialog(NameDialog)
            bench.type_text(dialog.field, "Cutter")
            assert dialog.field.note.text == "There is a saved agent of this name already."
            assert not button(dialog, "Rename").isEnabled()
            bench.type_text(dialog.field, "Poet")
            bench.click(button(dialog, "Rename"))
            await bench.until(lambda: listed(bench) == ["Cutter", "Poet"])
            await bench.reactivate()

            tree = bench.window.explorer.findChild(QTreeView)
            poet = bench.window.explorer.items("saved_agent")[1].id
            tree.setCurrentIndex(tree.indexAt(explorer_place(tree, "saved_agent", poet)))
            tree.setFocus()
            bench.press("Del", tree)
            assert await bench.answer("Cancel") == "Delete the saved agent Poet?"
            assert listed(bench) == ["Cutter", "Poet"]
            tree.setFocus()
            bench.press("F2", tree)
            (await bench.dialog(NameDialog)).reject()
            await bench.reactivate()
            tree.setFocus()
            bench.press("Del", tree)
            await bench.answer("Delete")
            await bench.until(lambda: listed(bench) == ["Cutter"])
            assert [path.name for path in (tmp_path / "home" / "agents").iterdir()] == ["Cutter.agent.json"]

    run_qt(story(), 60)


def test_an_agent_that_runs_a_file_finds_it_from_any_flow(tmp_path: Path) -> None:
    flow_file(tmp_path / "inner.flow.json", {"name": "Inner", "template": "Say."})
    outer = flow_file(tmp_path / "outer.flow.json", {"name": "Node", "flow": "inner.flow.json"})

    async def story() -> None:
        async with opened(tmp_path / "home", [outer]) as bench:
            await save(bench, "Node", "Kept")
            saved = bench.desk.saved.library.named("Kept")
            assert saved is not None
            assert saved.agent is not None
            assert saved.agent.flow == str(tmp_path / "inner.flow.json")

    run_qt(story(), 60)


def test_a_faulty_file_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "agents"
    folder.mkdir(parents=True)
    (folder / "broken.agent.json").write_text("{", encoding="utf-8")

    async def story() -> None:
        async with opened(tmp_path / "home", [two_agents(tmp_path)]) as bench:
            await bench.until(lambda: listed(bench) == ["broken"])
            menu = await explorer_menu(bench, "saved_agent", str(folder / "broken.agent.json"))
            await choose_in_menu(bench, menu, "Add to the flow")
            await bench.until(lambda: any("broken.agent.json" in text for text in bench.banner_texts()))
            assert agents(bench) == ["Writer", "Editor"]

    run_qt(story(), 60)
