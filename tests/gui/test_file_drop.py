"""Files dropped on the window."""

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication

from tests.helpers.model_answers import flow_file
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, opened

pytestmark = pytest.mark.usefixtures("qapp")

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


def drop(bench: Workbench, urls: list[QUrl]) -> bool:
    """Drag these over the window and let go; whether they were taken."""
    data = QMimeData()
    data.setUrls(urls)
    enter = QDragEnterEvent(QPoint(50, 50), Qt.DropAction.CopyAction, data, LEFT, NONE)
    enter.ignore()
    QApplication.sendEvent(bench.window, enter)
    if enter.isAccepted():
        QApplication.sendEvent(bench.window, QDropEvent(QPointF(50, 50), Qt.DropAction.CopyAction, data, LEFT, NONE))
    return enter.isAccepted()


def test_flows_are_opened_and_other_files_told(tmp_path: Path) -> None:
    one = flow_file(tmp_path / "one.flow.json", {"name": "Writer", "template": "Write a line."})
    two = flow_file(tmp_path / "two.flow.json", {"name": "Reader", "template": "Read a line."})
    notes = tmp_path / "notes.txt"
    notes.write_text("only notes", "utf-8")

    async def story() -> None:
        async with opened(tmp_path / "home") as bench:
            assert drop(bench, [QUrl.fromLocalFile(str(path)) for path in (one, two)])
            await bench.until(lambda: {one, two} <= {tab.document.path for tab in bench.desk.documents.tabs})
            assert drop(bench, [QUrl.fromLocalFile(str(notes))])
            await bench.until(lambda: any("notes.txt" in text for text in bench.banner_texts()))
            assert not drop(bench, [QUrl("https://example.com/one.flow.json")])

    run_qt(story(), 60)


def test_a_model_file_is_served(tmp_path: Path) -> None:
    wrong = tmp_path / "notes.GGUF"
    wrong.write_text("no model", "utf-8")

    async def story() -> None:
        async with opened(tmp_path / "home") as bench:
            assert drop(bench, [QUrl.fromLocalFile(str(wrong))])
            await bench.until(lambda: any("is not a model in gguf format" in text for text in bench.banner_texts()))

    run_qt(story(), 60)
