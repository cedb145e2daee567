"""Runs code that a flow brings in processes of their own: JSON in and out, bounded, ended with all they started.

The code runs with the rights of the user: what it reads, writes or sends is not prevented, only what it uses up.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.code_child import KILLED, MAX_FRAME, TOO_MANY_PROCESSES, TOO_MUCH_MEMORY, Orders
from engine.errors import CodeError

USER_RIGHTS = (
    "This code runs in a process of its own with limits on time, memory, files and processes, "
    "but with your rights: it can read and change your files and use the network."
)
"""What a person is told before code runs for the first time."""

_START_SECONDS = 30.0
_IDLE_SECONDS = 5.0
_SHOWN_OUTPUT = 4096
"""Characters of what the code printed that an error shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """What one process of code may use."""

    seconds: float = 30.0
    """For one call."""
    memory: int = 1 << 30
    """Bytes."""
    processes: int = 32
    """Processes it may start."""
    file_size: int = 64 << 20
    """Bytes of one file."""
    output: int = 1 << 20
    """Bytes it may print in its life."""


class CodeProcess:
    """One process, which answers one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process, life: int, folder: str, limits: CodeLimits) -> None:
        self._process = process
        self._life = life
        self._folder = folder
        self._limits = limits
        self._printed = bytearray()
        self._flooded = False
        self._group = 0
        self._end: asyncio.Task[None] | None = None
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, module: str, first: object, limits: CodeLimits) -> "CodeProcess":
        """Start `main` of a module of the engine and send it its first request; raises CodeError."""
        folder = tempfile.mkdtemp(prefix="workbench-code-")
        ours, theirs = -1, -1
        try:
            if sys.platform != "win32":
                theirs, ours = os.pipe()
            orders = Orders(
                life=theirs,
                folder=folder,
                memory=limits.memory,
                processes=limits.processes,
                file_size=limits.file_size,
            )
            process = await asyncio.create_subprocess_exec(
                *_command(module),
                json.dumps(orders),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},
                cwd=folder,
                pass_fds=() if theirs < 0 else (theirs,),
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except BaseException as error:
            if ours >= 0:
                os.close(ours)
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise CodeError(f"the process for code cannot start: {error}.") from error
            raise
        finally:
            if theirs >= 0:
                os.close(theirs)
        started = cls(process, ours, folder, limits)
        try:
            started._group = int(str(await started._answer(None, _START_SECONDS)))
            await started._answer(first, _START_SECONDS)
        except BaseException:
            started.end()
            raise
        return started

    @property
    def usable(self) -> bool:
        """Whether it can answer another request."""
        return self._end is None and self._process.returncode is None

    async def call(self, request: object, seconds: float | None = None) -> object:
        """The answer to a request; raises CodeError, after which the process has ended unless the code raised it."""
        return await self._answer(request, self._limits.seconds if seconds is None else seconds)

    async def _answer(self, request: object, seconds: float) -> object:
        try:
            async with asyncio.timeout(seconds):
                if request is not None:
                    await self._send(request)
                reply = await self._receive()
        except TimeoutError:
            raise self._ended(CodeError(f"it was ended after {seconds:g} seconds.", kind="timeout")) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise self._ended(await self._last_words()) from None
        except ValueError as error:
            raise self._ended(CodeError(f"it answered something that is no answer: {error}.")) from None
        except BaseException:
            self.end()  # cancelled: what the code goes on to do is of no interest
            raise
        fault = reply.get("error")
        if isinstance(fault, dict):
            facts = {key: str(value) for key, value in fault.items() if key not in ("kind", "message")}
            raise CodeError(str(fault.get("message")), kind=str(fault.get("kind")), facts=facts | self._output())
        return reply.get("value")

    async def _send(self, request: object) -> None:
        data = json.dumps(request, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if len(data) > MAX_FRAME:
            raise CodeError(f"the values are larger than the {MAX_FRAME >> 20} MiB code may be given.", kind="size")
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(len(data).to_bytes(4) + data)
        await self._process.stdin.drain()

    async def _receive(self) -> dict[str, object]:
        assert self._process.stdout is not None  # noqa: S101
        size = int.from_bytes(await self._process.stdout.readexactly(4))
        if size > MAX_FRAME:
            raise ValueError(f"{size} bytes")
        reply = json.loads(await self._process.stdout.readexactly(size))
        if not isinstance(reply, dict):
            raise ValueError("no object")
        return reply

    def _ended(self, error: CodeError) -> CodeError:
        self.end()
        error.facts |= self._output()
        return error

    async def _last_words(self) -> CodeError:
        """Why it ended, as its guard says."""
        if self._flooded:
            return CodeError(f"it was ended because it printed more than {_size(self._limits.output)}.", kind="output")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 1.0)
        match self._process.returncode:
            case code if code == TOO_MANY_PROCESSES:
                text, kind = f"it was ended because it ran more than {self._limits.processes} processes.", "processes"
            case code if code == TOO_MUCH_MEMORY:
                text, kind = f"it was ended because it used more than {_size(self._limits.memory)} of memory.", "memory"
            case code if code == KILLED:
                text, kind = "its process was killed, by itself or by a limit of the system.", "ended"
            case _:
                text, kind = "its process ended before it answered.", "ended"
        return CodeError(text, kind=kind)

    def _output(self) -> dict[str, str]:
        text = self._printed.decode("utf-8", "replace").strip()
        return {"printed": text[-_SHOWN_OUTPUT:]} if text else {}

    async def _listen(self) -> None:
        """Keep the end of what the code prints; end it when that is too much."""
        assert self._process.stderr is not None  # noqa: S101
        total = 0
        while piece := await self._process.stderr.read(65536):
            total += len(piece)
            self._printed = (self._printed + piece)[-4 * _SHOWN_OUTPUT :]
            if total > self._limits.output and not self._flooded:
                self._flooded = True
                self.end()

    def end(self) -> asyncio.Task[None]:
        """End it and all it started, at once; the task is done when nothing is left."""
        if self._end is None:
            self._kill()
            self._end = asyncio.create_task(self._finish())
        return self._end

    def _kill(self) -> None:
        if self._life >= 0:
            os.close(self._life)  # the guard ends the rest
            self._life = -1
        elif self._process.returncode is None:
            self._process.kill()
        self._kill_group()

    def _kill_group(self) -> None:
        if self._group and sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.killpg(self._group, signal.SIGKILL)

    async def _finish(self) -> None:
        try:
            await asyncio.wait_for(self._process.wait(), 0.9)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._kill_group()
            await self._process.wait()
        self._listener.cancel()
        await asyncio.wait([self._listener])
        if self._process.stdin is not None:
            self._process.stdin.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


class CodeWorkers:
    """Processes that answer the same kind of requests; started when needed, kept for the next, ended when idle."""

    def __init__(
        self, module: str, first: Mapping[str, object] | None = None, *, limits: CodeLimits | None = None, size: int = 2
    ) -> None:
        """Prepare; nothing starts.

        Args:
            module: a module of the engine whose `main` answers.
            first: the request each process gets first.
            size: processes at the same time.
        """
        self.limits = limits or CodeLimits()
        self._module = module
        self._first = first or {}
        self._free = asyncio.Semaphore(size)
        self._idle: list[tuple[CodeProcess, asyncio.TimerHandle]] = []
        self._ending: set[asyncio.Task[None]] = set()

    async def call(self, request: object, seconds: float | None = None) -> object:
        """The answer of one of the processes; raises CodeError. A cancelled call ends its process."""
        async with self._free:
            worker = self._taken() or await CodeProcess.start(self._module, self._first, self.limits)
            try:
                return await worker.call(request, seconds)
            finally:
                if worker.usable:
                    timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._retire, worker)
                    self._idle.append((worker, timer))
                else:
                    self._end(worker)

    def _taken(self) -> CodeProcess | None:
        while self._idle:
            worker, timer = self._idle.pop()
            timer.cancel()
            if worker.usable:
                return worker
            self._end(worker)
        return None

    def _retire(self, worker: CodeProcess) -> None:
        self._idle = [entry for entry in self._idle if entry[0] is not worker]
        self._end(worker)

    def _end(self, worker: CodeProcess) -> None:
        task = worker.end()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        """End all processes and wait until nothing is left."""
        for worker, timer in self._idle:
            timer.cancel()
            self._end(worker)
        self._idle.clear()
        if self._ending:
            await asyncio.wait(self._ending)


def _command(module: str) -> list[str]:
    # Isolated: neither PYTHONPATH nor the folder it starts in adds modules; our own are found where this one is.
    root = str(Path(__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {root!r}); from {module} import main; main()"
    return [sys.executable, "-I", "-B", "-X", "utf8", "-c", code]


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
