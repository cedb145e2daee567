"""After Stop the window says whether the server stopped."""

import json
from pathlib import Path

import pytest

from engine.folders import Folders
from tests.helpers.fake_server import JSON, Answer, FakeServer, delta
from tests.helpers.model_answers import flow_file, stalled, write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened

pytestmark = pytest.mark.usefixtures("qapp")


def slots(*busy: bool) -> Answer:
    body = json.dumps([{"id": number, "is_processing": works} for number, works in enumerate(busy)]).encode()
    return Answer(headers=JSON, pieces=[body], framing="length")


async def stop_it(bench: Workbench) -> str:
    """Stop the run once its first word is there; the statistics line at the end."""
    panel = bench.tab.panel
    bench.press("F5")
    await bench.until(
        lambda: any(attempt.content.length for step in panel.model.steps.values() for attempt in step.attempts())
    )
    bench.press("Shift+F5")
    assert await bench.run_end() == "stopped"
    return panel.stream.line.text()


@pytest.mark.parametrize(
    ("get", "says", "warns"),
    [
        (slots(False, False), "Server stopped", False),
        (slots(True, False, False), "Server still works (1 of 3 slots)", True),
        (Answer(status=501, headers=JSON, pieces=[b"{}"], framing="length"), "Server connection closed", False),
    ],
)
def test_the_line_below_the_words_tells_what_the_server_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, get: Answer, says: str, warns: bool
) -> None:
    monkeypatch.setattr("engine.stop_proof.MOST", 0.3)
    path = flow_file(tmp_path / "one.flow.json", {"name": "Writer", "template": "write"})

    async def story() -> None:
        with FakeServer(stalled(delta("half a word")), get=get) as server:
            write_profile(Folders(tmp_path / "home"), "fake", server.url, category="M")
            async with opened(tmp_path / "home", [path]) as bench:
                assert says in await stop_it(bench)
                panel = bench.tab.panel
                assert ("The call was stopped, but its server still works" in panel.stream.banner.copied) is warns
                # It looks the same when it is opened from the record.
                items = bench.window.explorer.items
                await bench.until(lambda: items("run") and items("run")[0].status == "stopped")
                await bench.desk.overview.open_run(items("run")[0].id)
                assert bench.tab.panel is not panel
                await bench.until(lambda: says in bench.tab.panel.stream.line.text())

    run_qt(story(), 90)
