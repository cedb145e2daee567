"""The Log dock: new lines as they come, and only those that are wanted."""

import logging

import pytest
from pytestqt.qtbot import QtBot

from workbench.log_dock import LogView, QtLogHandler


@pytest.fixture
def handler() -> QtLogHandler:
    made = QtLogHandler()
    note(made, logging.INFO, "engine.interceptors", "run 4711, small: 2 turns")
    note(made, logging.WARNING, "engine.failover", "small did not answer")
    return made


@pytest.fixture
def view(handler: QtLogHandler, qtbot: QtBot) -> LogView:
    made = LogView(handler)
    qtbot.addWidget(made)
    made.show()
    return made


def note(handler: QtLogHandler, level: int, name: str, text: str) -> None:
    handler.emit(logging.LogRecord(name, level, __file__, 1, text, (), None))


def shown(view: LogView) -> list[str]:
    return [line.split("  ")[-1] for line in view.text.toPlainText().splitlines()]


def test_lines_are_shown_by_level_and_by_words(view: LogView, handler: QtLogHandler) -> None:
    assert shown(view) == ["run 4711, small: 2 turns", "small did not answer"]
    view.level.setCurrentText("Warnings and errors")
    assert shown(view) == ["small did not answer"]
    note(handler, logging.INFO, "engine", "not wanted")
    note(handler, logging.ERROR, "engine.run_history", "The disk is full.")
    assert shown(view) == ["small did not answer", "The disk is full."]
    view.level.setCurrentText("Errors only")
    assert shown(view) == ["The disk is full."]
    view.level.setCurrentText("All lines")
    view.filter.setText("4711 SMALL")
    assert shown(view) == ["run 4711, small: 2 turns"]
    view.filter.setText("run_history")
    assert shown(view) == ["The disk is full."]
    view.filter.setText("nobody")
    assert (shown(view), view.text.placeholderText()) == ([], "No line is like that.")
    view.filter.clear()
    assert len(shown(view)) == 4


def test_an_empty_log_says_so(qtbot: QtBot) -> None:
    view = LogView(QtLogHandler())
    qtbot.addWidget(view)
    assert (shown(view), view.text.placeholderText()) == ([], "Nothing noted yet.")
