"""The Log dock: what the program noted, newest last; and the log file behind it."""

import logging
from collections import deque
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QVBoxLayout, QWidget

from engine.redaction import RedactingFilter
from workbench.theme import theme

KEPT_LINES = 2000


class LogBridge(QObject):
    """Carries log lines of any thread to the window's thread."""

    line_logged = Signal(str)
    """One formatted line."""


class QtLogHandler(logging.Handler):
    """Keeps the last lines and hands each new one to the bridge."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.bridge = LogBridge()
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.setFormatter(logging.Formatter("%(asctime)s  %(levelname)-7s  %(name)s  %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Format and pass on."""
        try:
            line = self.format(record)
            self.lines.append(line)
            self.bridge.line_logged.emit(line)
        except RuntimeError:
            # The window is gone while another thread still logs.
            self.lines.append(record.getMessage())


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
        handler.lines.append(f"No log file: {error}")
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
    """Read-only list of log lines."""

    def __init__(self, handler: QtLogHandler, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = QPlainTextEdit(self)
        self._text.setReadOnly(True)
        self._text.setUndoRedoEnabled(False)
        self._text.setMaximumBlockCount(KEPT_LINES)
        self._text.setProperty("pane", "true")
        self._text.setPlaceholderText(self.tr("Nothing noted yet."))
        self._text.setAccessibleName(self.tr("Log"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._text)
        self._text.setPlainText("\n".join(handler.lines))
        handler.bridge.line_logged.connect(self._append)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _append(self, line: str) -> None:
        self._text.appendPlainText(line)
        self._text.moveCursor(QTextCursor.MoveOperation.End)

    def _restyle(self) -> None:
        self._text.setFont(theme.font(12, mono=True))
