"""The palette in a window: opened, typed into, walked by keyboard and mouse."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLineEdit, QListView, QMainWindow
from pytestqt.qtbot import QtBot

from workbench.command_palette import ENTRY_ROLE, CommandPalette, Entry


class _Opened:
    """A palette over a window, with what it ran."""

    def __init__(self, qtbot: QtBot) -> None:
        self.ran: list[str] = []
        self.window = QMainWindow()
        self.window.resize(900, 600)
        qtbot.addWidget(self.window)
        self.window.show()
        self.palette = CommandPalette(self.window)
        texts = [("action", "Run"), ("action", "Stop"), ("agent", "Writer"), ("profile", "embedded-chat")]
        self.palette.open_with([self._entry(group, text) for group, text in texts])
        self.field = self.palette.findChild(QLineEdit)
        self.list = self.palette.findChild(QListView)

    def _entry(self, group: str, text: str) -> Entry:
        return Entry(
            group=group, text=text, run=lambda: self.ran.append(text), detail="detail", icon="run", shortcut="F5"
        )

    @property
    def rows(self) -> list[str]:
        model = self.list.model()
        return [str(model.index(row, 0).data()) for row in range(model.rowCount())]

    @property
    def chosen(self) -> str:
        return str(self.list.currentIndex().data())


@pytest.fixture
def opened(qtbot: QtBot) -> Iterator[_Opened]:
    palette = _Opened(qtbot)
    yield palette
    palette.palette.hide()


def test_it_opens_with_everything_grouped_and_the_first_chosen(opened: _Opened) -> None:
    assert opened.palette.isVisible()
    assert opened.rows == ["Actions", "Run", "Stop", "Agents", "Writer", "Profiles", "embedded-chat"]
    assert opened.chosen == "Run"
    assert opened.window.geometry().contains(opened.palette.geometry())


def test_arrows_step_over_heads_and_around_the_ends(opened: _Opened, qtbot: QtBot) -> None:
    seen = []
    for _ in range(4):
        qtbot.keyClick(opened.field, Qt.Key.Key_Down)
        seen.append(opened.chosen)
    assert seen == ["Stop", "Writer", "embedded-chat", "Run"]
    qtbot.keyClick(opened.field, Qt.Key.Key_Up)
    assert opened.chosen == "embedded-chat"


def test_typing_and_enter_runs_the_choice(opened: _Opened, qtbot: QtBot) -> None:
    qtbot.keyClicks(opened.field, "wri")
    assert opened.rows == ["Agents", "Writer"]
    assert "1 result" in [label.text() for label in opened.palette.findChildren(QLabel)]
    qtbot.keyClick(opened.field, Qt.Key.Key_Return)
    assert opened.ran == ["Writer"]
    assert not opened.palette.isVisible()


def test_enter_without_a_result_runs_nothing(opened: _Opened, qtbot: QtBot) -> None:
    qtbot.keyClicks(opened.field, "zzz")
    assert opened.rows == []
    qtbot.keyClick(opened.field, Qt.Key.Key_Down)
    qtbot.keyClick(opened.field, Qt.Key.Key_Return)
    assert opened.ran == []
    assert opened.palette.isVisible()


def test_escape_closes_and_the_next_time_starts_empty(opened: _Opened, qtbot: QtBot) -> None:
    qtbot.keyClicks(opened.field, "stop")
    qtbot.keyClick(opened.palette, Qt.Key.Key_Escape)
    assert not opened.palette.isVisible()
    opened.palette.open_with([])
    assert (opened.field.text(), opened.rows) == ("", [])


def test_a_click_runs_the_row_but_not_a_head(opened: _Opened, qtbot: QtBot) -> None:
    def click(row: int) -> None:
        place = opened.list.visualRect(opened.list.model().index(row, 0)).center()
        qtbot.mouseClick(opened.list.viewport(), Qt.MouseButton.LeftButton, pos=place)

    click(3)
    assert opened.ran == []
    click(4)
    assert opened.ran == ["Writer"]


def test_rows_are_painted_with_hits_in_the_accent(opened: _Opened, qtbot: QtBot) -> None:
    def colors() -> set[int]:
        image = opened.list.viewport().grab().toImage()
        return {image.pixel(x, y) for x in range(image.width()) for y in range(image.height())}

    plain = colors()
    qtbot.keyClicks(opened.field, "run")
    assert opened.list.model().index(1, 0).data(ENTRY_ROLE).text == "Run"
    assert colors() - plain
