"""The window as a process: ended by signals at any moment, killed and started again, with nothing left behind."""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from engine import load_flow
from engine.embedded_server import bundled_model
from engine.folders import Folders
from engine.recovery_files import RecoveryFiles
from tests.helpers.fake_server import Answer, FakeServer, Received, delta
from tests.helpers.model_answers import announcement_answers, flow_file, stalled, write_profile

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals between processes")

ROOT = Path(__file__).parents[2]

DRIVER = """
import sys
from pathlib import Path
from PySide6.QtCore import QTimer
import workbench.desk
from engine import EmbeddedServer

if {no_model}:
    EmbeddedServer.find_model = lambda self: None
{before}
open_all = workbench.desk.Desk._open

async def opened(desk, documents):
    await open_all(desk, documents)
    print("started", flush=True)
    QTimer.singleShot(0, desk, lambda: work(desk))

def work(desk):
    {work}

workbench.desk.Desk._open = opened
from workbench.__main__ import main
sys.exit(main())
"""
"""The real program, which says when the window is up and then does as a person would."""


@contextmanager
def window(
    home: Path, *documents: Path, work: str = "pass", before: str = "", model: bool = False
) -> Iterator["subprocess.Popen[str]"]:
    """The program in a process of its own, with its window up."""
    code = DRIVER.format(work=work, before=before, no_model=not model)
    command = [sys.executable, "-W", "error", "-c", code, "--data-dir", str(home), *map(str, documents)]
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first == "started\n", process.stderr.read() if process.stderr else ""
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(process: "subprocess.Popen[str]", number: signal.Signals = signal.SIGTERM) -> str:
    """Send a signal; the process must end well, without a word on stderr. What it printed."""
    process.send_signal(number)
    sent = time.monotonic()
    out, err = process.communicate(timeout=60)
    noise = [line for line in err.splitlines() if "propagateSizeHints" not in line]
    assert (process.returncode, noise) == (0, [])
    # 8 s are promised; the rest is for a machine that is busy with other things.
    assert time.monotonic() - sent < 20
    return out


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def alive(pid: int) -> bool:
    """Whether a process runs; the dead that nobody has buried yet do not."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_the_window_without_a_question(number: signal.Signals, tmp_path: Path) -> None:
    with window(tmp_path) as process:
        ended(process, number)
    assert "release-announcement" in (tmp_path / "settings.ini").read_text("utf-8")


def test_a_signal_during_a_run_closes_its_connection_and_records_it_as_stopped(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "one.flow.json", {"name": "Writer", "template": "Write."})
    home = tmp_path / "home"
    with FakeServer(stalled(delta("Half"))) as server:
        write_profile(Folders(home), "fake", server.url, category="M")
        with window(home, path, work='desk.window.actions_by_id["run"].trigger()') as process:
            until(lambda: server.requests)
            ended(process)
            assert server.hung_up.wait(30)
    assert recorded(home) == ["stopped"]


def test_a_signal_right_after_the_start_of_a_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with FakeServer(announcement_answers) as server:
        write_profile(Folders(home), "fake", server.url, category="M")
        with window(home, work='desk.window.actions_by_id["run"].trigger()') as process:
            ended(process)
    assert set(recorded(home)) <= {"stopped", "finished"}


@pytest.mark.parametrize("moments", [2, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_a_signal_at_any_moment_of_a_run(moments: int, tmp_path: Path) -> None:
    """Answers come slowly and one after the other, so that the signal meets starts, streams and ends of steps."""
    chance = random.Random(22)
    home = tmp_path / "home"

    def slowly(request: Received) -> Answer:
        answer = announcement_answers(request)
        return replace(answer, pieces=[part for piece in answer.pieces for part in (0.01, piece)])

    with FakeServer(slowly) as server:
        write_profile(Folders(home), "fake", server.url, category="M")
        for _ in range(moments):
            with window(home, work='desk.window.actions_by_id["run"].trigger()') as process:
                time.sleep(chance.uniform(0, 1.5))
                ended(process, chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
            until(lambda: not server.open_connections)
    assert set(recorded(home)) <= {"stopped", "finished"}


STUBBORN = """
EmbeddedServer.find_model = lambda self: Path({model!r})
make = EmbeddedServer.__init__
def __init__(self, **options):
    make(self, **options, command=(sys.executable, {child!r}, "stubborn"))
EmbeddedServer.__init__ = __init__
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_closing_with_64_streams_and_a_child_that_ignores_it_leaves_nothing(tmp_path: Path) -> None:
    """The window is closed as by hand and the question answered; the rest is as after a signal."""
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF and so on")
    inputs = [{"key": "thing", "type": "list", "default": [str(number) for number in range(64)]}]
    path = flow_file(tmp_path / "wide.flow.json", {"name": "Writer", "template": "Write of [[thing]]."}, inputs=inputs)
    home = tmp_path / "home"
    work = """
    import asyncio
    from PySide6.QtWidgets import QMessageBox
    desk.window.actions_by_id["run"].trigger()
    desk.tasks.start(end(desk))

async def end(desk):
    import asyncio
    from PySide6.QtWidgets import QMessageBox
    await desk.engine.server.ensure()
    panel = desk.documents.current.panel
    while panel.stream.full_text.count("Half") < 64:
        await asyncio.sleep(0.01)
    print(desk.engine.server.pid, flush=True)
    desk.window.close()
    (question,) = desk.window.findChildren(QMessageBox)
    print(question.text(), flush=True)
    next(button for button in question.buttons() if button.text() == "Stop and close").click()
"""
    child = str(ROOT / "tests" / "helpers" / "fake_server_child.py")
    before = STUBBORN.format(model=str(model), child=child)
    with FakeServer(stalled(delta("Half"))) as server:
        write_profile(Folders(home), "fake", server.url, category="M", maxConcurrent="64")
        with window(home, path, work=work, before=before) as process:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            assert alive(pid)
            assert process.stdout.readline() == "Test flow is running. Closing stops it and keeps what came.\n"
            asked = time.monotonic()
            noise = process.communicate(timeout=60)[1].splitlines()
            assert (process.returncode, [line for line in noise if "propagateSizeHints" not in line]) == (0, [])
            # 8 s are promised; the rest is for a machine that is busy with other things.
            assert time.monotonic() - asked < 20
            assert not alive(pid)
        assert len(server.requests) == 64
        until(lambda: not server.open_connections)
    assert recorded(home) == ["stopped"]


def recorded(home: Path) -> list[str]:
    """The status of each recorded run, as another process sees it."""
    command = [sys.executable, "-m", "workbench", "--data-dir", str(home), "runs", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, timeout=60)
    return [row["status"] for row in json.loads(done.stdout)]


def test_unsaved_changes_survive_a_signal_and_a_kill(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "one.flow.json", {"name": "Writer", "template": "Write."})
    home = tmp_path / "home"
    typing = "tab = desk.documents.current; tab.editor.select(['Writer']); tab.inspector.agent_form.template.{typed}"
    kept = RecoveryFiles(Folders(home).recovery)
    with window(home, path, work=typing.format(typed="insertPlainText('Typed. ')")) as process:
        until(kept.found)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert load_flow(path).spec.agents[0].template == "Write."
    (found,) = kept.found()
    assert '"template": "Typed. Write."' in found.text
    opened = "print([banner.title() for banner in desk.window.banners.banners])"
    with window(home, path, work=f"{opened}; sys.stdout.flush()") as process:
        assert process.stdout is not None
        assert "An unsaved version of one.flow.json from " in process.stdout.readline()
        ended(process)
    assert [one.text for one in kept.found()] == [found.text]


def test_a_run_of_a_killed_window_is_told_as_crashed(tmp_path: Path) -> None:
    path = flow_file(tmp_path / "one.flow.json", {"name": "Writer", "template": "Write."})
    home = tmp_path / "home"
    with FakeServer(stalled(delta("Half"))) as server:
        write_profile(Folders(home), "fake", server.url, category="M")
        with window(home, path, work='desk.window.actions_by_id["run"].trigger()') as process:
            until(lambda: server.requests)
            process.kill()
            process.communicate()
    with window(home, path) as process:
        ended(process)
    assert recorded(home) == ["crashed"]


def test_a_broken_flow_on_the_command_line_does_not_keep_the_window_from_opening(tmp_path: Path) -> None:
    broken = tmp_path / "broken.flow.json"
    broken.write_text("no flow", "utf-8")
    with window(tmp_path / "home", broken) as process:
        ended(process)
    assert broken.read_text("utf-8") == "no flow"


def test_a_data_folder_that_cannot_be_written_is_told_and_the_window_opens(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", "utf-8")
    tell = "print(desk.window.banners.banners[0].copied.splitlines()[0], flush=True)"
    with window(blocked / "home", work=tell) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"The data folder {blocked / 'home'} cannot be written: ")
        ended(process)


@pytest.mark.local_model
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or bundled_model() is None,
    reason="the embedded model is not installed",
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_the_model_server_ends_with_the_window(number: signal.Signals, tmp_path: Path) -> None:
    with window(tmp_path, model=True) as process:
        until(lambda: children_of(process.pid))
        children = children_of(process.pid)
        if number is signal.SIGTERM:
            ended(process)
        else:
            process.send_signal(number)
            process.communicate()
        until(lambda: not any(alive(child) for child in children))
