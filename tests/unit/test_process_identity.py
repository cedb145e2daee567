"""Processes are known by id and start; nobody else is ever ended."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from engine.process_identity import ChildRecords, is_alive, own_identity, start_mark


def finished_process() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_own_process_is_alive_and_keeps_its_mark() -> None:
    pid, mark = own_identity()
    assert pid == os.getpid()
    assert mark
    assert start_mark(pid) == mark
    assert is_alive(pid, mark)


def test_another_mark_or_no_mark_is_another_process() -> None:
    pid, mark = own_identity()
    assert not is_alive(pid, mark + "1")
    assert not is_alive(pid, "")


def test_ended_and_zombie_processes_are_not_alive() -> None:
    assert start_mark(finished_process()) == ""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        mark = start_mark(child.pid)
        assert is_alive(child.pid, mark)
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, not yet waited for
        assert not is_alive(child.pid, mark)


class Orphans:
    """Records whose parent is gone, and what the sweep did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.killed: list[int] = []
        self.records = ChildRecords(folder, kill=lambda pid, _: self.killed.append(pid))
        folder.mkdir(exist_ok=True)

    def write(self, pid: int, mark: str, parent: int = 0, parent_mark: str = "gone") -> Path:
        file = self.folder / f"{pid}.json"
        file.write_text(json.dumps({"pid": pid, "mark": mark, "parent": parent, "parent_mark": parent_mark}))
        return file


def test_sweep_ends_what_a_dead_parent_left_behind(tmp_path: Path) -> None:
    orphans = Orphans(tmp_path)
    pid, mark = own_identity()
    file = orphans.write(pid, mark, finished_process())
    assert orphans.records.sweep() == [pid]
    assert orphans.killed == [pid]
    assert not file.exists()


def test_sweep_leaves_a_stranger_with_the_same_id_alone(tmp_path: Path) -> None:
    orphans = Orphans(tmp_path)
    file = orphans.write(os.getpid(), "another start", finished_process())
    assert orphans.records.sweep() == []
    assert orphans.killed == []
    assert not file.exists()


def test_sweep_leaves_the_child_of_a_living_parent_alone(tmp_path: Path) -> None:
    orphans = Orphans(tmp_path)
    pid, mark = own_identity()
    file = orphans.write(pid, mark, pid, mark)
    assert orphans.records.sweep() == []
    assert file.exists()


def test_sweep_removes_damaged_records_and_bears_a_missing_folder(tmp_path: Path) -> None:
    orphans = Orphans(tmp_path)
    texts = ["", "{", "[]", '{"pid": "x"}', '{"pid": -1, "mark": "a", "parent": 0, "parent_mark": ""}']
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.json").write_text(text)
    assert orphans.records.sweep() == []
    assert list(tmp_path.iterdir()) == []
    assert ChildRecords(tmp_path / "none").sweep() == []


def test_records_come_and_go_with_the_child(tmp_path: Path) -> None:
    records = ChildRecords(tmp_path / "server")
    records.add(os.getpid())
    (file,) = (tmp_path / "server").iterdir()
    pid, mark = own_identity()
    assert json.loads(file.read_text()) == {"pid": pid, "mark": mark, "parent": pid, "parent_mark": mark}
    records.remove(pid)
    records.remove(pid)
    assert not file.exists()


def test_a_record_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "server").write_text("a file where the folder should be")
    records = ChildRecords(tmp_path / "server")
    records.add(os.getpid())
    records.remove(os.getpid())
    assert records.sweep() == []


LEAVES_A_CHILD = """
import os, subprocess, sys
from pathlib import Path
from engine.process_identity import ChildRecords

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
ChildRecords(Path(sys.argv[1])).add(child.pid)
print(child.pid, flush=True)
os._exit(0)
"""


def test_sweep_really_ends_an_orphan(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent.parent
    parent = [sys.executable, "-c", LEAVES_A_CHILD, str(tmp_path)]
    with subprocess.Popen(parent, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
    assert start_mark(pid)
    assert ChildRecords(tmp_path).sweep() == [pid]
    deadline = time.monotonic() + 30
    while start_mark(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert start_mark(pid) == ""
