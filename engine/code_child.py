"""The process in which code runs that a flow brings, and its guard; started by `engine.code_process`.

Frames of JSON (4 bytes of length, then the text) come on standard input and answers go to standard output. The process
that was started only watches (POSIX): it forks the one that runs the code, counts what that one starts, and when the
parent closes the pipe `life` or dies, it ends all of them.
"""

import contextlib
import ctypes
import json
import os
import queue
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypedDict

MAX_FRAME = 16 * 1024 * 1024
"""Bytes of one request or answer."""
TOO_MANY_PROCESSES, TOO_MUCH_MEMORY, KILLED = 41, 42, 43
"""Exit statuses of the guard that tell why it ended the code."""
_POLL = 0.05
_END_WITHIN = 0.7
"""Seconds the guard tries to end what is left."""

Answer = Callable[[object], object]


class Orders(TypedDict):
    """What the process may do, as JSON in its first argument."""

    life: int
    """Descriptor of a pipe that ends with the parent; -1 = there is none."""
    folder: str
    """Its own temporary folder, removed in the end."""
    memory: int
    """Bytes of address space of one process, and of memory of all together."""
    processes: int
    file_size: int
    """Bytes of one file."""


class Refused(Exception):
    """An answer that is an error: `kind` and words for the parent."""

    def __init__(self, kind: str, message: str, **facts: object) -> None:
        super().__init__(message)
        self.kind = kind
        self.facts = facts


def serve(prepare: Callable[[object], Answer]) -> None:
    """Confine this process and answer: `prepare` gets the first request and returns what answers the others."""
    orders: Orders = json.loads(sys.argv[1])
    if hasattr(os, "fork") and orders["life"] >= 0:
        _guard(orders)
    requests, replies = _take_pipes()
    _confine(orders)
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, frames), daemon=True).start()
    _send(replies, {"value": os.getpid()})
    answer: Answer = prepare
    while True:
        request = json.loads(frames.get())
        reply, result = _reply(answer, request)
        if answer is prepare and callable(result):
            answer, reply = result, {"value": True}
        _send(replies, reply)


def _reply(answer: Answer, request: object) -> tuple[dict[str, object], object]:
    try:
        result = answer(request)
        return {"value": None if callable(result) else result}, result
    except Refused as refused:
        return {"error": {"kind": refused.kind, "message": str(refused), **refused.facts}}, None
    except MemoryError:
        return {"error": {"kind": "memory", "message": "there is not enough memory for it"}}, None
    except BaseException as error:  # also SystemExit: the code may not end what answers
        return {"error": {"kind": "raised", "message": f"{type(error).__name__}: {error}"[:2000]}}, None


def _take_pipes() -> tuple[int, int]:
    """Keep the pipes to the parent for ourselves: what the code prints goes to standard error."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _listen(requests: int, frames: "queue.SimpleQueue[bytes]") -> None:
    while (frame := _read_frame(requests)) is not None:
        frames.put(frame)
    os._exit(0)  # the parent is gone


def _read_frame(descriptor: int) -> bytes | None:
    head = _read_exactly(descriptor, 4)
    return None if head is None else _read_exactly(descriptor, int.from_bytes(head))


def _read_exactly(descriptor: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = os.read(descriptor, min(size - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _send(descriptor: int, reply: dict[str, object]) -> None:
    try:
        data = json.dumps(reply, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if len(data) > MAX_FRAME:
            raise ValueError(f"it is larger than {MAX_FRAME >> 20} MiB")
    except (TypeError, ValueError, RecursionError) as error:
        data = json.dumps({"error": {"kind": "no data", "message": str(error)[:500]}}).encode()
    except MemoryError:
        data = b'{"error": {"kind": "memory", "message": "there is not enough memory for its result"}}'
    rest = memoryview(len(data).to_bytes(4) + data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


# -- limits -----------------------------------------------------------------------------------------------------------


def _confine(orders: Orders) -> None:
    """Own folder, empty environment, and the limits of the system as far as it has them."""
    folder = orders["folder"]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(TMPDIR=folder, TEMP=folder, TMP=folder, HOME=folder)
    tempfile.tempdir = folder
    if sys.platform == "win32":
        return
    import resource

    limits = {
        "RLIMIT_AS": orders["memory"],
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": orders["file_size"],
        "RLIMIT_NOFILE": 256,
    }
    own = _tasks_of_user()
    if own is not None:
        limits["RLIMIT_NPROC"] = own + orders["processes"]  # the system counts all of the user; root it does not limit
    for name, value in limits.items():
        with contextlib.suppress(ValueError, OSError, AttributeError):
            resource.setrlimit(getattr(resource, name), (value, value))


def _tasks_of_user() -> int | None:
    if sys.platform != "linux" or os.getuid() == 0:
        return None
    count = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            if int(fields["Uid"].split()[0]) == os.getuid():
                count += int(fields["Threads"])
    return count


# -- the guard --------------------------------------------------------------------------------------------------------


def _guard(orders: Orders) -> None:
    """Fork; returns in the child. This process watches it, ends what it started, and leaves.

    It must not die with the parent, it has to end the others first: the pipe tells it.
    """
    guard, life = os.getpid(), orders["life"]
    _adopt_orphans()
    child = os.fork()
    if child == 0:
        os.close(life)
        os.setpgid(0, 0)
        _die_with(guard)
        return
    with contextlib.suppress(OSError):
        os.setpgid(child, child)
    for descriptor in (0, 1, 2):
        os.close(descriptor)  # so that the parent sees the end of the child's
    status = 1
    try:
        status = _watch(child, orders)
    finally:
        _end_all(child)
        with contextlib.suppress(Exception):
            import shutil

            shutil.rmtree(orders["folder"], ignore_errors=True)
        os._exit(status)


def _watch(child: int, orders: Orders) -> int:
    while True:
        ready, _, _ = select.select([orders["life"]], [], [], _POLL)
        if ready:
            return 0
        ended = _reaped(child)
        if ended is not None:
            return KILLED if ended else 0
        pids = _descendants(os.getpid())
        if len(pids) > orders["processes"] + 1:
            return TOO_MANY_PROCESSES
        if _resident(pids) > orders["memory"]:
            return TOO_MUCH_MEMORY


def _reaped(child: int) -> int | None:
    """Collect what has ended; the status of the child when it is among it."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                status = ended
    return status


def _end_all(child: int) -> None:
    """Kill the group of the child, then whatever left the group, until there is nothing."""
    deadline = time.monotonic() + _END_WITHIN
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    while time.monotonic() < deadline:
        left = _descendants(os.getpid())
        # All are stopped before any is killed: one that forks without end cannot win the race.
        for action in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, action)
        _reaped(child)
        if not left:
            return
        time.sleep(0.005)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < 10_000:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> Iterable[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def _resident(pids: Iterable[int]) -> int:
    """Bytes of memory of all; what they share counts for each."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{pid}/statm").read_text().split()
            pages += int(fields[1]) - int(fields[2])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _die_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent dies; elsewhere the pipe tells it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(0)


def _adopt_orphans() -> None:
    """Become the parent of what a dying child leaves behind, so that it is found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
