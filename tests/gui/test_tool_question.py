"""Tools with side effects in the window: asked about with their arguments, once or for the run; Stop takes it away."""

import asyncio
import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from engine import Tool, ToolCall, ToolDefinition
from tests.helpers.fake_server import DONE, EVENT_STREAM, Answer, Received, chat, delta
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened_on
from workbench import tool_question
from workbench.tool_question import KeyPause, ToolQuestion

pytestmark = pytest.mark.usefixtures("qapp")

CODE = """
def note(text: str) -> str:
    \"\"\"Writes a note.\"\"\"
    return "noted " + text


PLUGINS = {"tools": {"note": note}}
"""


def script(request: Received) -> Answer:
    """Calls the tool twice, one after the other, then tells what came of it."""
    results = [turn["content"] for turn in request.json()["messages"] if turn["role"] == "tool"]
    if len(results) == 2:
        return chat(" | ".join(results))
    call = {
        "index": 0,
        "id": f"c{len(results)}",
        "type": "function",
        "function": {"name": "note", "arguments": json.dumps({"text": f"milk {len(results)}"})},
    }
    return Answer(headers=EVENT_STREAM, pieces=[delta(tool_calls=[call]), delta(finish_reason="tool_calls"), DONE])


async def trusted(bench: Workbench) -> None:
    access = bench.tab.trust.restricted
    assert access is not None
    bench.tab.trust.trust(access)


def with_tool(folder: Path) -> Path:
    (folder / "plugins").mkdir(parents=True)
    (folder / "plugins" / "notes.py").write_text(CODE, "utf-8")
    agent = {"name": "Writer", "template": "Note milk.", "tools": ["note"], "handler": {"type": "tools"}}
    return flow_file(folder / "notes.flow.json", agent)


def test_a_tool_is_asked_about_once_or_for_the_run(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(script, tmp_path / "home", [with_tool(tmp_path / "flow")]) as (bench, _server):
            await trusted(bench)
            bench.press("F5")
            question = await bench.dialog(QMessageBox)
            assert '"text": "milk 0"' in question.informativeText()
            words = await bench.answer("Allow once")
            assert words == "Test flow wants to use the tool note, which changes something outside of the flow."
            question = await bench.dialog(QMessageBox)
            assert '"text": "milk 1"' in question.informativeText()
            await bench.answer("Refuse")
            assert await bench.run_end() == "finished"
            await bench.shows("noted milk 0 | Error: note was not allowed.")

    run_qt(story(), 120)


def both_at_once(request: Received) -> Answer:
    """Calls the tool twice in one answer; once it knows what came of it, it obeys what stands there."""
    results = [turn["content"] for turn in request.json()["messages"] if turn["role"] == "tool"]
    texts = {0: ["milk", "bread"], 2: ["evil"]}.get(len(results))
    if texts is None:
        return chat(" | ".join(results))
    calls = [
        {
            "index": place,
            "id": text,
            "type": "function",
            "function": {"name": "note", "arguments": f'{{"text":"{text}"}}'},
        }
        for place, text in enumerate(texts)
    ]
    return Answer(headers=EVENT_STREAM, pieces=[delta(tool_calls=calls), delta(finish_reason="tool_calls"), DONE])


def test_what_was_allowed_for_the_run_is_asked_again_once_a_tool_has_brought_text(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(both_at_once, tmp_path / "home", [with_tool(tmp_path / "flow")]) as (bench, _server):
            await trusted(bench)
            bench.press("F5")
            question = await bench.dialog(QMessageBox)
            assert "brought a text" not in question.informativeText()
            await bench.answer("Allow in this run")
            # The second of the two did not ask; what the model wants after it has read their results does.
            question = await bench.dialog(QMessageBox)
            assert '"text": "evil"' in question.informativeText()
            assert "brought a text into this conversation" in question.informativeText()
            await bench.answer("Refuse")
            assert await bench.run_end() == "finished"
            await bench.shows("noted milk | noted bread | Error: note was not allowed.")

    run_qt(story(), 120)


def test_no_key_acts_on_a_question_that_has_just_come_up(
    tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_question, "KEY_PAUSE", 10_000_000)
    tool = Tool(definition=ToolDefinition.of_texts("note", "Notes.", {"text": "Any"}), function=str, side_effects=True)
    call = ToolCall(id="1", name="note", arguments=json.dumps({"text": "x" * 9000 + "the end\u202e"}))

    async def story() -> None:
        window = QWidget()
        qtbot.addWidget(window)
        window.show()
        asking = asyncio.create_task(ToolQuestion(window, "Flow")(tool, call))
        while not isinstance(question := QApplication.activeModalWidget(), QMessageBox):
            await asyncio.sleep(0.005)
        assert question.defaultButton().text() == "Refuse"
        assert "9,0" in question.informativeText()
        assert "the end‹RLO›" in question.detailedText()
        keys = (Qt.Key.Key_Return, Qt.Key.Key_Space, Qt.Key.Key_Escape, Qt.Key.Key_A)
        for widget in (question, *question.buttons()):
            for key in keys:
                QTest.keyClick(widget, key)
                QTest.keyClick(widget, key, Qt.KeyboardModifier.AltModifier)
        await asyncio.sleep(0)
        assert question.isVisible()
        assert not asking.done()
        pause = question.findChild(KeyPause)
        assert pause is not None
        pause.end()
        QTest.keyClick(question.defaultButton(), Qt.Key.Key_Return)
        assert await asking is False

    run_qt(story(), 60)


def test_stop_takes_the_question_away(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(script, tmp_path / "home", [with_tool(tmp_path / "flow")]) as (bench, _server):
            await trusted(bench)
            bench.press("F5")
            await bench.dialog(QMessageBox)
            bench.trigger("stop")
            assert await bench.run_end() == "stopped"
            await bench.until(lambda: QApplication.activeModalWidget() is None)

    run_qt(story(), 60)
