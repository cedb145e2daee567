"""What a run may cost is told before it: on cards, in the tip of Run, in the form; inputs from a row of a dataset."""

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit, QSpinBox

from tests.helpers.fake_server import Answer, Received, chat
from tests.helpers.model_answers import flow_file, prompt_of
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, choose_file, opened_on
from workbench.run_panel.input_form import InputForm

pytestmark = pytest.mark.usefixtures("qapp")


def echo(request: Received) -> Answer:
    return chat(prompt_of(request), usage=(1000, 500))


def split_flow(folder: Path) -> Path:
    return flow_file(
        folder / "split.flow.json",
        {"name": "Each", "template": "About [[thing]].", "merge": {"type": "concat", "keys": ["response"]}},
        {"name": "Sum", "template": "Sum up {{response}}."},
        inputs=[{"key": "thing", "type": "list", "default": ["one", "two", "three"]}],
    )


def hover(bench: Workbench, kind: QEvent.Type) -> None:
    QApplication.sendEvent(bench.window._run_button, QEvent(kind))


def test_the_plan_stands_on_the_cards_and_in_the_tip_while_the_mouse_is_on_run(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(echo, tmp_path / "home", [split_flow(tmp_path)]) as (bench, server):
            hover(bench, QEvent.Type.Enter)
            run = bench.window.actions_by_id["run"]
            assert bench.card_state("Each") == "planned"
            footer = bench.tab.editor.scene.agents["Each"].look.footer
            assert footer is not None
            assert footer.label == "3 paid calls"
            # Three times 4 tokens for $2 and at most 200 for $8 a million.
            assert footer.figures == ("≤ $0.0048",)
            assert run.toolTip().splitlines()[1] == "4 paid calls, ≤ $0.0064 if answers get as long as they may"
            hover(bench, QEvent.Type.Leave)
            assert bench.card_state("Each") == "idle"
            assert len(run.toolTip().splitlines()) == 1
            assert not server.requests
            assert await bench.run_to_end() == "finished"
            hover(bench, QEvent.Type.Enter)
            # As the last run had it: four calls with 1,000 and 500 tokens.
            assert run.toolTip().splitlines()[1] == "4 paid calls, ~$0.024"
            hover(bench, QEvent.Type.Leave)

    run_qt(story())


def test_the_form_tells_the_plan_and_what_is_wrong_with_a_field(tmp_path: Path) -> None:
    inputs = [
        {"key": "count", "type": "number", "default": 3},
        {"key": "data", "type": "json", "default": {"a": 1}},
    ]
    path = flow_file(tmp_path / "typed.flow.json", {"name": "A", "template": "{{count}} {{data}}"}, inputs=inputs)

    async def story() -> None:
        async with opened_on(echo, tmp_path / "home", [path]) as (bench, server):
            bench.trigger("inputs")
            form = await bench.dialog(InputForm)
            fields = form._fields
            run = button(form, "Run")
            assert form._message.text().startswith("1 paid call, ≤ $")
            count = fields._fields["count"]
            assert isinstance(count, QLineEdit)
            bench.type_text(count, "3,5")
            assert fields._notes["count"].text == 'Found "3,5", expected a number with a decimal point.'
            assert fields._notes["count"].isVisible()
            assert form._message.text() == "To be mended: count"
            assert not run.isEnabled()
            bench.type_text(count, "3.5")
            assert fields.invalid() == []
            data = fields._fields["data"]
            assert isinstance(data, QPlainTextEdit)
            data.setPlainText('{"a": ')
            assert fields.invalid() == ["data"]
            assert fields._notes["data"].text
            data.setPlainText("[1, 2]")
            bench.click(run)
            assert await bench.run_end() == "finished"
            assert prompt_of(server.requests[0]).split() == ["3.5", "1", "2"]

    run_qt(story())


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_inputs_are_taken_from_a_row_of_a_dataset(form: str, tmp_path: Path) -> None:
    inputs = [
        {"key": "word", "type": "text", "default": "none"},
        {"key": "tone", "type": "choice", "choices": ["calm", "loud"], "default": "calm"},
    ]
    path = flow_file(tmp_path / "words.flow.json", {"name": "A", "template": "{{word}}, {{tone}}"}, inputs=inputs)
    rows = [{"word": "cat", "tone": "loud", "more": "x"}, {"word": "dog, old", "tone": "calm", "more": "y"}]
    dataset, other = tmp_path / f"rows.{form}", tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    if form == "csv":
        dataset.write_text('word,tone,more\ncat,loud,x\n"dog, old",calm,y\n')
    else:
        dataset.write_text("\n".join(json.dumps(row) for row in rows))

    async def story() -> None:
        async with opened_on(echo, tmp_path / "home", [path]) as (bench, server):
            bench.trigger("inputs")
            asked = await bench.dialog(InputForm)
            fault = asked._row_fault
            bench.click(asked.row.file)
            await choose_file(bench, dataset)
            await bench.until(lambda: asked._fields.texts() == {"word": "cat", "tone": "loud"})
            number = asked.row.number
            assert isinstance(number, QSpinBox)
            assert number.isVisible()
            number.setValue(2)
            await bench.until(lambda: asked._fields.texts() == {"word": "dog, old", "tone": "calm"})
            number.setValue(3)
            await bench.until(lambda: fault.text == f"rows.{form} has 2 rows, row 3 is none of them.")
            number.setValue(2)
            await bench.until(lambda: not fault.text)
            asked.row.take(str(other))
            await bench.until(lambda: fault.text.startswith("No column is one of the inputs: found a, b, expected"))
            assert asked._fields.texts() == {"word": "dog, old", "tone": "calm"}
            bench.click(button(asked, "Run"))
            assert await bench.run_end() == "finished"
            assert prompt_of(server.requests[0]) == "dog, old, calm"
            assert bench.settings.inputs(str(path)) == {"word": "dog, old", "tone": "calm"}

    run_qt(story())


def test_a_local_model_costs_nothing(tmp_path: Path) -> None:
    free = {"cost1MInTokens": "0", "cost1MOutTokens": "0"}

    async def story() -> None:
        async with opened_on(echo, tmp_path / "home", [split_flow(tmp_path)], **free) as (bench, _server):
            hover(bench, QEvent.Type.Enter)
            assert bench.window.actions_by_id["run"].toolTip().splitlines()[1] == "4 calls, free"

    run_qt(story())
