"""Tidying up: large flows beside the window, links that follow when many agents move, cards held on their way."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QAbstractAnimation, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.flow.flow_file import save_flow
from engine.flow.flow_spec import FlowSpec
from tests.helpers.canvas import check_agreement, key, middle
from tests.helpers.qt_loop import run_qt
from tests.helpers.sample_flows import chain, grid
from tests.helpers.window import opened
from workbench.designer.auto_layout import layered
from workbench.designer.canvas_commands import CanvasCommands
from workbench.designer.editor import FlowEditor
from workbench.designer.edits import change_agent, move_agents
from workbench.designer.flow_document import FlowDocument
from workbench.designer.placement import placed
from workbench.designer.run_overlay import RunOverlay
from workbench.designer.scene import FlowScene
from workbench.theme import theme

Shown = Callable[[FlowSpec], FlowEditor]


@pytest.fixture
def shown(qtbot: QtBot) -> Shown:
    """An editor on the screen, with motion."""

    def show(spec: FlowSpec) -> FlowEditor:
        editor = FlowEditor(FlowDocument(spec))
        qtbot.addWidget(editor)
        editor.resize(1000, 700)
        editor.show()
        QApplication.processEvents()
        return editor

    theme.set_reduced_motion(False)
    return show


def drawn(scene: FlowScene) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """The corners of each link that is to be seen."""
    scene.lay(scene.extent().adjusted(-50, -50, 50, 50))
    found = {}
    for name in scene.agents:
        for link in scene.links_of(name):
            assert link.line is not None
            assert link.line.isVisible()
            path = link.line.path()
            elements = (path.elementAt(index) for index in range(path.elementCount()))
            found[link.source, link.index] = [(round(one.x, 3), round(one.y, 3)) for one in elements]
    return found


def test_all_links_follow_when_many_agents_move(shown: Shown, qtbot: QtBot) -> None:
    editor = shown(grid(150))
    spec = editor.document.spec
    mirrored = {name: (-x, y * 2) for name, (x, y) in placed(spec).items()}  # what led forward leads back
    for places in (mirrored, placed(spec)):
        editor.edit("Move", move_agents(editor.document.spec, places))
        check_agreement(editor)
        qtbot.waitUntil(lambda: not editor.scene._far._timer.isActive())
        fresh = FlowScene(editor.document.spec, RunOverlay())
        assert drawn(editor.scene) == drawn(fresh)
        assert editor.scene.extent() == fresh.extent()


def test_a_card_held_on_its_way_follows_the_mouse_and_stays_where_it_is_put(shown: Shown) -> None:
    editor = shown(chain("A", "B", "C", spacing=300.0))
    editor.edit("Move", move_agents(editor.document.spec, {"B": (300.0, 400.0), "C": (600.0, 300.0)}))
    editor.fit_all()
    editor.commands.perform("layout")
    clock = editor._glide._clock
    assert clock.state() is QAbstractAnimation.State.Running
    clock.pause()
    clock.setCurrentTime(100)
    ends = placed(editor.document.spec)
    seen, start = editor.scene.agents["B"].pos(), middle(editor, "B")
    assert (seen.x(), seen.y()) != ends["B"]
    canvas = editor.view.viewport()
    QTest.mousePress(canvas, Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseMove(canvas, start + QPoint(0, 40))
    moved = editor.scene.agents["B"].pos()
    clock.setCurrentTime(250)
    assert editor.scene.agents["B"].pos() == moved
    assert abs(moved.x() - seen.x()) <= 10
    assert 0 < moved.y() - seen.y() <= 40 / editor.view.transform().m11() + 10
    assert (editor.scene.agents["C"].x(), editor.scene.agents["C"].y()) == ends["C"]
    QTest.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=start + QPoint(0, 40))
    assert placed(editor.document.spec)["B"] == (moved.x(), moved.y())
    assert editor.undo_stack.undoText() == "Move B"
    check_agreement(editor)


def test_a_card_let_go_on_its_way_without_a_move_goes_where_it_belongs(shown: Shown) -> None:
    editor = shown(chain("A", "B", "C", spacing=300.0))
    editor.edit("Move", move_agents(editor.document.spec, {"B": (300.0, 400.0)}))
    editor.commands.perform("layout")
    editor._glide._clock.pause()
    editor._glide._clock.setCurrentTime(100)
    start, canvas = middle(editor, "B"), editor.view.viewport()
    QTest.mousePress(canvas, Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseMove(canvas, start + QPoint(30, 30))
    key(editor, Qt.Key.Key_Escape)
    editor._glide._clock.setCurrentTime(250)
    check_agreement(editor)


def test_many_agents_are_laid_out_beside_the_window(tmp_path: Path) -> None:
    spec = grid(260)
    save_flow(spec, tmp_path / "large.flow.json")

    async def story() -> None:
        async with opened(tmp_path / "home", [tmp_path / "large.flow.json"]) as bench:
            editor = bench.tab.editor
            heights = {name: item.content.body_height for name, item in editor.scene.agents.items()}
            bench.trigger("layout")
            assert editor.undo_stack.count() == 0  # it is being found out
            await bench.until(lambda: editor.undo_stack.count() == 1)
            assert placed(editor.document.spec) == layered(spec, (), heights)
            check_agreement(editor)
            bench.trigger("undo")
            assert editor.document.spec == spec

    run_qt(story(), 60)


@pytest.mark.usefixtures("qapp")
def test_a_layout_comes_too_late_for_a_flow_that_was_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    editor = FlowEditor(FlowDocument(grid(210)))

    def slow(spec: FlowSpec, names: object, heights: object) -> dict[str, tuple[float, float]]:
        return dict.fromkeys(heights if isinstance(heights, dict) else (), (1.0, 1.0))

    monkeypatch.setattr("workbench.designer.canvas_commands.layered", slow)

    async def story() -> None:
        commands: CanvasCommands = editor.commands
        laying = commands._lay_out_beside(editor.document.spec, (), {"Agent0": 1.0})
        editor.edit("Move", move_agents(editor.document.spec, {"Agent1": (7.0, 7.0)}))
        await laying
        assert editor.undo_stack.count() == 1

    run_qt(story(), 60)
    editor.deleteLater()


def test_what_is_wrong_is_not_looked_for_when_agents_only_move(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, ["draft-grade-improve"]) as bench:
            timer = bench.tab._check_timer
            await bench.until(lambda: not timer.isActive())
            bench.tab.editor.view.agents_moved.emit({"Writer": (5.0, 5.0)}, False)
            assert not timer.isActive()
            bench.tab.editor.select(["Writer"])
            bench.trigger("mute")
            assert timer.isActive()

    run_qt(story(), 60)


def test_a_large_flow_is_checked_beside_the_window(tmp_path: Path) -> None:
    save_flow(grid(260), tmp_path / "large.flow.json")

    async def story() -> None:
        async with opened(tmp_path / "home", [tmp_path / "large.flow.json"]) as bench:
            editor = bench.tab.editor
            editor.edit("Prompt", change_agent(editor.document.spec, "Agent3", template="{{nope}}"))
            await bench.until(lambda: any('"nope"' in problem.message for problem in bench.tab.document.problems))
            bench.trigger("undo")
            await bench.until(lambda: not any('"nope"' in problem.message for problem in bench.tab.document.problems))

    run_qt(story(), 60)
