"""Tools with side effects in the window: asked about with their arguments, once or for the run; Stop takes it away."""

import json
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QMessageBox

from tests.helpers.fake_server import DONE, EVENT_STREAM, Answer, Received, chat, delta
from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened_on

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
            bench.press("F5")
            await bench.answer("Allow in this run")
            assert await bench.run_end() == "finished"
            await bench.shows("noted milk 0 | noted milk 1")

    run_qt(story(), 120)


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
