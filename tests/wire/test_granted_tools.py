"""Tools that reach outside: only what the settings grant, and only when allowed."""

import asyncio
import re
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine import Agent, AgentType, Context, Engine, EngineSettings, Flow, ProfileStore, ToolCall, allow_named
from engine.clients.transport import Transport
from engine.clients.web_page import get_page
from engine.errors import RequestError
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
    asked: list[tuple[str, frozenset[str]]] = []

    async def fetch(url: str, _limit: int, private: frozenset[str]) -> tuple[int, bytes, str]:
        asked.append((url, private))
        return 200, b"hello", "/not-a-redirect"

    hosts = frozenset({"127.0.0.1:8123", "[::1]:80", "10.0.0.5", "wiki.example", "127.0.0.1"})
    current_grants.set(Grants(hosts=hosts, fetch=fetch))
    private = frozenset({"127.0.0.1", "::1", "10.0.0.5"})
    for url in ("http://127.0.0.1:8123/a?b=1", "http://127.0.0.1:80/", "https://WIKI.example:443/"):
        assert await http_get(url) == "200\nhello"
        assert asked[-1] == (url, private)
    for refused in (
        "http://127.0.0.1:9/",
        "http://[::1]:81/",
        "https://example.org/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://user:pw@127.0.0.1/",
        "http://127.0.0.1.example.org/",
        "no address",
        "http://[",
    ):
        with pytest.raises(ValueError, match=r"not granted|expected an address"):
            await http_get(refused)
    assert len(asked) == 3


class Names:
    """A resolver that answers from a table; each answer is used once, the last one for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: Sequence[Sequence[str]]) -> None:
        self.asked: list[str] = []
        self._answers = {name.replace("_", "."): list(lists) for name, lists in answers.items()}
        loop = asyncio.get_running_loop()
        self._real = loop.getaddrinfo
        monkeypatch.setattr(loop, "getaddrinfo", self._look_up)

    async def _look_up(self, host: str, port: int, **options: Any) -> list[Any]:
        self.asked.append(host)
        lists = self._answers.get(host)
        if lists is None:
            return await self._real(host, port, **options)
        addresses = lists.pop(0) if len(lists) > 1 else lists[0]
        found = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            place = (address, port, 0, 0) if ":" in address else (address, port)
            found.append((family, socket.SOCK_STREAM, 6, "", place))
        return found


async def get(url: str, *hosts: str) -> str:
    """What the tool gives with the engine's own transport, or why it refuses."""
    transport = Transport()
    current_grants.set(Grants(hosts=frozenset(hosts), fetch=partial(get_page, transport)))
    try:
        return await http_get(url)
    except RequestError as error:
        return str(error)
    finally:
        await transport.aclose()


PAGE = Answer(headers={"Content-Type": "text/plain"}, pieces=[b"the page"])


async def test_a_granted_name_that_leads_to_a_private_address_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch, wiki_example=[["127.0.0.1"]])
    with FakeServer(PAGE, get=PAGE) as server:
        url = server.url.replace("127.0.0.1", "wiki.example")
        host = f"wiki.example:{server.port}"
        refused = await get(url, host)
        assert "wiki.example is not asked: 127.0.0.1 is an address of a private network, which is not" in refused
        assert server.connections == 0
        assert await get(url, host, "127.0.0.1") == "200\nthe page"
        assert server.connections == 1
    assert names.asked == ["wiki.example"] * 2


async def test_the_address_that_was_judged_is_the_one_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that changes its answer between check and connection gains nothing: it is looked up once a connection."""
    names = Names(monkeypatch, wiki_example=[["127.0.0.1"], ["169.254.169.254"]], evil_example=[["10.0.0.9"], ["::1"]])
    with FakeServer(PAGE, get=PAGE) as server:
        granted = (f"wiki.example:{server.port}", f"evil.example:{server.port}", "127.0.0.1")
        assert await get(f"http://wiki.example:{server.port}/", *granted) == "200\nthe page"
        assert names.asked == ["wiki.example"]
        assert "169.254.169.254" in await get(f"http://wiki.example:{server.port}/", *granted)
        assert "10.0.0.9" in await get(f"http://evil.example:{server.port}/", *granted)
        assert "::1 is an address" in await get(f"http://evil.example:{server.port}/", *granted)
        assert server.connections == 1


async def test_every_address_of_a_name_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, wiki_example=[["169.254.169.254", "fe80::1", "127.0.0.1"]], own_example=[["10.0.0.1", "::1"]])
    with FakeServer(PAGE, get=PAGE) as server:
        granted = (f"wiki.example:{server.port}", f"own.example:{server.port}", "127.0.0.1")
        assert await get(f"http://wiki.example:{server.port}/", *granted) == "200\nthe page"
        refused = await get(f"http://own.example:{server.port}/", *granted)
    assert "own.example is not asked" in refused
    assert "10.0.0.1 is an address of a private network" in refused
    assert "::1 is an address of a private network" in refused


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_told_and_judged_again_when_they_are_asked(status: int) -> None:
    with FakeServer(PAGE, get=PAGE) as target:
        for place in (f"{target.url}/stolen", "/elsewhere", "http://169.254.169.254/latest"):
            moved = Answer(status=status, headers={"Location": place}, pieces=[b"moved"], framing="length")
            with FakeServer(moved, get=moved) as server:
                told = await get(f"{server.url}/page", f"127.0.0.1:{server.port}")
                to = f"{server.url}{place}" if place.startswith("/") else place
                assert told == f"{status} moved to {to}\nmoved"
                assert len(server.gets) == 1
                if not place.startswith("/"):
                    with pytest.raises(ValueError, match="is not granted"):
                        await get(to, f"127.0.0.1:{server.port}")
        assert target.connections == 0


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
