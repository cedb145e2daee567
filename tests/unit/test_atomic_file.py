"""Saving is atomic whatever fails, reading has a limit."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.atomic_file import read_limited, write_atomically
from engine.errors import StorageError

OLD, NEW = b"old " * 1000, b"new " * 2000


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir() if item.is_file())


def test_writes_a_new_file_with_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_atomically(tmp_path / "new.json", b"text")
    finally:
        os.umask(before)
    assert (tmp_path / "new.json").read_bytes() == b"text"
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == 0o644
    assert names(tmp_path) == ["new.json"]


def test_keeps_the_mode_of_the_old_file_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    path.chmod(0o664)
    before = os.umask(0o077)
    try:
        write_atomically(path, NEW)
    finally:
        os.umask(before)
    assert path.read_bytes() == NEW
    assert stat.S_IMODE(path.stat().st_mode) == 0o664


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_private_file_is_never_readable_by_others(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    write = os.write

    def watching(descriptor: int, data: bytes) -> int:
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, data)

    before = os.umask(umask)
    try:
        monkeypatch.setattr(os, "write", watching)
        write_atomically(tmp_path / "key", b"secret", mode=0o600)
    finally:
        os.umask(before)
    assert seen == [0o600]
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_writes_through_symbolic_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "file"
    real.write_bytes(OLD)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "link2").symlink_to("link")
    write_atomically(tmp_path / "link2", NEW)
    assert real.read_bytes() == NEW
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "link2").is_symlink()
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "real" / "not yet")
    write_atomically(dangling, NEW)
    assert (tmp_path / "real" / "not yet").read_bytes() == NEW


def test_refuses_what_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("loop", "circle"), ("folder", "not a regular file"), ("pipe", "not a regular file")):
        with pytest.raises(StorageError, match=reason) as caught:
            write_atomically(tmp_path / name, NEW)
        assert caught.value.facts["path"] == str(tmp_path / name)
    with pytest.raises(StorageError, match="No such file or directory"):
        write_atomically(tmp_path / "missing" / "file", NEW)
    assert names(tmp_path) == []


def test_a_long_name_leaves_room_for_the_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW


class FailingCalls:
    """Lets the k-th of all watched calls of the operating system fail; writes at most 500 bytes at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, k: int) -> None:
        self.count = 0
        self.k = k
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: self.call(write, fd, data[:500]))
        for name in ("fsync", "replace", "open", "fchmod", "fstat"):
            original = getattr(os, name)
            monkeypatch.setattr(os, name, lambda *args, original=original: self.call(original, *args))

    def call(self, function: Callable[..., Any], *args: object) -> Any:
        self.count += 1
        if self.count == self.k:
            raise OSError(errno.EIO, "Input/output error")
        return function(*args)


def message_of_failed_save(path: Path) -> str:
    try:
        write_atomically(path, NEW)
    except StorageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("exists", [True, False])
def test_any_failing_call_leaves_the_old_file_and_nothing_else(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "flow.json"
    k = 1
    while True:
        path.unlink(missing_ok=True)
        if exists:
            path.write_bytes(OLD)
        with pytest.MonkeyPatch.context() as monkeypatch:
            calls = FailingCalls(monkeypatch, k)
            message = message_of_failed_save(path)
        if calls.count < k:
            break
        assert message == f"Cannot save {path}: Input/output error.", k
        if exists:
            assert path.read_bytes() == OLD, k
        assert names(tmp_path) == (["flow.json"] if exists else []), k
        k += 1
    assert k > len(NEW) // 500
    assert path.read_bytes() == NEW


WRITER = """
import sys
from engine.atomic_file import write_atomically
print("go", flush=True)
k = 0
while True:
    k += 1
    write_atomically(sys.argv[1], bytes([65 + k % 26]) * 2_000_000)
"""


def kill_during_saves(path: Path, seconds: float) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()


def check_kills(path: Path, count: int) -> None:
    write_atomically(path, b"A" * 2_000_000)
    for number in range(count):
        kill_during_saves(path, number % 10 * 0.003)
        data = path.read_bytes()
        assert len(data) == 2_000_000
        assert len(set(data)) == 1
    write_atomically(path, b"end")
    assert names(path.parent) == [path.name]


def test_killed_while_saving(tmp_path: Path) -> None:
    check_kills(tmp_path / "document", 8)


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_killed_while_saving_often(tmp_path: Path) -> None:
    check_kills(tmp_path / "document", 500)


def test_two_writers_never_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    errors: list[BaseException] = []

    def save(letter: bytes) -> None:
        try:
            for _ in range(20):
                write_atomically(path, letter * 10_000)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(path.read_bytes())) == 1
    assert not errors
    assert names(tmp_path) == ["shared"]


def test_reads_a_file_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_limited(path, 10) == b"x" * 10
    with pytest.raises(StorageError, match=r"too large: 10 bytes, at most 9"):
        read_limited(path, 9)


def test_refuses_to_read_anything_but_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(5_000_000_000)
    for name, reason in (
        ("pipe", "a pipe"),
        ("loop", "symbolic links"),
        ("sparse", "too large: 5,000,000,000"),
        (".", "a folder"),
        ("missing", "No such file"),
        ("nul\0", "null"),
    ):
        with pytest.raises(StorageError, match=reason):
            read_limited(f"{tmp_path}/{name}", 1000)
    with pytest.raises(StorageError, match="a device"):
        read_limited("/dev/zero", 1000)
