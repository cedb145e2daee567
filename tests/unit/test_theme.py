"""Contrast of every pair of colours that is used, icons at their sizes, categories, zoom."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QApplication, QDialogButtonBox, QWidget
from pytestqt.qtbot import QtBot

from engine.bundled import names
from tests.helpers import token_table
from tests.helpers.token_table import BACKGROUNDS, contrast
from workbench.theme import DARK, LIGHT, SYSTEM, TOKENS, Theme, theme

SCHEMES = (DARK, LIGHT)

TEXTS = ("text", "text2", "muted")
STATES = ("accent", "run", "ok", "warn", "err", "ice", "reason")
SYNTAX = ("syntax.key", "syntax.value")
CATEGORIES = ("S", "M", "L", "XL", "HOT", "COLD")
SERIES = tuple(f"series.{number}" for number in range(1, 9))

TEXT_LIMIT, GRAPHIC_LIMIT = 4.5, 3.0
"""WCAG 2.2 AA, criteria 1.4.3 and 1.4.11."""

TEXT_PAIRS = [
    *[(text, background) for text in (*TEXTS, *STATES, *SYNTAX) for background in BACKGROUNDS],
    *[(state, f"tint.{state}") for state in STATES],
    *[(f"category.{label}", f"tint.{label}") for label in CATEGORIES],
    *[(text, f"tint.{name}") for text in ("text", "text2") for name in (*STATES, *CATEGORIES)],
    *[("text", token) for token in ("diff.add", "diff.remove", "mark")],
    ("on.fill", "accent.fill"),
]
GRAPHIC_PAIRS = [
    *[("line.control", background) for background in ("bg.chrome", "bg.dock", "bg.canvas", "bg.field", "bg.card")],
    ("edge", "bg.canvas"),
    ("accent.fill", "bg.dock"),
    ("breakpoint", "bg.canvas"),
    ("disabled", "bg.dock"),
    *[(series, "bg.card") for series in SERIES],
]


def _color(token: str, scheme: str) -> str:
    return TOKENS[token][SCHEMES.index(scheme)]


def _mixed(color: str, background: str, share: float) -> str:
    pairs = [(int(color[at : at + 2], 16), int(background[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(share * fore + (1 - share) * back):02X}" for fore, back in pairs)


@pytest.fixture
def look(qapp: QApplication) -> Iterator[Theme]:
    """The application's theme, put back afterwards."""
    preference, zoom, reduced = theme.preference, theme.zoom, theme.reduced_motion
    yield theme
    theme.set_zoom(zoom)
    theme.choose(preference)
    theme.set_reduced_motion(reduced)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#FFFFFF") == 21.0
    assert round(contrast("#777777", "#FFFFFF"), 2) == 4.48


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_can_be_read(scheme: str) -> None:
    for text, background in TEXT_PAIRS:
        ratio = contrast(_color(text, scheme), _color(background, scheme))
        assert ratio >= TEXT_LIMIT, f"{text} on {background}: {ratio:.2f}"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lines_that_carry_meaning_can_be_seen(scheme: str) -> None:
    for line, background in GRAPHIC_PAIRS:
        ratio = contrast(_color(line, scheme), _color(background, scheme))
        assert ratio >= GRAPHIC_LIMIT, f"{line} on {background}: {ratio:.2f}"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_placeholders_can_be_read_on_their_wash(scheme: str) -> None:
    for token in SYNTAX:
        color, field = _color(token, scheme), _color("bg.field", scheme)
        assert contrast(color, _mixed(color, field, 0.14)) >= TEXT_LIMIT, token


def test_every_token_is_two_opaque_colors() -> None:
    for token, colors in TOKENS.items():
        assert len(colors) == 2, token
        assert all(len(color) == 7 and QColor(color).isValid() for color in colors), token


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", [12, 14, 16])
def test_every_icon_shows_something(look: Theme, scheme: str, size: int) -> None:
    look.choose(scheme)
    icons = names("resources", "icons", suffix=".svg")
    assert len(icons) > 90
    for name in icons:
        image = look.pixmap(name, size).toImage()
        assert (image.width(), image.height()) == (size, size)
        inked = [image.pixelColor(x, y) for x in range(size) for y in range(size)]
        strongest = max(inked, key=QColor.alpha)
        assert strongest.alpha() > 128, name
        expected = look.color("text2")
        assert abs(strongest.lightness() - expected.lightness()) <= 6, name


def test_icons_are_rendered_at_device_pixels(look: Theme) -> None:
    pixmap = look.pixmap("run", 16, "text2", 2.0)
    assert (pixmap.width(), pixmap.devicePixelRatio()) == (32, 2.0)
    assert pixmap.deviceIndependentSize().width() == 16


def test_category_tokens() -> None:
    for label in CATEGORIES:
        assert theme.category_tokens(label) == (f"category.{label}", f"tint.{label}")
        assert all(token in TOKENS for token in theme.category_tokens(label))
    assert theme.category_tokens("My own") == ("text2", "bg.press")


def test_a_choice_changes_colors_and_tells(look: Theme, qtbot: QtBot) -> None:
    look.choose(LIGHT)
    with qtbot.waitSignal(look.changed):
        look.choose(DARK)
    assert look.dark
    assert (look.hex("bg.canvas"), look.color("bg.canvas").name().upper()) == ("#17181B", "#17181B")
    assert look.color("run", 0.5).alpha() == 128
    look.choose(LIGHT)
    assert not look.dark
    assert look.hex("bg.canvas") == "#F4F5F8"
    assert QApplication.palette().window().color().name().upper() == "#FAFAFC"


def test_the_system_decides_when_asked(look: Theme) -> None:
    look.choose(SYSTEM)
    assert look.preference == SYSTEM
    assert look.dark in (True, False)


def test_zoom_scales_sizes_fonts_and_icons_within_limits(look: Theme, qtbot: QtBot) -> None:
    with qtbot.waitSignal(look.changed):
        look.set_zoom(1.5)
    assert (look.px(28), look.font(12).pixelSize(), look.pixmap("run", 16).width()) == (42, 18, 24)
    look.set_zoom(9)
    assert look.zoom == 2.5
    look.set_zoom(0.1)
    assert look.zoom == 0.7
    look.set_zoom(1.0)
    assert QApplication.font().pixelSize() == 13


def test_a_change_polishes_a_widget_a_few_times_however_deep_it_is(look: Theme, qtbot: QtBot) -> None:
    class Counting(QWidget):
        polished = 0

        def changeEvent(self, event: QEvent) -> None:
            self.polished += event.type() is QEvent.Type.StyleChange
            super().changeEvent(event)

    outer = QWidget()
    qtbot.addWidget(outer)
    inner = outer
    for _ in range(20):
        inner = QWidget(inner)
    deepest = Counting(inner)
    outer.show()
    look.set_zoom(1.1)
    deepest.polished = 0
    look.set_zoom(1.2)
    assert 1 <= deepest.polished <= 4


def test_figures_are_tabular_and_code_has_no_ligatures(look: Theme) -> None:
    font, code = look.font(12, 600), look.font(12, mono=True)
    assert font.weight() == 600
    assert font.featureValue(QFont.Tag("tnum")) == 1
    assert [code.featureValue(QFont.Tag(tag)) for tag in ("tnum", "liga", "calt")] == [1, 0, 0]


def test_reduced_motion_tells(look: Theme, qtbot: QtBot) -> None:
    with qtbot.waitSignal(look.changed):
        look.set_reduced_motion(True)
    assert look.reduced_motion


def test_the_documented_tokens_are_those_of_the_theme() -> None:
    # After a change: python -m tests.helpers.token_table
    assert token_table.table() in token_table.DOCUMENT.read_text("utf-8")


def test_the_window_icon_has_a_tile_for_every_usual_size(look: Theme) -> None:
    icon = look.window_icon()
    for size in (16, 32, 128):
        picture = icon.pixmap(size, size).toImage()
        assert picture.size().width() == size
        colors = {picture.pixelColor(x, size // 2).name() for x in range(size)}
        assert "#3a66da" in colors
        assert len(colors) > 2  # the drawing on the tile


def test_buttons_of_dialogs_have_no_icons_of_the_style(look: Theme, qapp: QApplication) -> None:
    look.choose(LIGHT)
    box = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel | QDialogButtonBox.StandardButton.Save)
    assert [button.icon().isNull() for button in box.buttons()] == [True, True]
    box.deleteLater()
