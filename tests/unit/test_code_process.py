"""Code of a flow runs apart, within limits, and ends with all it started (reliability R61)."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine.code_process import USER_RIGHTS, CodeLimits, CodeWorkers
from engine.errors import CodeError

SECONDS = 1.0
CODE = """
import os, signal, socket, subprocess, sys, time

def echo(value): return value
def place(): return {"environment": dict(os.environ), "folder": os.getcwd(), "argv0": sys.argv[0]}
def loop():
    while True: pass
def large(): return len("x" * 10**10)
def large_answer(): return "x" * (20 << 20)
def prints():
    while True: print("x" * 100_000)
def stops_parent():
    subprocess.Popen(["sleep", MARK])
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
def leaves_children():
    subprocess.Popen(["sleep", MARK])
    subprocess.Popen(["sleep", MARK], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        subprocess.Popen(["sleep", MARK])
        os._exit(0)
    time.sleep(60)
def forks():
    for _ in range(300):
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", MARK])
    time.sleep(60)
def fills_disk():
    with open("file", "wb") as file:
        while True: file.write(bytes(1 << 20))
def files():
    open("own", "w").write("x")
    return os.listdir(".")
def memory_of_many():
    for _ in range(8):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1 << 20) * 40)
            time.sleep(60)
    time.sleep(60)
def closes():
    os._exit(3)
def not_json(): return object()
def raises(): raise RuntimeError("no")
def stays(): time.sleep(60)
def socket_pair():
    server = socket.create_server(("127.0.0.1", 0))
    return server.getsockname()[0]
def reads(path): return open(path).read()
"""
MARK = str(86_400 + os.getpid())
"""How long the sleepers of this test sleep: it tells them apart."""


def processes() -> Iterator[tuple[int, str]]:
    """Parent and command line of every process; a bare Linux has no `ps`, macOS no `/proc`."""
    if sys.platform != "linux":
        listed = subprocess.run(["ps", "-ww", "-eo", "ppid,args"], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines()[1:]:
            parent, _, words = line.strip().partition(" ")
            yield int(parent), words
        return
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            yield int((folder / "stat").read_text().rpartition(")")[2].split()[1]), words


def own_children() -> list[str]:
    """Command lines of the processes of code that this one has started; other programs may run some, too."""
    return [words for parent, words in processes() if parent == os.getpid() and "plugin_child" in words]


def sleepers() -> int:
    return sum(words.split() == ["sleep", MARK] for _, words in processes())


@pytest.fixture
async def workers() -> AsyncIterator[CodeWorkers]:
    source = f"MARK = {MARK!r}\n{textwrap.dedent(CODE)}"
    source += "PLUGINS = {'functions': {n: f for n, f in list(globals().items()) if callable(f)}}\n"
    files = {"code.py": base64.b64encode(source.encode()).decode(), "data/text.txt": base64.b64encode(b"own").decode()}
    limits = CodeLimits(memory=256 << 20, processes=8, file_size=4 << 20, output=1 << 16)
    found = CodeWorkers("engine.plugin_child", files, limits=limits)
    yield found
    await found.aclose()
    assert sleepers() == 0


async def call(workers: CodeWorkers, name: str, *arguments: object, seconds: float = 30.0) -> object:
    request = {"module": "code", "kind": "functions", "name": name, "arguments": arguments}
    return await workers.call(request, seconds)


async def until_gone(count: int = 0) -> None:
    async with asyncio.timeout(SECONDS + 1 + 5):  # the machine may be busy
        while sleepers() > count:
            await asyncio.sleep(0.02)


async def test_values_go_in_and_out_as_they_are(workers: CodeWorkers) -> None:
    value = {"a": [1, 2.5, None, True, "\ud800 ü\u2028"], "b": {"c": 10**40}}
    assert await call(workers, "echo", value) == value


async def test_it_has_its_own_folder_and_no_environment(workers: CodeWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "1")
    place = await call(workers, "place")
    assert isinstance(place, dict)
    folder = Path(place["folder"])
    assert folder.is_relative_to(tempfile.gettempdir())
    assert folder != Path(tempfile.gettempdir())
    assert set(place["environment"].values()) == {str(folder)}
    files = await call(workers, "files")
    assert isinstance(files, list)
    assert set(files) == {"own", "plugins"}
    assert await call(workers, "reads", "plugins/data/text.txt") == "own"
    await workers.aclose()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("loop", "timeout"),
        ("large", "memory"),
        ("large_answer", "no data"),
        ("prints", "output"),
        ("stops_parent", "ended"),
        ("leaves_children", "timeout"),
        ("forks", "processes"),
        ("fills_disk", "raised"),
        ("memory_of_many", "memory"),
        ("closes", "ended"),
        ("not_json", "no data"),
        ("raises", "raised"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have fewer limits (docs/plugins.md)")
async def test_what_goes_too_far_ends_with_all_it_started(workers: CodeWorkers, name: str, kind: str) -> None:
    with pytest.raises(CodeError) as caught:
        await call(workers, name, seconds=SECONDS if kind == "timeout" else 30.0)
    assert caught.value.kind == kind, caught.value
    await until_gone()
    assert await call(workers, "echo", 1) == 1  # the next one is served


async def test_a_cancelled_call_ends_its_process(workers: CodeWorkers) -> None:
    await call(workers, "echo", 1)
    assert own_children()
    task = asyncio.create_task(call(workers, "stays"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await workers.aclose()
    assert not own_children()


async def test_a_killed_parent_takes_it_along(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
        import asyncio, base64
        from engine.code_process import CodeWorkers
        CODE = b"import subprocess, time\\ndef f():\\n    subprocess.Popen(['sleep', '{MARK}'], start_new_session=True)"
        CODE += b"\\n    print('on', flush=True)\\n    time.sleep(60)\\nPLUGINS = {{'functions': {{'f': f}}}}"
        async def main():
            workers = CodeWorkers("engine.plugin_child", {{"c.py": base64.b64encode(CODE).decode()}})
            await workers.call({{"module": "c", "kind": "functions", "name": "f", "arguments": []}})
        asyncio.run(main())
        """)
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, str(script), env=os.environ | {"PYTHONPATH": "."})
    async with asyncio.timeout(30):
        while sleepers() == 0:
            await asyncio.sleep(0.02)
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    await until_gone()


async def test_idle_processes_serve_the_next_calls(workers: CodeWorkers) -> None:
    folders = set()
    for _ in range(3):
        place = await call(workers, "place")
        assert isinstance(place, dict)
        folders.add(place["folder"])
    assert len(folders) == 1
    tasks = [asyncio.create_task(call(workers, "place")) for _ in range(20)]
    places = await asyncio.gather(*tasks)
    assert len({place["folder"] for place in places if isinstance(place, dict)}) == 2


async def test_what_is_not_prevented_is_said(workers: CodeWorkers, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("mine")
    assert await call(workers, "reads", str(tmp_path / "outside")) == "mine"
    assert await call(workers, "socket_pair") == "127.0.0.1"
    assert "with your rights" in USER_RIGHTS
    assert "network" in USER_RIGHTS
