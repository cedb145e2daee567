"""The outline beside the canvas, and whole flows built without a mouse."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine import load_flow
from engine.flow.flow_check import check_flow
from engine.flow.flow_spec import FlowSpec
from tests.helpers.canvas import check_agreement, links
from tests.helpers.fake_server import Answer, Received, chat
from tests.helpers.model_answers import prompt_of
from tests.helpers.qt_loop import run_qt
from tests.helpers.sample_flows import agent, chain, sample
from tests.helpers.window import Workbench, focusable, opened, opened_on
from workbench.designer.outline import Outline
from workbench.designer.outline_rows import outline_rows
from workbench.widgets.search_palette import SearchPalette

pytestmark = pytest.mark.usefixtures("qapp")


def lines(spec: FlowSpec) -> list[str]:
    return ["  " * row.depth + row.agent + ("*" if row.again else "") for row in outline_rows(spec)]


def test_what_follows_stands_below_and_choices_stand_inside() -> None:
    assert lines(chain("A", "B", "C")) == ["A", "B", "C"]
    assert lines(sample("sort-messages")) == [
        "Sort", "  DeliveryReply", "    Table", "  PaymentReply", "    Table*", "  AccountReply", "    Table*",
    ]  # fmt: skip
    loop = FlowSpec(name="x", start="B", agents=(agent("A", "B"), agent("B", "A"), agent("Alone", None)))
    assert lines(loop) == ["B", "A", "B*", "Alone"]
    assert lines(FlowSpec(name="Empty")) == []


def outline(bench: Workbench) -> Outline:
    found = bench.window.outlines.currentWidget()
    assert isinstance(found, Outline)
    return found


async def in_list(bench: Workbench, typed: str) -> None:
    """Type into the list that is open, and press Enter."""
    await bench.until(lambda: isinstance(QApplication.activePopupWidget(), SearchPalette))
    shown = QApplication.activePopupWidget()
    assert isinstance(shown, SearchPalette)
    QTest.keyClicks(shown.field, typed)
    assert shown.rows, f"nothing is found for {typed!r}"
    QTest.keyClick(shown.field, Qt.Key.Key_Return)
    await bench.reactivate()


def test_the_outline_walks_edits_and_follows(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, ["sort-messages"]) as bench:
            bench.window.show_dock("outline")
            shown, editor = outline(bench), bench.tab.editor
            assert shown.texts()[0] == "Sort"
            assert "PaymentReply, if topic == 'payment'" in shown.texts()
            shown.tree.setFocus()
            editor.select(["Sort"])
            QTest.keyClick(shown.tree, Qt.Key.Key_Down)
            assert editor.selected() == ("DeliveryReply",)
            QTest.keyClick(shown.tree, Qt.Key.Key_Return)
            assert bench.tab.inspector.agent_form.template.hasFocus()
            shown.tree.setFocus()
            bench.press("Ctrl+Del")
            assert "DeliveryReply" not in shown.agents()
            bench.press("Ctrl+Z")
            assert "DeliveryReply" in shown.agents()
            editor.select(["Table", "Sort"])
            chosen = [index.data() for index in shown.tree.selectionModel().selectedRows()]
            assert sorted(chosen) == ["Sort", "Table"]
            shown.tree.setFocus()
            bench.press("Shift+A")
            await in_list(bench, "completion")
            assert "Agent" in shown.agents()
            assert all(widget.accessibleName() for widget in focusable(shown))

    run_qt(story(), 60)


def test_keys_of_the_canvas_do_nothing_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, ["sort-messages"]) as bench:
            bench.tab.editor.select(["Table"])
            bench.window.explorer.setFocus()
            tree = bench.window.explorer._tree
            tree.setFocus()
            bench.press("Del", tree)
            bench.press("Ctrl+X", tree)
            form = bench.tab.inspector.agent_form
            form.template.setFocus()
            bench.press("Ctrl+D", form.template)
            assert not bench.tab.document.is_modified
            bench.tab.editor.view.setFocus()
            bench.press("Del")
            assert "Table" not in bench.tab.editor.scene.agents

    run_qt(story(), 60)


def listed(request: Received) -> Answer:
    """Two things for the agent that names some, a verdict for the grader, a line for the others."""
    prompt = prompt_of(request)
    if "Name three things" in prompt:
        return chat('{"item": ["sun", "moon"]}')
    return chat('{"qaExplanation": "It is brief.", "qaPassed": true}' if "qaPassed" in prompt else "A line.")


def test_a_flow_of_four_agents_is_built_run_and_saved_without_a_mouse(tmp_path: Path) -> None:
    """Fan-out, a merge, and a grader's loop, from an empty flow."""
    path = tmp_path / "built.flow.json"
    path.write_text('{"format": "workbench.flow", "version": 1, "name": "Built"}', "utf-8")

    async def story() -> None:
        async with opened_on(listed, tmp_path / "home", [path]) as (bench, server):
            bench.tab.editor.view.setFocus()
            bench.press("Shift+A")
            await in_list(bench, "fan-out")
            editor = bench.tab.editor
            assert [one.name for one in editor.document.spec.agents] == ["List", "Each", "Together"]
            editor.view.setFocus()
            bench.press("Esc")
            bench.press("Right")
            assert editor.selected() == ("List",)
            bench.press("Right")
            bench.press("Right")
            assert editor.selected() == ("Together",)
            bench.press("Ctrl+Shift+A")
            await in_list(bench, "passed or not")
            assert editor.selected() == ("Grader",)
            editor.view.setFocus()
            bench.press("F2")
            assert QApplication.focusWidget() is bench.tab.inspector.agent_form.name
            QTest.keyClicks(bench.tab.inspector.agent_form.name, "Check")
            QTest.keyClick(bench.tab.inspector.agent_form.name, Qt.Key.Key_Return)
            editor.view.setFocus()
            bench.press("Left")
            assert editor.selected() == ("Together",)
            bench.press("Return")
            assert bench.tab.inspector.agent_form.template.hasFocus()
            QTest.keySequence(bench.tab.inspector.agent_form.template, "Ctrl+End")
            QTest.keyClicks(bench.tab.inspector.agent_form.template, " Be brief.")
            editor.view.setFocus()
            bench.press("Ctrl+L")
            bench.press("Ctrl+S")
            await bench.saved()
            check_agreement(editor)
            assert await bench.run_to_end() == "finished", bench.tab.panel.stream.banner.copied
            assert [bench.card_state(name) for name in ("List", "Each", "Together", "Check")] == ["finished"] * 4
            assert len(server.requests) == 5  # two things were named

    run_qt(story(), 60)
    saved = load_flow(path).spec
    assert [one.name for one in saved.agents] == ["List", "Each", "Together", "Check"]
    assert links(saved) == {("List", "Each"), ("Each", "Together"), ("Together", "Check")}
    assert saved.agents[2].template.endswith(" Be brief.")
    assert [one.message for one in check_flow(saved) if one.severity == "error"] == []
