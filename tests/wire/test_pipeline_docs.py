"""The examples of the pages about cache, interceptors, recovery and wire tapes, executed against a scripted server."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from engine import Agent, AgentType, Context, Flow
from engine.cache import CacheInfo
from engine.completion import Completion
from engine.folders import Folders
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import FakeServer, chat

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = [
    pytest.param(code, id=f"{name} {number}")
    for name in ("cache.md", "interceptors.md", "recovery.md", "wire-tape.md")
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / name).read_text("utf-8"), re.DOTALL), 1)
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("code", EXAMPLES)
async def test_the_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    names: dict[str, Any] = {}
    exec(compile(code, "example", "exec"), names)
    (example,) = (
        value for value in names.values() if inspect.isfunction(value) and value.__code__.co_filename == "example"
    )
    with FakeServer(chat(" I am a server. ")) as server:
        profile = profile_for(server.url)
        flow = Flow(name="Who", agents=(Agent("Ask", AgentType.COMPLETION, template="Who?", profile=profile),))
        known = {"profile": profile, "folders": Folders(tmp_path)}
        known |= {"flow": flow, "context": Context(), "path": tmp_path / "tape.jsonl"}
        result = example(**{name: known[name] for name in inspect.signature(example).parameters})
        if inspect.isawaitable(result):
            result = await result
    assert result is not None
    if isinstance(result, Completion):
        assert result.content.strip() == "I am a server."
    if isinstance(result, CacheInfo):
        assert (result.entries, result.hits) == (1, 1)
