"""Names a process beyond doubt: its id can be used again by a stranger, its id together with its start cannot."""

import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)


def is_alive(pid: int, mark: str) -> bool:
    """Whether the process that had this mark still runs."""
    return bool(mark) and start_mark(pid) == mark


def own_identity() -> tuple[int, str]:
    """Id and mark of this process."""
    return os.getpid(), start_mark(os.getpid())


if sys.platform == "win32":

    def start_mark(pid: int) -> str:
        """A text that stays the same while this process lives; empty when no such process runs."""
        import ctypes
        from ctypes import wintypes

        query_limited_information, still_active = 0x1000, 259
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = wintypes.HANDLE
        handle = kernel.OpenProcess(query_limited_information, False, pid)
        if not handle:
            return ""
        try:
            code = wintypes.DWORD()
            times = [wintypes.FILETIME() for _ in range(4)]
            known = kernel.GetExitCodeProcess(wintypes.HANDLE(handle), ctypes.byref(code))
            known = known and kernel.GetProcessTimes(wintypes.HANDLE(handle), *(ctypes.byref(item) for item in times))
            started = f"{times[0].dwHighDateTime}:{times[0].dwLowDateTime}"
            return started if known and code.value == still_active else ""
        finally:
            kernel.CloseHandle(wintypes.HANDLE(handle))

elif sys.platform == "linux":

    def start_mark(pid: int) -> str:
        """A text that stays the same while this process lives; empty when no such process runs (a zombie does not)."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:
            return ""
        # The command's name stands in brackets and may hold anything: count from its end (proc(5): 3 state, 22 start).
        fields = stat[stat.rindex(")") + 1 :].split()
        return "" if fields[0] in "ZX" else f"{fields[19]}@{boot}"

else:

    def start_mark(pid: int) -> str:
        """A text that stays the same while this process lives; empty when no such process runs (a zombie does not)."""
        import subprocess

        command = ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)]
        try:
            done = subprocess.run(  # noqa: S603 - a fixed program with a number
                command, capture_output=True, text=True, timeout=5, env={"LC_ALL": "C", "TZ": "UTC"}, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        state, _, started = done.stdout.strip().partition(" ")
        return "" if state.startswith("Z") else started.strip()


class ChildRecords:
    """One small file per child process, so that the next start can end what a killed parent left behind."""

    def __init__(self, folder: Path, *, kill: Callable[[int, int], None] = os.kill) -> None:
        self._folder = folder
        self._kill = kill

    def add(self, pid: int) -> None:
        """Write the record of a child of this process; a full disk is only logged, the child ends in other ways too."""
        parent, parent_mark = own_identity()
        record = {"pid": pid, "mark": start_mark(pid), "parent": parent, "parent_mark": parent_mark}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file(pid).write_text(json.dumps(record), encoding="utf-8")
        except OSError as error:
            logger.warning("Cannot write %s: %s", self._file(pid), error)

    def remove(self, pid: int) -> None:
        """Forget a child that has ended."""
        with contextlib.suppress(OSError):
            self._file(pid).unlink(missing_ok=True)

    def sweep(self) -> list[int]:
        """End the children whose parents are gone and return their ids; a record that names a stranger is removed."""
        ended = []
        for file in self._listed():
            pid, mark, parent, parent_mark = _read_record(file)
            if is_alive(parent, parent_mark):
                continue
            if is_alive(pid, mark):
                logger.warning("Ending the process %d, left behind by %d", pid, parent)
                with contextlib.suppress(OSError):
                    self._kill(pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
                    ended.append(pid)
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
        return ended

    def _file(self, pid: int) -> Path:
        return self._folder / f"{pid}.json"

    def _listed(self) -> list[Path]:
        try:
            return sorted(self._folder.glob("*.json"))
        except OSError:
            return []


def _read_record(file: Path) -> tuple[int, str, int, str]:
    """Child and parent with their marks; nobody when the file is damaged."""
    try:
        record = json.loads(file.read_bytes())
        return int(record["pid"]), str(record["mark"]), int(record["parent"]), str(record["parent_mark"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, "", 0, ""
