"""The stepper through the passes of a run: canvas, tree, panes, keys and palette show the same one."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QLineEdit

from tests.helpers.fake_server import Answer, Received, chat, delta
from tests.helpers.model_answers import flow_file, prompt_of, stalled
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, opened_on
from workbench.command_palette import CommandPalette

pytestmark = pytest.mark.usefixtures("qapp")


def loop(folder: Path) -> Path:
    """Plan → Write → Judge, which sends back to Write until it says ok."""
    agents = [
        {"name": "Plan", "template": "plan", "handler": {"type": "text", "key": "plan"}},
        {"name": "Write", "template": "write {{plan}}", "handler": {"type": "text", "key": "text"}},
        {
            "name": "Judge",
            "template": "judge {{text}}",
            "handler": {"type": "text", "key": "verdict"},
            "routes": [{"when": "verdict == 'ok'", "to": None}, {"to": "Write"}],
        },
    ]
    return flow_file(folder / "loop.flow.json", *agents, outputs=["text"])


class Model:
    """Writes a numbered text each time, and is content with the third."""

    def __init__(self, last: Answer | None = None) -> None:
        self.written = 0
        self.last = last

    def __call__(self, request: Received) -> Answer:
        prompt = prompt_of(request)
        if prompt == "plan":
            return chat("a plan", usage=(10, 5))
        if prompt.startswith("write"):
            self.written += 1
            if self.written == 3 and self.last is not None:
                return self.last
            return chat(f"text {self.written}", usage=(10, 10 * self.written))
        return chat("ok" if prompt.endswith("3") else "again", usage=(20, 2))


def shown(bench: Workbench) -> tuple[str, str, int, tuple[str, ...]]:
    """What the stepper says, the agent and step of the tree, the selected cards."""
    panel, row = bench.tab.panel, bench.tab.panel.tree.current
    assert row is not None
    assert row.step is not None
    return panel.stepper.text(), row.agent, row.step.number, tuple(bench.tab.editor.selected())


def footer(bench: Workbench, agent: str) -> str:
    """The label and figures in the footer of a card; empty for none."""
    bench.tab.editor._show_figures()
    found = bench.tab.editor.scene.agents[agent].look.footer
    return "" if found is None else " ".join((found.label, *found.figures))


def test_the_stepper_takes_canvas_tree_and_panes_to_a_pass_and_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(Model(), tmp_path / "home", [loop(tmp_path)]) as (bench, _server):
            stepper, panel = bench.tab.panel.stepper, bench.tab.panel
            assert not stepper.isVisible()
            assert await bench.run_to_end() == "finished"
            assert stepper.isVisible()
            assert (stepper.text(), stepper.is_away) == ("7 / 7", False)
            whole = footer(bench, "Write")
            assert "60" in whole  # of all passes together
            bench.click(button(stepper, "Previous pass"))
            assert shown(bench) == ("6 / 7", "Write", 6, ("Write",))
            await bench.shows("text 3")
            assert "3/3" in footer(bench, "Write")
            assert "10 → 30" in footer(bench, "Write")
            assert "Out 30" in panel.stream.line.text()
            assert "2/3" in footer(bench, "Judge")  # its last one by then
            assert stepper.words() == "Pass 6 / 7: Write, its pass 3 of 3"
            assert panel._caption.text() == stepper.words()
            for _ in range(4):
                bench.press("Shift+F7")
            assert shown(bench) == ("2 / 7", "Write", 2, ("Write",))
            await bench.shows("text 1")
            assert [bench.card_state(name) for name in ("Plan", "Write", "Judge")] == ["finished", "finished", "idle"]
            assert panel.prompt.text.startswith("user\nwrite a plan\n")
            panel.show_tab("Context")
            assert panel.context.text == "plan\na plan\n\ntext\ntext 1"
            bench.press("F7")
            assert shown(bench) == ("3 / 7", "Judge", 3, ("Judge",))
            bench.press("Ctrl+F7")
            assert (stepper.text(), stepper.is_away) == ("7 / 7", False)
            assert footer(bench, "Write") == whole
            assert shown(bench)[1:3] == ("Judge", 7)

    run_qt(story(), 90)


def test_what_is_chosen_while_away_is_the_pass_on_show(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(Model(), tmp_path / "home", [loop(tmp_path)]) as (bench, _server):
            panel = bench.tab.panel
            assert await bench.run_to_end() == "finished"
            bench.press("Shift+F7")
            bench.press("Shift+F7")
            assert shown(bench) == ("5 / 7", "Judge", 5, ("Judge",))
            # A card shows what it had by then, and so do the panes.
            bench.click_agent("Write")
            assert shown(bench) == ("5 / 7", "Write", 4, ("Write",))
            await bench.shows("text 2")
            # A line of the tree is a pass.
            row = panel.tree.rows.step_row(3)
            assert row is not None
            bench.click(panel.tree, panel.tree.visualRect(panel.tree.rows.index_of(row)).center())
            assert shown(bench) == ("3 / 7", "Judge", 3, ("Judge",))
            assert bench.card_state("Judge") == "finished"
            assert "1/3" in footer(bench, "Judge")
            bench.press("Shift+F7")
            bench.press("Shift+F7")
            assert shown(bench) == ("1 / 7", "Plan", 1, ("Plan",))
            assert not bench.window.actions_by_id["previous_pass"].isEnabled()
            bench.click_agent("Judge")  # it had not run by then
            assert panel.tree.current is None
            assert panel.stepper.text() == "1 / 7"
            # Another run begins with the run as it stands.
            assert await bench.run_to_end() == "finished"
            assert not panel.stepper.is_away

    run_qt(story(), 90)


def test_a_live_run_is_followed_until_somebody_steps_away(tmp_path: Path) -> None:
    model = Model(last=stalled(delta("text")))

    async def story() -> None:
        async with opened_on(model, tmp_path / "home", [loop(tmp_path)]) as (bench, _server):
            stepper = bench.tab.panel.stepper
            bench.press("F5")
            await bench.until(lambda: bench.tab.panel.model.passes == [1, 2, 3, 4, 5, 6])
            assert (stepper.text(), stepper.is_away) == ("6 / 6", False)
            await bench.until(lambda: bench.card_state("Write") == "running")
            bench.press("Shift+F7")
            assert shown(bench)[:3] == ("5 / 6", "Judge", 5)
            assert bench.card_state("Write") == "finished"
            bench.press("F7")
            await bench.until(lambda: bench.card_state("Write") == "running")
            assert shown(bench)[:3] == ("6 / 6", "Write", 6)
            assert stepper.is_away
            bench.press("Shift+F5")
            assert await bench.run_end() == "stopped"
            assert bench.card_state("Write") == "stopped"
            assert stepper.is_away
            bench.press("Ctrl+F7")
            assert bench.card_state("Write") == "stopped"

    run_qt(story(), 90)


def test_a_reopened_run_is_stepped_through_from_the_palette(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(Model(), tmp_path / "home", [loop(tmp_path)]) as (bench, _server):
            assert await bench.run_to_end() == "finished"
            items = bench.window.explorer.items
            await bench.until(lambda: items("run") and items("run")[0].status != "running")
            await bench.desk.overview.open_run(items("run")[0].id)
            stepper = bench.tab.panel.stepper
            assert stepper.text() == "7 / 7"
            bench.press("Ctrl+K")
            palette = bench.window.findChild(CommandPalette)
            assert palette is not None
            await bench.until(palette.isVisible)
            field = palette.findChild(QLineEdit)
            assert field is not None
            bench.type_text(field, "previous pass")
            bench.press("Return", field)
            await bench.until(lambda: stepper.text() == "6 / 7")
            assert shown(bench) == ("6 / 7", "Write", 6, ("Write",))
            assert "3/3" in footer(bench, "Write")

    run_qt(story(), 90)
