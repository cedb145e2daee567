"""Measured texts and places of a card, in scene units (px of the design at 100 %); made once, on first paint."""

from functools import lru_cache
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QTextLayout, QTextOption

from workbench.designer.card_content import (
    CARD_WIDTH,
    HEADER_HEIGHT,
    PREVIEW_HEIGHT,
    ROW_HEIGHT,
    CardContent,
    Chip,
)
from workbench.theme import font_at

_PADDING = 10.0
_NAME_X = 32.0
_BADGE_HEIGHT = 16.0
_BADGE_WIDEST = 76.0
_PREVIEW_STEP = 16.0
_PREVIEW_FIRST = HEADER_HEIGHT + 7.0
_CHIP_HEIGHT = 18.0
_CHIP_GAP = 4.0
_CHIP_PADDING = 6.0
_CHIP_ICON = 12.0
_LABEL_RIGHT = 12.0
_TITLE_X = 54.0
_TITLE_WIDTH = CARD_WIDTH - _TITLE_X - 10.0


@lru_cache(maxsize=32)
def scene_font(size: float, weight: int = 400, *, mono: bool = False) -> QFont:
    """A font in scene units: unhinted, so that widths scale with the view."""
    font = QFont(font_at(size, weight, mono=mono))
    font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    return font


@lru_cache(maxsize=32)
def metrics(size: float, weight: int = 400, *, mono: bool = False) -> QFontMetricsF:
    """Metrics of a scene font."""
    return QFontMetricsF(scene_font(size, weight, mono=mono))


def baseline(middle: float, size: float, weight: int = 400, *, mono: bool = False) -> float:
    """Where text stands so that its capitals are centred on `middle`."""
    return middle + metrics(size, weight, mono=mono).capHeight() / 2


def elided(text: str, width: float, size: float, weight: int = 400, *, mono: bool = False) -> str:
    """The text, cut with an ellipsis when it is wider."""
    cut = metrics(size, weight, mono=mono).elidedText(text, Qt.TextElideMode.ElideRight, width)
    return cut if cut == text else f"{cut[:-1].rstrip()}…"


class PlacedText(NamedTuple):
    """A text and where its baseline starts."""

    text: str
    at: QPointF


class PlacedChip(NamedTuple):
    """A chip and its box."""

    rect: QRectF
    icon: str
    text: PlacedText


class PlacedRow(NamedTuple):
    """A route's label and, left of it, its icon."""

    icon: str
    icon_rect: QRectF
    text: PlacedText


class CardLayout:
    """Where everything at rest goes."""

    def __init__(self, content: CardContent) -> None:
        self.content = content
        self.badge_rect, self.badge = _badge(content.badge)
        right = self.badge_rect.left() - 6.0 if content.badge else CARD_WIDTH - _PADDING
        name = elided(content.name, right - _NAME_X, 14, 600)
        self.name = PlacedText(name, QPointF(_NAME_X, baseline(HEADER_HEIGHT / 2, 14, 600)))
        self.preview = _preview(content.preview)
        self.chips = _chips(content)
        self.rows = tuple(_row(content, index) for index in range(len(content.ports))) if content.has_rows else ()
        self.title = _title(content)


def _badge(badge: str) -> tuple[QRectF, PlacedText]:
    text = metrics(10, 700).elidedText(badge, Qt.TextElideMode.ElideMiddle, _BADGE_WIDEST)
    width = max(_BADGE_HEIGHT, metrics(10, 700).horizontalAdvance(text) + 10.0)
    top = (HEADER_HEIGHT - _BADGE_HEIGHT) / 2
    rect = QRectF(CARD_WIDTH - _PADDING - width, top, width, _BADGE_HEIGHT)
    x = rect.center().x() - metrics(10, 700).horizontalAdvance(text) / 2
    return rect, PlacedText(text, QPointF(x, baseline(rect.center().y(), 10, 700)))


def _preview(text: str) -> tuple[PlacedText, ...]:
    width = CARD_WIDTH - 2 * _PADDING
    layout = QTextLayout(text, scene_font(12))
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.beginLayout()
    line = layout.createLine()
    line.setLineWidth(width)
    # QTextLayout counts UTF-16 units, Python counts characters.
    units = text.encode("utf-16-le", "surrogatepass")
    cut = line.textLength() * 2
    layout.endLayout()
    first = units[:cut].decode("utf-16-le", "replace").rstrip()
    second = elided(units[cut:].decode("utf-16-le", "replace").strip(), width, 12)
    lines = (line for line in (first, second) if line)
    return tuple(
        PlacedText(line, QPointF(_PADDING, baseline(_PREVIEW_FIRST + _PREVIEW_STEP * index, 12)))
        for index, line in enumerate(lines)
    )


def _chips(content: CardContent) -> tuple[PlacedChip, ...]:
    placed: list[PlacedChip] = []
    x = _PADDING
    right = CARD_WIDTH - _PADDING
    for index, chip in enumerate(content.chips):
        rest = len(content.chips) - index
        more = Chip(text=f"+{rest}")
        reserve = 0.0 if rest == 1 else _chip_width(Chip(text=f"+{rest - 1}")) + _CHIP_GAP
        if x + _chip_width(chip) + reserve > right and index:
            placed.append(_placed_chip(more, x, right))
            break
        placed.append(_placed_chip(chip, x, right - reserve))
        x = placed[-1].rect.right() + _CHIP_GAP
    return tuple(placed)


def _chip_width(chip: Chip) -> float:
    text = metrics(11, 500).horizontalAdvance(chip.text)
    icon = _CHIP_ICON + (3.0 if chip.text else 0.0) if chip.icon else 0.0
    return text + icon + 2 * _CHIP_PADDING


def _placed_chip(chip: Chip, x: float, right: float) -> PlacedChip:
    width = min(_chip_width(chip), right - x)
    rect = QRectF(x, HEADER_HEIGHT + PREVIEW_HEIGHT, width, _CHIP_HEIGHT)
    text_x = x + _CHIP_PADDING + (_CHIP_ICON + 3.0 if chip.icon else 0.0)
    text = elided(chip.text, rect.right() - _CHIP_PADDING - text_x + 0.5, 11, 500)
    return PlacedChip(rect, chip.icon, PlacedText(text, QPointF(text_x, baseline(rect.center().y(), 11, 500))))


def _row(content: CardContent, index: int) -> PlacedRow:
    port = content.ports[index]
    size = 11.0 if port.is_expression else 12.0
    icon = {"passed": "check", "failed": "cross"}.get(port.verdict, "end" if port.is_end else "")
    left = _PADDING + (18.0 if icon else 0.0)
    middle = content.rows_top + ROW_HEIGHT * (index + 0.5)
    right = CARD_WIDTH - _LABEL_RIGHT
    text = elided(port.label, right - left, size, mono=port.is_expression)
    x = right - metrics(size, mono=port.is_expression).horizontalAdvance(text)
    at = QPointF(x, baseline(middle, size, mono=port.is_expression))
    return PlacedRow(icon, QRectF(x - 18.0, middle - 7.0, 14.0, 14.0), PlacedText(text, at))


def _title(content: CardContent) -> tuple[PlacedText, ...]:
    """The name in large letters, broken at capitals, for the view from further away."""
    lines = _broken(content.name)
    middle = content.body_height / 2
    step = 30.0
    top = middle - step * (len(lines) - 1) / 2
    return tuple(
        PlacedText(elided(line, _TITLE_WIDTH, 25, 600), QPointF(_TITLE_X, baseline(top + step * index, 25, 600)))
        for index, line in enumerate(lines)
    )


def _broken(name: str) -> tuple[str, ...]:
    if metrics(25, 600).horizontalAdvance(name) <= _TITLE_WIDTH:
        return (name,)
    breaks = [i for i in range(1, len(name)) if _starts_word(name[i - 1], name[i])]
    if not breaks:
        return (name,)
    middle = min(breaks, key=lambda i: abs(i - len(name) / 2))
    return (name[:middle].rstrip(" "), name[middle:])


def _starts_word(before: str, letter: str) -> bool:
    return before in " _-" or (letter.isupper() and not before.isupper())
