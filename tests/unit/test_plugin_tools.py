import json
from pathlib import Path

import pytest

from engine.conversation import ToolCall, ToolDefinition
from engine.errors import PluginError
from engine.flow.flow_build import build_flow
from engine.flow.flow_file import read_flow
from engine.flow.plugin_tools import find_tool, function_tool, has_tool, tool_names
from engine.flow.sample_tools import CALCULATOR
from engine.flow.tools import Outcome, Tool, allow_named, refuse, run_tool
from engine.plugin_folder import PluginFolder
from engine.plugins import Plugins, folder_workers

SOURCE = '''
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    More about it."""
    if b == 13:
        raise ValueError("unlucky")
    return a + b

PLUGINS = {"tools": {"add": add, "calculator": add}}
'''


def call(**arguments: object) -> ToolCall:
    return ToolCall(id="c", name="add", arguments=json.dumps(arguments))


async def test_tools_of_a_folder_run_in_its_process_when_allowed(tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text(SOURCE, encoding="utf-8")
    folder = PluginFolder.read(tmp_path)
    workers = folder_workers(folder)
    plugins = Plugins(folder, workers)
    assert tool_names(plugins) == ["add", "calculator", "clock", "http_get", "read_file"]
    assert find_tool("calculator", plugins) is CALCULATOR
    tool = find_tool("add", plugins)
    assert tool.definition.description == "Add two numbers."
    assert tool.definition.parameters["required"] == ["a"]
    try:
        assert await run_tool(tool, call(a=1), refuse) == Outcome("Error: add was not allowed.", failed=True)
        allowed = allow_named(["add"])
        assert await run_tool(tool, call(a=1, b=2), allowed) == Outcome("3")
        assert await run_tool(tool, call(a=1), allowed) == Outcome("2")
        assert (await run_tool(tool, call(a="x"), allowed)).output.startswith("Error: Arguments do not fit")
        failed = await run_tool(tool, call(a=1, b=13), allowed)
        assert failed.failed
        assert "ValueError: unlucky" in failed.output
    finally:
        await workers.aclose()


def look_up(word: str, languages: list[str], exact: bool | None = None) -> dict[str, object]:
    """Look a word up
    in dictionaries.

    Not shown."""
    return {"word": word, "languages": languages, "exact": exact}


async def test_tools_of_a_program_are_functions_or_tools() -> None:
    plugins = Plugins()
    plugins.register("tools", "look_up", look_up)
    own = Tool(definition=ToolDefinition(name="own"), function=look_up)
    plugins.register("tools", "own", own)
    plugins.register("tools", "odd", 3)
    assert find_tool("own", plugins) is own
    assert has_tool("look_up", plugins)
    assert not has_tool("nothing", plugins)
    tool = find_tool("look_up", plugins)
    assert tool.side_effects
    assert tool.definition == ToolDefinition(
        name="look_up",
        description="Look a word up\nin dictionaries.",
        parameters={
            "type": "object",
            "properties": {
                "word": {"type": "string"},
                "languages": {"type": "array", "items": {"type": "string"}},
                "exact": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            },
            "required": ["word", "languages"],
            "additionalProperties": False,
        },
    )
    made = function_tool(look_up, side_effects=False)
    outcome = await run_tool(made, call(word="a", languages=["en"]), refuse)
    assert json.loads(outcome.output) == {"word": "a", "languages": ["en"], "exact": None}
    with pytest.raises(PluginError, match="neither a Tool nor a function"):
        find_tool("odd", plugins)
    with pytest.raises(PluginError, match='no plug-in "nothing"'):
        find_tool("nothing", plugins)


def test_agents_of_a_file_get_the_tools_of_plug_ins() -> None:
    plugins = Plugins()
    plugins.register("tools", "look_up", look_up)
    agent = {"name": "A", "type": "COMPLETION", "template": "x", "tools": ["look_up"], "handler": {"type": "tools"}}
    whole = {"format": "workbench.flow", "version": 1, "name": "F", "agents": [agent | {"max_tool_call_rounds": 3}]}
    (built,) = build_flow(read_flow(json.dumps(whole)).spec, plugins=plugins).agents
    assert built.max_tool_rounds == 3
    offer = built.offer({})  # type: ignore[arg-type]
    assert offer is not None
    assert list(offer.tools) == ["look_up"]
