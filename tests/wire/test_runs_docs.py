"""The examples of docs/runs.md, executed one after the other on runs that a scripted server answered."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import Engine, build_flow, flow_text, load_flow
from engine.flow.context import Context
from engine.folders import Folders
from tests.helpers.fake_server import Answer, FakeServer, Received, chat, failure
from tests.helpers.model_answers import flow_file, prompt_of, write_profile

PAGE = Path(__file__).parents[2] / "docs" / "runs.md"


def examples() -> dict[str, Callable[..., Any]]:
    names: dict[str, Any] = {"__name__": "example"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(code, "runs.md", "exec"), names)
    return names


async def test_the_examples_run(tmp_path: Path) -> None:
    shown, asked = examples(), list[str]()
    agents = [
        {"name": "Draft", "template": "draft {{topic}}", "handler": {"type": "text", "key": "draft"}},
        {"name": "Final", "template": "final {{draft}}", "handler": {"type": "text", "key": "final"}},
    ]
    spec = load_flow(flow_file(tmp_path / "two.flow.json", *agents, inputs=[{"key": "topic"}])).spec

    def answer(request: Received) -> Answer:
        asked.append(prompt_of(request))
        return failure(500) if len(asked) == 2 else chat(f"answer {len(asked)}")

    with FakeServer(answer) as server:
        write_profile(Folders(tmp_path), "fake", server.url, category="M")
        async with Engine.on_folders(Folders(tmp_path)) as engine:
            async with engine.run(build_flow(spec), Context({"topic": "robots"}), flow_text=flow_text(spec)) as run:
                async for _ in run:
                    pass
            assert run.finished is not None
            assert run.finished.status == "failed"
        assert await shown["resume"](tmp_path, run.id) == "finished"
        assert asked == ["draft robots", "final answer 1", "final answer 1"]
        assert await shown["run_from"](tmp_path, run.id, "Final", draft="my draft") == "finished"
        assert asked[3:] == ["final my draft"]
        frozen = await shown["frozen_agent"](tmp_path, run.id, "Draft")
        assert (frozen.agent, frozen.run_id, frozen.answers[0].content) == ("Draft", run.id, "answer 1")


def test_every_example_is_executed() -> None:
    names = re.findall(r"^async def (\w+)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert names == ["resume", "run_from", "frozen_agent"]
