"""Tools that reach outside: only what the settings grant, and only when allowed."""

import asyncio
import re
from pathlib import Path

import pytest

from engine import Agent, AgentType, Context, Engine, EngineSettings, Flow, ProfileStore, ToolCall, allow_named
from engine.events import ToolCalled
from engine.flow.granted_tools import CLOCK, HTTP_GET, READ_FILE, Grants, clock, current_grants, http_get, read_file
from engine.flow.tools import Tool, refuse, run_tool
from tests.helpers.asking import profile_for
from tests.helpers.fake_server import Answer, FakeServer, chat, event


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    granted = tmp_path / "granted"
    granted.mkdir()
    (granted / "note.txt").write_text("Grüße", encoding="utf-8")
    (granted / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (granted / "link.txt").symlink_to(tmp_path / "secret.txt")
    return granted


async def test_files_of_granted_folders_are_read_and_no_others(folder: Path) -> None:
    with pytest.raises(ValueError, match="no folder is granted"):
        await read_file("note.txt")
    current_grants.set(Grants(folders=(folder,)))
    assert await read_file("note.txt") == "Grüße"
    assert await read_file(str(folder / "note.txt")) == "Grüße"
    for outside in ("../secret.txt", "link.txt", str(folder.parent / "secret.txt"), "~/.bashrc", "/etc/hostname", "."):
        with pytest.raises(ValueError, match="there is no file"):
            await read_file(outside)
    with pytest.raises(ValueError, match="no UTF-8"):
        await read_file("binary")


async def test_only_granted_hosts_are_asked() -> None:
    asked: list[str] = []

    async def fetch(url: str, _limit: int) -> tuple[int, bytes]:
        asked.append(url)
        return 200, b"hello"

    current_grants.set(Grants(hosts=frozenset({"127.0.0.1:8123", "169.254.169.254", "127.0.0.1"}), fetch=fetch))
    assert await http_get("http://127.0.0.1:8123/a?b=1") == "200\nhello"
    assert await http_get("http://127.0.0.1:80/") == "200\nhello"
    for refused in (
        "http://127.0.0.1:9/",
        "https://example.org/",
        "file:///etc/passwd",
        "http://user:pw@127.0.0.1/",
        "http://127.0.0.1.example.org/",
        "no address",
        "http://[",
    ):
        with pytest.raises(ValueError, match=r"not granted|expected an address"):
            await http_get(refused)
    with pytest.raises(ValueError, match="own network"):
        await http_get("http://169.254.169.254/latest/meta-data")
    assert len(asked) == 2


def test_the_clock() -> None:
    assert re.fullmatch(r"[A-Z][a-z]+day, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d", clock())
    assert clock("UTC").endswith("+00:00")
    with pytest.raises(ValueError, match="no time zone"):
        clock("Mars/Olympus")


@pytest.mark.parametrize("tool", [READ_FILE, HTTP_GET], ids=lambda tool: tool.name)
async def test_what_reaches_outside_asks(tool: Tool) -> None:
    argument = next(iter(tool.definition.parameters["properties"]))  # type: ignore[call-overload]
    outcome = await run_tool(tool, ToolCall(id="1", name=tool.name, arguments=f'{{"{argument}": "x"}}'), refuse)
    assert outcome.output == f"Error: {tool.name} was not allowed."
    assert not CLOCK.side_effects


async def test_a_run_has_the_grants_of_the_settings(folder: Path) -> None:
    calls = [
        {"index": number, "id": f"c{number}", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(
            [("read_file", '{"path": "note.txt"}'), ("http_get", '{"url": "URL/page"}')]
        )
    ]
    page = Answer(headers={"Content-Type": "text/plain"}, pieces=[b"the page"])
    with FakeServer(chat("ok"), get=lambda _: page) as server:
        calls[1]["function"]["arguments"] = f'{{"url": "{server.url}/page"}}'  # type: ignore[index]
        asking = Answer(
            pieces=[
                event({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}),
                event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
                b"data: [DONE]\n\n",
            ]
        )
        server.script = [asking, chat("done")]
        host = server.url.removeprefix("http://")
        settings = EngineSettings(tool_folders=(str(folder),), tool_hosts=(host,))
        agent = Agent(
            "A", AgentType.COMPLETION, template="go", profile=profile_for(server.url), tools=[READ_FILE, HTTP_GET]
        )
        async with (
            Engine(profiles=ProfileStore(), settings=settings) as engine,
            engine.run(
                Flow(name="F", agents=(agent,)), Context(), allow_tool=allow_named(["read_file", "http_get"])
            ) as run,
        ):
            events = [item async for item in run]
    outputs = [item.output for item in events if isinstance(item, ToolCalled)]
    assert outputs == ["Grüße", "200\nthe page"]
    assert await asyncio.to_thread(current_grants.get) == Grants()
