"""A child process that serves on loopback: its pipes, its last words, its end, and small questions to it."""

import asyncio
import contextlib
import json
import os
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence

STOP_GRACE = 3.0
"""Seconds for each step of stopping: end of input, terminate, kill."""
PROBE_TIMEOUT = 5.0
"""Seconds a question may take."""
MAX_LINE = 65536
SHOWN_LINE = 500
"""Characters of a line that are kept."""
PASSED_ENVIRONMENT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONPATH",
)
"""All the child gets to see of the environment: no key, no proxy."""


class ServerProcess:
    """A running child. It says one line of JSON on its output, `addr` or `error`; all other lines go to the log."""

    def __init__(self, process: asyncio.subprocess.Process, log: deque[str]) -> None:
        self._process = process
        self._log = log
        self.answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        """What it said once it was ready or could not be."""
        self.silent = asyncio.gather(
            self._drain(process.stdout, listen=True), self._drain(process.stderr, listen=False)
        )
        """Done when both its outputs have ended."""

    @classmethod
    async def start(cls, command: Sequence[str], log: deque[str], path: Sequence[str] = ()) -> "ServerProcess":
        """Start the command with a small environment; `path` goes before PYTHONPATH. Raises OSError."""
        environment = {name: os.environ[name] for name in PASSED_ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (*path, environment.get("PYTHONPATH"))))
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C in the terminal is for the parent, which ends the child
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        return cls(process, log)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its end has not been noticed."""
        return self._process.returncode is None

    async def send(self, line: bytes) -> None:
        """Write to its input; nothing happens when it has ended, the missing answer says so."""
        if self._process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                self._process.stdin.write(line)
                await self._process.stdin.drain()

    async def wait(self) -> str:
        """Wait for its end; how it ended, in words."""
        code = await self._process.wait()
        return f"ended by signal {-code}" if code < 0 else f"ended with status {code}"

    async def end(self, *, gently: bool) -> None:
        """Close its input, terminate, kill: each step after `STOP_GRACE`, the last one at once when cancelled."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            if not (gently and await self._gone()):
                self._signal(kill=False)
                if not await self._gone():
                    self._signal(kill=True)
        except asyncio.CancelledError:
            self._signal(kill=True)
            raise
        finally:
            await self._process.wait()
            await self.silent

    async def _gone(self) -> bool:
        try:
            await asyncio.wait_for(self._process.wait(), STOP_GRACE)
        except TimeoutError:
            return False
        return True

    def _signal(self, *, kill: bool) -> None:
        with contextlib.suppress(ProcessLookupError):
            if kill:
                self._process.kill()
            else:
                self._process.terminate()

    async def _drain(self, stream: asyncio.StreamReader | None, *, listen: bool) -> None:
        """Read until the end, always: a full pipe would stop the child."""
        rest = b""
        while stream is not None and (data := await stream.read(MAX_LINE)):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if not (listen and self._is_answer(line)):
                    self._note(line)
            rest = rest[:MAX_LINE]
        if rest:
            self._note(rest)

    def _is_answer(self, line: bytes) -> bool:
        if self.answer.done():
            return False
        try:
            said = json.loads(line)
        except ValueError:
            return False
        if not isinstance(said, dict) or not isinstance(said.get("addr", said.get("error")), str):
            return False
        self.answer.set_result(said)
        return True

    def _note(self, line: bytes) -> None:
        self._log.append(line.decode("utf-8", "replace").rstrip()[:SHOWN_LINE])


async def get(url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Status and body of a small GET on loopback.

    The only HTTP beside `clients.transport`: questions about our own child, which come before any client exists.
    Raises OSError, ValueError, TimeoutError.
    """
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.rpartition(":")
    lines = [f"GET /{path} HTTP/1.0", f"Host: {host}", *(f"{key}: {value}" for key, value in headers.items())]
    async with asyncio.timeout(PROBE_TIMEOUT):
        reader, writer = await asyncio.open_connection(name, int(port))
        try:
            # HTTP/1.0: the body ends with the connection and never comes in chunks.
            writer.write("\r\n".join([*lines, "", ""]).encode())
            data = b""
            while len(data) < 1 << 20 and (more := await reader.read(MAX_LINE)):
                data += more
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/") else 0, body
