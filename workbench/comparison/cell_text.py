"""The text of an answer laid out in a cell: wrapped, cut at the end, words that only it has marked."""

import re
from collections.abc import Iterator

from PySide6.QtCore import QPointF
from PySide6.QtGui import QPainter, QTextCharFormat, QTextLayout, QTextOption

from workbench.text_format import visible_text
from workbench.theme import theme

KEPT = 200
"""Layouts that are kept: more than a screen has cells."""
LINE = 1.45
"""Line height in the font's own."""
_WORD = re.compile(r"\w+")

Key = tuple[str, int, frozenset[str], str, float]


class CellTexts:
    """Lays out texts, and remembers those it laid out last."""

    def __init__(self) -> None:
        self._kept: dict[Key, QTextLayout] = {}
        theme.changed.connect(self._kept.clear)

    def paint(
        self,
        painter: QPainter,
        text: str,
        place: QPointF,
        width: int,
        *,
        marked: frozenset[str] = frozenset(),
        color: str = "text",
    ) -> float:
        """Paint a text from a place on, with these words marked; its whole height. Clipping is up to the painter."""
        layout = self._layout(text, width, marked, color)
        painter.setPen(theme.color(color))
        layout.draw(painter, place)
        return layout.boundingRect().height()

    def height(self, text: str, width: int, *, color: str = "text") -> float:
        """The height of a text at this width."""
        return self._layout(text, width, frozenset(), color).boundingRect().height()

    def _layout(self, text: str, width: int, marked: frozenset[str], color: str) -> QTextLayout:
        key = (text, width, marked, color, theme.zoom)
        layout = self._kept.pop(key, None)
        if layout is None:
            layout = _laid_out(text, width, marked)
            while len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = layout
        return layout


def _laid_out(text: str, width: int, marked: frozenset[str]) -> QTextLayout:
    shown = visible_text(text)
    # A paragraph is a line of its own for QTextLayout; it knows no others.
    layout = QTextLayout(shown.replace("\n", "\u2028"), theme.font(13))
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    if marked:
        layout.setFormats(list(_marks(shown, marked)))
    layout.beginLayout()
    top = 0.0
    while (line := layout.createLine()).isValid():
        line.setLineWidth(width)
        line.setPosition(QPointF(0.0, top))
        top += line.height() * LINE
    layout.endLayout()
    return layout


def _marks(text: str, marked: frozenset[str]) -> Iterator[QTextLayout.FormatRange]:
    for start, length in places_of(text, marked):
        found = QTextLayout.FormatRange()
        found.start, found.length, found.format = start, length, mark_format()
        yield found


def mark_format() -> QTextCharFormat:
    """How a marked word looks."""
    form = QTextCharFormat()
    form.setBackground(theme.color("diff.add"))
    return form


def places_of(text: str, words: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where these words are in a text: start and length, in Qt's units of UTF-16."""
    place = before = 0
    for word in _WORD.finditer(text):
        if word.group().casefold() in words:
            place += _units(text[before : word.start()])
            before = word.start()
            yield place, _units(word.group())


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
