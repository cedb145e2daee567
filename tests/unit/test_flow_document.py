"""The document under edit: signals, file, recovery."""

import asyncio
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.errors import Problem, StorageError
from engine.flow.flow_file import flow_text, load_flow, save_flow
from engine.recovery_files import RecoveryFiles
from tests.helpers.sample_flows import chain
from workbench.designer.edits import change_agent, change_flow
from workbench.designer.flow_document import FlowDocument

pytestmark = pytest.mark.usefixtures("qapp")


async def save(document: FlowDocument, path: Path) -> None:
    await document.finish_save(document.begin_save(path))


def test_a_new_document_is_not_modified() -> None:
    document = FlowDocument(chain("A", "B"))
    assert not document.is_modified
    assert document.title == "Chain"
    assert document.path is None


def test_an_edit_tells_before_and_after_and_that_it_is_modified(qtbot: QtBot) -> None:
    document = FlowDocument(chain("A", "B"))
    before = document.spec
    after = change_agent(before, "A", template="x")
    told: list[bool] = []
    document.modified_changed.connect(told.append)
    with qtbot.waitSignal(document.spec_changed) as signal:
        document.replace(after)
    assert signal.args == [before, after]
    document.replace(change_agent(after, "A", template="xy"))
    document.replace(change_agent(after, "A", template=before.agents[0].template))
    assert told == [True, False]


def test_saving_writes_the_file_and_clears_the_mark(tmp_path: Path) -> None:
    document = FlowDocument(chain("A", "B"))
    document.replace(change_flow(document.spec, name="Renamed"))
    paths: list[object] = []
    document.path_changed.connect(lambda: paths.append(document.path))
    file = tmp_path / "x.flow.json"
    asyncio.run(save(document, file))
    assert load_flow(file).spec == document.spec
    assert not document.is_modified
    assert paths == [file]
    asyncio.run(save(document, file))
    assert paths == [file]


def test_a_failed_save_changes_nothing(tmp_path: Path) -> None:
    document = FlowDocument(chain("A", "B"))
    document.replace(change_flow(document.spec, name="Renamed"))
    with pytest.raises(StorageError):
        asyncio.run(save(document, tmp_path / "no such folder" / "x.flow.json"))
    assert document.is_modified
    assert document.path is None


def test_unsaved_changes_are_kept_and_never_touch_the_file(tmp_path: Path, qtbot: QtBot) -> None:
    file, recovery = tmp_path / "x.flow.json", RecoveryFiles(tmp_path / "recovery")
    save_flow(chain("A", "B"), file)
    saved = file.read_bytes()
    document = FlowDocument.of(load_flow(file), file, str(file), recovery)
    document.replace(change_flow(document.spec, description="unsaved"))
    qtbot.waitUntil(lambda: bool(recovery.found()), timeout=30_000)
    (kept,) = recovery.found()
    assert kept.text == flow_text(document.spec)
    assert kept.path == str(file)
    assert file.read_bytes() == saved
    asyncio.run(save(document, file))
    qtbot.waitUntil(lambda: not recovery.found(), timeout=30_000)


def test_constant_editing_cannot_put_the_keeping_off(
    tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.designer.flow_document.BUSY_SECONDS", 0.2)
    recovery = RecoveryFiles(tmp_path / "recovery")
    document = FlowDocument(chain("A", "B"), name="new", recovery=recovery)
    edits = 0

    def kept_while_editing() -> bool:
        nonlocal edits
        edits += 1
        document.replace(change_flow(document.spec, description=str(edits)))
        return bool(recovery.found())

    qtbot.waitUntil(kept_while_editing, timeout=30_000)
    document.discard_recovery()
    qtbot.waitUntil(lambda: not recovery.found(), timeout=30_000)


def test_closing_keeps_at_once_what_is_unsaved(tmp_path: Path) -> None:
    recovery = RecoveryFiles(tmp_path / "recovery")
    document = FlowDocument(chain("A", "B"), name="new", recovery=recovery)
    document.replace(change_flow(document.spec, description="last words"))
    asyncio.run(document.close())
    assert "last words" in recovery.found()[0].text


def test_undoing_everything_leaves_nothing_to_recover(tmp_path: Path, qtbot: QtBot) -> None:
    recovery = RecoveryFiles(tmp_path / "recovery")
    document = FlowDocument(chain("A", "B"), name="new", recovery=recovery)
    start = document.spec
    document.replace(change_flow(start, description="x"))
    qtbot.waitUntil(lambda: bool(recovery.found()), timeout=30_000)
    document.replace(start)
    qtbot.waitUntil(lambda: not recovery.found(), timeout=30_000)


def test_that_nothing_can_be_kept_is_told_once(tmp_path: Path, qtbot: QtBot) -> None:
    blocked = tmp_path / "recovery"
    blocked.write_text("a file where the folder should be")
    document = FlowDocument(chain("A", "B"), name="new", recovery=RecoveryFiles(blocked))
    with qtbot.waitSignal(document.recovery_failed, timeout=30_000) as signal:
        document.replace(change_flow(document.spec, description="x"))
    assert isinstance(signal.args[0], StorageError)


def test_problems_are_told_when_they_change(qtbot: QtBot) -> None:
    document = FlowDocument(chain("A", "B"))
    problem = Problem(severity="error", message="no", agent="A")
    with qtbot.waitSignal(document.problems_changed):
        document.set_problems([problem])
    with qtbot.assertNotEmitted(document.problems_changed):
        document.set_problems([problem])
    assert document.problems == (problem,)
