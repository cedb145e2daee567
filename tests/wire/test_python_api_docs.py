"""The examples of docs/python-api.md, executed against a scripted server."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from engine.completion import FinishReason
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import FakeServer, chat
from tests.helpers.model_answers import flow_file

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
RESULTS = {
    "ask": ("The Seine", FinishReason.DONE, 3),
    "watch": True,
    "cities": (["Paris", "Rome"], 2, "⇉ 1/2, M, Name, 2↣1, →, M, Sum", 3),
    "drafts": ("3", "finished"),
    "from_file": {"response": ["The Seine"]},
    "number": (None, "PARSING", "M, Ask, ⚠, ⚠, ☢"),
    "refused": ("ConnectFailed", True),
}


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: re.findall(r"async def (\w+)", code)[-1])
async def test_the_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    agent = {"name": "Writer", "template": "About {{topic}}."}
    flow = flow_file(tmp_path / "a.flow.json", agent, inputs=[{"key": "topic"}], outputs=["response"])
    names: dict[str, Any] = {}
    exec(compile(code, "example", "exec"), names)
    name = re.findall(r"^async def (\w+)", code, re.MULTILINE)[-1]
    with FakeServer(chat("The Seine")) as server:
        known = {"profile": profile_for(server.url), "path": flow}
        example = names[name]
        result = await example(**{name: known[name] for name in inspect.signature(example).parameters})
    assert result == RESULTS[name]


def test_every_example_has_a_result_to_check() -> None:
    assert sorted(re.findall(r"^async def (?!handle)(\w+)\(", PAGE.read_text("utf-8"), re.MULTILINE)) == sorted(RESULTS)
