"""The examples of docs/compare.md do what the page says."""

import re
import shlex
from pathlib import Path

import pytest

from engine.cli import main
from engine.folders import Folders
from tests.helpers.fake_server import Answer, FakeServer, Received, chat
from tests.helpers.model_answers import prompt_of, write_profile

PAGE = (Path(__file__).parents[2] / "docs" / "compare.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def answer(request: Received) -> Answer:
    prompt = prompt_of(request)
    if "Rate the answer" in prompt:
        return chat('{"qaExplanation": "fine", "qaRating": 70}')
    knows = request.json()["model"] == "large" or "spider" in prompt
    return chat(("Paris" if "France" in prompt else "8") if knows else "Rome")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    (tmp_path / "questions.csv").write_text(block("csv"))
    return tmp_path


def test_the_commands(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(answer) as server:
        for name in ("small", "large"):
            write_profile(Folders(place / "home"), name, server.url, modelName=name)
        shown = []
        for line in block("sh").splitlines():
            assert main(shlex.split(line)[1:]) == 0
            shown.append(capsys.readouterr().out)
    assert re.search(r"^small +50 +2/2 +0 ", shown[0], re.MULTILINE)
    assert re.search(r"^large +100 +2/2 +0 ", shown[0], re.MULTILINE)
    assert re.search(r"^large +70 +2/2 +0 ", shown[1], re.MULTILINE)
    assert "Answer in one word: {{question}}" in shown[2]


def test_the_python_example(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(answer) as server:
        for name in ("small", "large"):
            write_profile(Folders(place / "home"), name, server.url, modelName=name)
        exec(compile(block("python"), "compare.md", "exec"), {"home": place / "home"})
    assert capsys.readouterr().out == "finished [('small', 1), ('large', 1)]\n"
