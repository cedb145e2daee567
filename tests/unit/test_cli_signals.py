"""A command that shall end ends, whoever reads what it prints."""

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

PRINTING = """
import asyncio, sys
from engine.cli_options import finish
from engine.cli_text import INTERRUPTED, Terminal
import typer

async def work():
    terminal = Terminal()
    terminal.note("begun")
    try:
        while True:
            terminal.document("x" * 10_000)
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        terminal.document("the end")
        terminal.note("stopped")
        return INTERRUPTED

try:
    finish(work())
except typer.Exit as left:
    sys.exit(left.exit_code)
"""


def test_a_command_ends_at_sigterm_while_nobody_reads_its_output() -> None:
    reader, writer = os.pipe()
    with subprocess.Popen([sys.executable, "-c", PRINTING], stdout=writer, stderr=subprocess.PIPE, text=True) as child:
        os.close(writer)
        try:
            assert child.stderr is not None
            assert child.stderr.readline() == "begun\n"
            child.send_signal(signal.SIGTERM)
            assert child.wait(timeout=30) == 130
            assert child.stderr.read() == "stopped\n"
        finally:
            child.kill()
            os.close(reader)


def test_what_is_read_is_printed_to_its_end_at_sigterm() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PRINTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "x" * 10_000 + "\n"
        child.send_signal(signal.SIGTERM)
        output, errors = child.communicate(timeout=30)
    assert child.returncode == 130
    assert output.splitlines()[-1] == "the end"
    assert errors == "begun\nstopped\n"
