"""Whatever a model makes of a call: only arguments that fit reach a tool, and every call gets an answer."""

import json
import random
from pathlib import Path

import pytest

from engine.clients.tool_calls import ToolCallPieces
from engine.conversation import ToolCall, ToolDefinition
from engine.flow import json_schema
from engine.flow.granted_tools import READ_FILE, Grants, current_grants
from engine.flow.tools import Tool, allow_named, run_tool

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 20},
        "count": {"type": "integer", "minimum": 0, "maximum": 9},
        "mode": {"enum": ["a", "b"]},
        "items": {"type": "array", "items": {"type": "number"}, "maxItems": 3},
    },
    "required": ["text"],
    "additionalProperties": False,
}
VALUES = [None, True, 0, -1, 5, 9.5, 10**400, "", "x", "y" * 50, "\x00\ud800", [], [1], [1, "2"], {}, {"a": 1}, "b"]
NAMES = ["text", "count", "mode", "items", "self", "__class__", "", "text\x00", "tEXT"]
NOISE = ["", "{", "}", "[", '"', ",", "\\", "null", "NaN", "1e999", "\x00", "/*", "'", "\ud800", "{{}}"]


def arguments(chance: random.Random) -> str:
    """JSON, nearly JSON, or nothing like it."""
    made = {name: chance.choice(VALUES) for name in chance.sample(NAMES, chance.randint(0, 4))}
    if chance.random() < 0.3:
        made = {"text": "fits", **{name: value for name, value in made.items() if name == "count"}}
    text = json.dumps(made)
    for _ in range(chance.choice([0, 0, 1, 3])):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice(NOISE) + text[place + chance.randint(0, 2) :]
    return text


async def test_a_thousand_odd_calls() -> None:
    reached: list[dict[str, object]] = []

    def take(**given: object) -> str:
        reached.append(given)
        return "taken"

    tool = Tool(definition=ToolDefinition(name="take", parameters=SCHEMA), function=take)
    refused = 0
    for seed in range(1000):
        call = ToolCall(id=str(seed), name="take", arguments=arguments(random.Random(seed)))
        outcome = await run_tool(tool, call, allow_named(()))
        assert outcome.output == "taken" or outcome.output.startswith("Error: "), call.arguments
        refused += outcome.failed
    assert refused + len(reached) == 1000
    assert len(reached) > 50
    assert refused > 500
    assert [given for given in reached if list(json_schema.faults(given, SCHEMA))] == []


PATHS = [
    "../../etc/passwd",
    "/etc/passwd",
    "....//....//etc/passwd",
    "~root/x",
    "\x00",
    "a/../../b",
    "link",
    "//etc/passwd",
]


@pytest.mark.parametrize("path", PATHS)
async def test_no_path_leads_out_of_the_granted_folder(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "granted"
    folder.mkdir()
    (tmp_path / "b").write_text("secret")
    (folder / "link").symlink_to("/etc/passwd")
    current_grants.set(Grants(folders=(folder,)))
    call = ToolCall(id="1", name="read_file", arguments=json.dumps({"path": path}))
    outcome = await run_tool(READ_FILE, call, allow_named(["read_file"]))
    assert outcome.failed
    assert "root:" not in outcome.output
    assert "secret" not in outcome.output


def test_pieces_with_odd_numbers_and_out_of_order_become_calls() -> None:
    pieces = ToolCallPieces()
    for index, piece in (
        (2**31 - 1, {"id": "far", "function": {"name": "f", "arguments": '{"a"'}}),
        (-1, {"id": "before", "function": {"name": "g"}}),
        (0, {"id": "zero", "function": {"name": "h", "arguments": "{"}}),
        (2**31 - 1, {"function": {"arguments": ": 1}"}}),
        (0, {"function": {"arguments": "}"}}),
        (-1, {"function": {"arguments": '{"b": 2}'}}),
        ("3", {"id": "text", "function": {"name": 7}}),
        (True, {"function": None}),
    ):
        pieces.add({"index": index, **piece})
    calls, nameless = pieces.calls()
    assert {(call.id, call.name, call.arguments) for call in calls} == {
        ("far", "f", '{"a": 1}'),
        ("before", "g", '{"b": 2}'),
        ("zero", "h", "{}"),
    }
    assert nameless >= 1
