"""Run a script on an event loop in a process of its own, with a deadline: for signals and for quitting."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from workbench.event_loop import PortableLoop

ROOT = Path(__file__).parents[2]
HEAD = """
import asyncio, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits it ignored
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
import workbench.event_loop
from workbench.event_loop import {loop_class} as Loop
workbench.event_loop.WorkbenchLoop = Loop
app = QApplication([])
def run(main):
    with asyncio.Runner(loop_factory=lambda: Loop(app)) as runner:
        return runner.run(main)
"""


def run_script(loop_class: type[PortableLoop], body: str, *, interrupt: bool = False, seconds: float = 30) -> list[str]:
    """Run the script, which has ``app``, ``Loop`` and ``run(main)``; the lines it prints.

    With ``interrupt`` it gets SIGINT once it has printed a line and then waits. Writing to stderr, an exit status other
    than 0 and taking too long fail the test.
    """
    code = HEAD.format(loop_class=loop_class.__name__) + textwrap.dedent(body)
    command = [sys.executable, "-u", "-W", "error", "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        if interrupt:
            assert process.stdout is not None
            process.stdout.readline()
            wait_until_asleep(process.pid)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"hangs: {out!r} {err!r}")
    assert (process.returncode, err) == (0, ""), out
    return out.splitlines()


def wait_until_asleep(pid: int) -> None:
    """Wait until the main thread of a process waits for events; on Linux only, elsewhere return at once."""
    stat = Path(f"/proc/{pid}/task/{pid}/stat")
    seen, end = 0, time.monotonic() + 10
    while os.path.exists(stat) and seen < 5 and time.monotonic() < end:
        seen = seen + 1 if stat.read_text().rpartition(")")[2].split()[0] == "S" else 0
        time.sleep(0.01)
