"""What the commands share: their options, how they print and how they leave."""

import asyncio
import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Annotated, NoReturn, TextIO

import typer

from engine.cli_text import DONE, INVALID, Terminal
from engine.engine import Engine
from engine.engine_settings import EngineSettings
from engine.errors import Problem
from engine.folders import Folders
from engine.profile_store import ProfileStore

Texts = list[str] | None

PATIENCE = 1.0
"""Seconds a reader of a full pipe has, once the command shall end."""

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document.")]


@dataclass(slots=True)
class Options:
    """What the options before the command said."""

    folders: Folders
    offline: bool
    terminal: Terminal

    def engine(self) -> Engine:
        """An engine on the data folder."""
        return Engine.on_folders(self.folders, offline=self.offline)

    def profiles(self) -> ProfileStore:
        """The profiles of the data folder, in the environment that is set."""
        store = ProfileStore(self.folders.profiles)
        store.environment = EngineSettings.load(self.folders.engine_settings).environment
        return store


def finish(work: Coroutine[object, object, int]) -> NoReturn:
    """Run the work of a command and leave with its status."""
    raise typer.Exit(asyncio.run(_interruptible(work)))


async def _interruptible(work: Coroutine[object, object, int]) -> int:
    """End the work at SIGTERM as at Ctrl+C, also while a write waits for somebody to read."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()

    def end(number: int, frame: FrameType | None) -> None:
        for stream in (sys.stdout, sys.stderr):
            _let_go(stream)
        loop.call_soon_threadsafe(task.cancel if task else work.close)

    before = None
    with contextlib.suppress(ValueError):  # not the main thread
        before = signal.signal(signal.SIGTERM, end)
    try:
        return await work
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _let_go(stream: TextIO) -> None:
    """Send the rest of a stream nowhere when nobody reads it: the write that waits is then repeated, and returns."""
    with contextlib.suppress(OSError, ValueError):  # no file, or a system that cannot tell
        number = stream.fileno()
        if not select.select([], [number], [], PATIENCE)[1]:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)


def print_json(document: object) -> None:
    """Print the one document of `--json`."""
    print(json.dumps(document, ensure_ascii=False, indent=2))  # noqa: T201


def print_problems(problems: Sequence[Problem], terminal: Terminal, *, as_json: bool) -> NoReturn:
    """Print the result of a check and leave with its status."""
    if as_json:
        print_json([problem_json(problem) for problem in problems])
    else:
        for problem in problems:
            terminal.result(str(problem))
        if not problems:
            terminal.note("No problems.")
    raise typer.Exit(INVALID if any(problem.severity == "error" for problem in problems) else DONE)


def problem_json(problem: Problem) -> dict[str, object]:
    """A problem as JSON shows it."""
    return asdict(problem)
