"""The embedded server lives on the application's loop as it does on asyncio's."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from engine.embedded_server import EmbeddedServer, ServerState
from engine.process_identity import start_mark
from tests.helpers.qt_loop import on_both_loops

CHILD = Path(__file__).parent.parent / "helpers" / "fake_server_child.py"


@on_both_loops
async def test_starts_restarts_and_stops_on_the_loop_of_the_window(tmp_path: Path) -> None:
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF and so on")
    server = EmbeddedServer(
        data_dir=tmp_path, model_file=model, command=(sys.executable, str(CHILD), "serve"), restart_delays=(0.0,)
    )
    first = await server.ensure()
    assert await server.busy_slots() == 1
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while server.state is not ServerState.READY or server.pid in (None, pid):
        await asyncio.sleep(0.01)
    second = await server.ensure()
    assert second.api_key != first.api_key
    pid = server.pid
    assert pid is not None
    await server.stop()
    assert start_mark(pid) == ""
