"""The keys of the canvas in the real window, and flows dragged from the explorer."""

from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication

from engine import flow_text, read_flow
from tests.helpers.canvas import check_agreement
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened
from workbench.widgets.dragged_flow import FLOW, is_dragged, source_of

pytestmark = pytest.mark.usefixtures("qapp")


def names(bench: Workbench) -> list[str]:
    return [agent.name for agent in bench.tab.document.spec.agents]


def test_each_key_does_one_step_and_all_can_be_taken_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, ["draft-grade-improve"]) as bench:
            editor, stack = bench.tab.editor, bench.tab.editor.undo_stack
            before = flow_text(bench.tab.document.spec)
            editor.view.setFocus()
            bench.press("Ctrl+A")
            bench.press("Ctrl+C")
            assert len(read_flow(QGuiApplication.clipboard().text()).spec.agents) == 2
            bench.press("Ctrl+V")
            assert names(bench) == ["Writer", "Check", "Writer 2", "Check 2"]
            bench.press("Ctrl+D")
            assert names(bench)[-2:] == ["Writer 3", "Check 3"]
            bench.press("Ctrl+M")
            assert [agent.state for agent in bench.tab.document.spec.agents[-2:]] == ["mute", "mute"]
            bench.press("Ctrl+B")
            assert [agent.state for agent in bench.tab.document.spec.agents[-2:]] == ["bypass", "bypass"]
            bench.press("Ctrl+X")
            assert len(names(bench)) == 4
            bench.press("Ctrl+Shift+V")
            assert len(names(bench)) == 6
            bench.press("Ctrl+L")
            bench.press("Ctrl+G")
            assert editor.frame_text.isVisible()
            bench.press("Esc")
            editor.select(["Check"])
            bench.press("Ctrl+Del")
            bench.press("Alt+Right")  # nothing is selected any more: no step
            assert stack.count() == 9
            check_agreement(editor)
            for _ in range(9):
                bench.press("Ctrl+Z")
            assert flow_text(bench.tab.document.spec) == before
            assert not bench.tab.document.is_modified
            check_agreement(editor)

    run_qt(story(), 60)


def test_what_cannot_be_done_says_why(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, ["draft-grade-improve"]) as bench:
            actions = bench.window.actions_by_id
            assert not actions["delete"].isEnabled()
            assert actions["delete"].toolTip() == "Select an agent."
            bench.tab.editor.select_all()
            assert actions["delete"].isEnabled()
            assert "Remove" in actions["delete"].toolTip()
            assert actions["connect_to"].toolTip() == "Select one agent only."

    run_qt(story(), 60)


def test_flows_of_the_explorer_can_be_dragged_and_profiles_cannot(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, ["draft-grade-improve"]) as bench:
            model = bench.window.explorer._model
            flows = model.item(0)
            thinking = next(
                flows.child(row) for row in range(flows.rowCount()) if "thinking" in str(flows.child(row).data())
            )
            data = model.mimeData([thinking.index()])
            assert is_dragged(data)
            assert source_of(data, FLOW) == "thinking"
            assert thinking.isDragEnabled()
            profiles = model.item(model.rowCount() - 1)
            assert profiles.rowCount()
            assert not profiles.child(0).isDragEnabled()

    run_qt(story(), 60)
