"""The Log dock: what the program noted, newest last; and the log file behind it."""

import logging
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from engine.redaction import RedactingFilter
from workbench.theme import theme

KEPT_LINES = 2000


class LogEntry(NamedTuple):
    """One line, or several for an error with its traceback."""

    level: int
    """Of the module `logging`."""
    text: str


class LogBridge(QObject):
    """Carries log entries of any thread to the window's thread."""

    entry_logged = Signal(object)
    """A LogEntry."""


class QtLogHandler(logging.Handler):
    """Keeps the last lines and hands each new one to the bridge."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.bridge = LogBridge()
        self.entries: deque[LogEntry] = deque(maxlen=KEPT_LINES)
        self.setFormatter(logging.Formatter("%(asctime)s  %(levelname)-7s  %(name)s  %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Format and pass on."""
        entry = LogEntry(record.levelno, self.format(record))
        self.entries.append(entry)
        with suppress(RuntimeError):  # the window is gone while another thread still logs
            self.bridge.entry_logged.emit(entry)

    @property
    def lines(self) -> list[str]:
        """The texts of the last entries."""
        return [entry.text for entry in self.entries]


def install_logging(handler: QtLogHandler, log_file: Path) -> None:
    """Log to the window and, where the disk allows, to a rotating file of 1 MB."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    from logging.handlers import RotatingFileHandler

    handlers: list[logging.Handler] = [handler]
    try:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        file = RotatingFileHandler(log_file, maxBytes=1_000_000, backupCount=2, encoding="utf-8")
    except OSError as error:
        handler.entries.append(LogEntry(logging.WARNING, f"No log file: {error}"))
    else:
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        handlers.append(file)
    for each in handlers:
        each.addFilter(RedactingFilter())
        root.addHandler(each)
    # HTTP libraries would write addresses and headers.
    for name in ("httpx", "httpcore", "aiohttp", "asyncio", "qasync"):
        logging.getLogger(name).setLevel(logging.WARNING)


def remove_logging(handler: QtLogHandler) -> None:
    """Take back `install_logging`."""
    from logging.handlers import RotatingFileHandler

    root = logging.getLogger()
    for each in list(root.handlers):
        if each is handler or isinstance(each, RotatingFileHandler):
            root.removeHandler(each)
            each.close()


class LogView(QWidget):
    """Read-only list of log lines, all of them or those of a level and with a text: a logger, a run, a profile."""

    def __init__(self, handler: QtLogHandler, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._handler = handler
        self.level = QComboBox(self)
        self.level.setAccessibleName(self.tr("Which lines"))
        self.level.addItem(self.tr("All lines"), logging.NOTSET)
        self.level.addItem(self.tr("Warnings and errors"), logging.WARNING)
        self.level.addItem(self.tr("Errors only"), logging.ERROR)
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText(self.tr("Filter by words, part of the program, number of a run"))
        self.filter.setAccessibleName(self.tr("Filter the log"))
        self.filter.setClearButtonEnabled(True)
        self._glass = self.filter.addAction(theme.icon("search", 14), QLineEdit.ActionPosition.LeadingPosition)
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setUndoRedoEnabled(False)
        self.text.setMaximumBlockCount(KEPT_LINES)
        self.text.setProperty("pane", "true")
        self.text.setAccessibleName(self.tr("Log"))
        self._bar = QHBoxLayout()
        self._bar.addWidget(self.level)
        self._bar.addWidget(self.filter, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(self._bar)
        layout.addWidget(self.text, 1)
        self.level.currentIndexChanged.connect(self._fill)
        self.filter.textChanged.connect(self._fill)
        handler.bridge.entry_logged.connect(self._append)
        theme.changed.connect(self._restyle)
        self._restyle()
        self._fill()

    def _fill(self) -> None:
        """Show what was kept, as far as it is wanted."""
        self.text.setPlainText("\n".join(entry.text for entry in self._handler.entries if self._wants(entry)))
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        self._explain()

    def _explain(self) -> None:
        """Say why there is no line."""
        nothing = self.tr("Nothing noted yet.") if not self._handler.entries else self.tr("No line is like that.")
        self.text.setPlaceholderText(nothing)

    def _wants(self, entry: LogEntry) -> bool:
        words = self.filter.text().casefold().split()
        return entry.level >= self.level.currentData() and all(word in entry.text.casefold() for word in words)

    def _append(self, entry: LogEntry) -> None:
        if self._wants(entry):
            self.text.appendPlainText(entry.text)
            self.text.moveCursor(QTextCursor.MoveOperation.End)
        self._explain()

    def _restyle(self) -> None:
        self._bar.setContentsMargins(theme.px(8), theme.px(4), theme.px(8), theme.px(4))
        self._bar.setSpacing(theme.px(8))
        self._glass.setIcon(theme.icon("search", 14))
        self.text.setFont(theme.font(12, mono=True))
