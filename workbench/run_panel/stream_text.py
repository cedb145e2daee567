"""Text that streams: one widget per text, one timer for all of them.

A widget reads from its `StreamedText` when the timer asks, at most 30 times a second, only while it can be seen; what
it shows is limited, the text behind it is whole.
"""

import time
from collections.abc import Callable, Iterator
from enum import StrEnum

from PySide6.QtCore import QObject, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QPainter,
    QPaintEvent,
    QPalette,
    QShowEvent,
    QTextBlockFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QTextEdit, QWidget

from workbench.run_panel.error_guard import ErrorGuard
from workbench.run_panel.json_colors import JsonColors
from workbench.run_panel.markdown_text import CODE_LINE, PROSE_LINE, ClosedDocument, rendering
from workbench.run_panel.pane_text import TextShaper, looks_like_json, pretty_json
from workbench.run_panel.run_state import StreamedText
from workbench.theme import theme

FLUSH_MILLISECONDS = 33
FLUSH_SECONDS = 0.008
"""Time one turn of the timer may take for all panes together."""
FLUSH_CHARACTERS = 4096
"""Inserted at once; between two such pieces the time is looked at."""
PANES_A_TURN = 4
"""Panes that show something in one turn; with more of them each is served less often, since every one is repainted."""
MAX_BLOCKS = 5000
MAX_BEHIND = 500_000
"""Characters a pane may lag behind its text; showing megabytes would take many seconds, and nobody reads them."""
RENDER_LIMIT, RENDER_ASKED_LIMIT = 32_000, 400_000
"""Characters up to which an answer is rendered by itself, and when the person asks: laying out takes 1 ms for 1 KB."""


class View(StrEnum):
    """How an answer is shown."""

    RENDERED = "rendered"
    RAW = "raw"
    JSON = "json"


class PaneFlusher(QObject):
    """The one timer of all panes; it stops by itself when nothing is left to show."""

    flushed = Signal()
    """A turn is over in which something was shown."""

    def __init__(self, guard: ErrorGuard, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._guard = guard
        self._timer = QTimer(self)
        self._timer.setInterval(FLUSH_MILLISECONDS)
        self._timer.timeout.connect(self.flush)
        self._panes: list[Callable[[float], bool]] = []
        self._first = 0
        self._awake = False

    @property
    def active(self) -> bool:
        """Whether the timer runs."""
        return self._awake

    def add(self, flush: Callable[[float], bool]) -> None:
        """Ask this pane at every turn; it gets the deadline and says whether it had something to show."""
        self._panes.append(flush)

    def wake(self) -> None:
        """There may be new text."""
        if not self._awake:
            self._awake = True
            self._timer.start()

    def flush(self) -> None:
        """Let panes show what is new, in turn, until a few did or the time is used up."""
        deadline = time.perf_counter() + FLUSH_SECONDS
        served = 0
        count = len(self._panes)
        for number in range(self._first, self._first + count):
            if self._served(self._panes[number % count], deadline):
                served += 1
                if served >= PANES_A_TURN or time.perf_counter() > deadline:
                    self._first = (number + 1) % count
                    break
        if served:
            self.flushed.emit()
        else:
            self._awake = False
            self._timer.stop()

    def _served(self, flush: Callable[[float], bool], deadline: float) -> bool:
        """Whether the pane had something to show; one that raises had not."""
        shown: list[bool] = []
        self._guard.run(flush, lambda: shown.append(flush(deadline)))
        return any(shown)


class StreamText(QTextEdit):
    """One text, live or finished, that follows its end until the person scrolls up."""

    following_changed = Signal(bool)
    ended = Signal()
    """The text is another one, or grows no more."""
    view_changed = Signal()
    """Another view was chosen, by the person or by the text."""

    def __init__(self, flusher: PaneFlusher, color: str = "text", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flusher = flusher
        self._color = color
        self._source: StreamedText | None = None
        self._live = False
        self._final = False
        self._whole = True
        self._chosen: View | None = None
        self._view = View.RENDERED
        self._read = 0
        self._revision = 0
        self._following = True
        self._inserting = False
        self._shaper = TextShaper()
        self._colors = JsonColors(self)
        self.setReadOnly(True)
        self.setProperty("pane", True)
        self.setUndoRedoEnabled(False)
        document = ClosedDocument(self)
        document.setUndoRedoEnabled(False)
        document.setDocumentMargin(theme.px(4))
        self.setDocument(document)
        self._cursor = QTextCursor(document)
        self._rendered: ClosedDocument | None = None
        """Being filled, not shown yet."""
        self._rendering: Iterator[None] | None = None
        self._laid_out: str | None = None
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # scrolling then moves pixels
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._scrolled)
        bar.rangeChanged.connect(self._range_changed)
        theme.changed.connect(self._restart)
        flusher.add(self.flush)
        self._restart()

    # -- what is shown ----------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """How the text is shown now."""
        return self._view

    @property
    def following(self) -> bool:
        """Whether the end stays in sight."""
        return self._following

    @property
    def live(self) -> bool:
        """Whether the text grows."""
        return self._live

    @property
    def full_text(self) -> str:
        """The whole text, also what is not displayed any more."""
        return self._source.text if self._source is not None else ""

    def bind(self, source: StreamedText | None, *, live: bool, whole: bool = True) -> None:
        """Show this text; `live` while it grows, not `whole` when it will stay a part."""
        if source is self._source:
            self._whole = whole
            if live != self._live:
                self._live = live
                self._flusher.wake()
                self.viewport().update()
                self.ended.emit()
            return
        self._source, self._live, self._whole = source, live, whole
        self._set_following(live)
        self._restart()
        self.ended.emit()

    def choose_view(self, view: View | None) -> None:
        """Show as rendered, raw or JSON; None chooses by the text's beginning."""
        if view is not self._chosen:
            self._chosen = view
            self._restart()

    def set_color(self, color: str) -> None:
        """Take another colour token for what is shown from now on."""
        if color != self._color:
            self._color = color
            self._restart()

    def jump_to_end(self) -> None:
        """Scroll to the end and follow it."""
        self._set_following(True)
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

    def _restart(self) -> None:
        """Show the text from its beginning."""
        self._read = 0
        self._final = False
        self._drop_rendering()
        self._laid_out = None
        self._revision = self._source.revision if self._source is not None else 0
        self._decide_view()
        self._inserting = True
        self._empty()
        self._inserting = False
        self._flusher.wake()

    def _drop_rendering(self) -> None:
        """Give up a document that is not shown yet."""
        self._rendering = None
        if self._rendered is not None:
            self._rendered.deleteLater()
            self._rendered = None

    def _empty(self) -> None:
        self._shaper = TextShaper()
        document = self.document()
        document.clear()
        document.setMaximumBlockCount(MAX_BLOCKS)
        mono = self._view is not View.RENDERED
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Text, theme.color(self._color))
        palette.setColor(QPalette.ColorRole.Link, theme.color("accent"))
        self.setPalette(palette)
        self.setFont(theme.font(12 if mono else 13, mono=mono))
        self._colors.setDocument(document if self._view is View.JSON else None)
        block = QTextBlockFormat()
        block.setLineHeight(
            CODE_LINE if mono else PROSE_LINE, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
        )
        self._cursor = QTextCursor(document)
        self._cursor.setBlockFormat(block)

    def _decide_view(self) -> None:
        view = self._chosen or (View.JSON if looks_like_json(self.full_text) else View.RENDERED)
        if view is not self._view:
            self._view = view
            self.view_changed.emit()

    # -- showing what is new ----------------------------------------------------------------------------------------

    def flush(self, deadline: float) -> bool:
        """Show what came since the last time, if this can be seen; returns whether there was something to do."""
        source = self._source
        if source is None or not self.isVisible():
            return False
        if source.revision != self._revision or (
            self._read == 0 and not self._final and source.length and self._chosen is None
        ):
            self._restart()
        if self._read == 0 and not self._live and not self._final:
            self._show_final()
        if self._rendering is not None and self._rendered is not None:
            self._go_on_rendering(self._rendered, self._rendering, deadline)
            return True
        if self._laid_out is not None:
            self._insert_new(self._laid_out, deadline)
            if self._read >= len(self._laid_out):
                self._laid_out = None
                self._read = source.length
            return True
        if self._read >= source.length:
            if self._live or self._final:
                return False
            self._end()
            return True
        if source.length - self._read > MAX_BEHIND:
            self._skip(source.length - MAX_BEHIND)
        self._insert_new(source.text, deadline)
        return True

    def _insert_new(self, text: str, deadline: float) -> None:
        self._inserting = True
        while self._read < len(text):
            piece = text[self._read : self._read + FLUSH_CHARACTERS]
            self._read += len(piece)
            self._cursor.insertText(self._shaper.feed(piece))
            if time.perf_counter() > deadline:
                break
        if self._following:
            bar = self.verticalScrollBar()
            bar.setValue(bar.maximum())
        self._inserting = False

    def _skip(self, place: int) -> None:
        """Leave out what the display could not catch up with, and say so; copying gives it all."""
        left_out = place - self._read
        note = self.tr("… %1 characters are not shown here; copying gives the whole text …")
        self._cursor.insertText("\n" + note.replace("%1", f"{left_out:,}") + "\n")
        self._read = place
        self._shaper = TextShaper()

    def _end(self) -> None:
        """The stream is over and all of it is shown: now it may be laid out."""
        rest = self._shaper.feed("", last=True)
        if rest:
            self._cursor.insertText(rest)
        if not self._show_final():
            self._final = True
        self.viewport().update()

    def _show_final(self) -> bool:
        """Lay out the finished text as Markdown or JSON; False when it stays as it is."""
        text = self.full_text
        if not text:
            return False
        self._decide_view()
        if self._view is View.JSON:
            self._laid_out = pretty_json(text)
            if self._laid_out is None:
                return False
            self._inserting = True
            self._empty()
            self._inserting = False
            self._read = 0
            self._final = True
            return True
        limit = RENDER_LIMIT if self._chosen is None else RENDER_ASKED_LIMIT
        if self._view is View.RENDERED and self._whole and len(text) <= limit:
            self._rendered = ClosedDocument(self)
            self._rendering = rendering(self._rendered, text)
            self._read = len(text)
            self._final = True
            return True
        return False

    def _go_on_rendering(self, document: ClosedDocument, steps: Iterator[None], deadline: float) -> None:
        """Render a little; the plain text stays until the rendered one is whole."""
        for _ in steps:
            if time.perf_counter() > deadline:
                return
        self._rendering = self._rendered = None
        bar = self.verticalScrollBar()
        place = bar.value()
        self._inserting = True
        plain = self.document()
        self._colors.setDocument(None)
        self.setDocument(document)
        self._cursor = QTextCursor(document)
        plain.deleteLater()
        bar.setValue(bar.maximum() if self._following else place)
        self._inserting = False

    # -- following --------------------------------------------------------------------------------------------------

    def _set_following(self, following: bool) -> None:
        if following != self._following:
            self._following = following
            self.following_changed.emit(following)

    def _scrolled(self, value: int) -> None:
        if not self._inserting:
            self._set_following(value >= self.verticalScrollBar().maximum() - 2)

    def _range_changed(self, _minimum: int, maximum: int) -> None:
        if self._following and self._live:
            self._inserting = True
            self.verticalScrollBar().setValue(maximum)
            self._inserting = False

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what came while hidden."""
        super().showEvent(event)
        self._flusher.wake()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the text, and a still caret at its end while it grows."""
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), theme.color("bg.field"))
        painter.end()
        super().paintEvent(event)
        if self._live and self._read:
            place = self.cursorRect(self._cursor)
            painter = QPainter(self.viewport())
            painter.fillRect(QRectF(place.left() + 1, place.top(), theme.px(3), place.height()), theme.color("run"))
