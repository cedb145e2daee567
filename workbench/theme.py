"""The look in numbers: colour tokens, fonts, sizes and icons, for dark and light and any text zoom.

`theme` is the one instance. Widgets ask it for colours, fonts and icons and repaint on `changed`; nothing else in the
program holds a colour. Values and their contrast ratios: docs/visual-design.md.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from PySide6.QtCore import QByteArray, QObject, QRectF, QSize, Qt, QTemporaryDir, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from engine.bundled import read_text

TOKENS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "bg.chrome": ("#1A1B1F", "#F1F2F5"),
        "bg.dock": ("#1F2025", "#FAFAFC"),
        "bg.canvas": ("#17181B", "#F4F5F8"),
        "bg.field": ("#17181C", "#FFFFFF"),
        "bg.card": ("#26272D", "#FFFFFF"),
        "bg.overlay": ("#2A2C32", "#FFFFFF"),
        "bg.hover": ("#2A2C33", "#ECEEF2"),
        "bg.press": ("#33353D", "#E0E3E9"),
        "bg.selected": ("#2A3B62", "#D9E4FD"),
        "bg.selected.idle": ("#2F3139", "#E7E9EE"),
        "text": ("#E3E5EA", "#1C1E23"),
        "text2": ("#B6BBC6", "#474E5A"),
        "muted": ("#A1A7B3", "#5C6370"),
        "accent": ("#85AAFF", "#2B57D0"),
        "run": ("#4EC5E6", "#006A88"),
        "ok": ("#5BCB8E", "#12713F"),
        "warn": ("#E6B84C", "#845400"),
        "err": ("#FF867E", "#BC2A25"),
        "ice": ("#A3CDF7", "#2A669C"),
        "reason": ("#BFA3EC", "#6B45AE"),
        "syntax.key": ("#6FD3B5", "#0B6B57"),
        "syntax.value": ("#E6A97A", "#96480F"),
        "line": ("#2E3037", "#E2E4EA"),
        "line.strong": ("#44474F", "#C5CAD3"),
        "line.control": ("#6D727E", "#858C98"),
        "edge": ("#6A707C", "#828995"),
        "accent.fill": ("#3A66DA", "#2F5BD6"),
        "breakpoint": ("#F2605A", "#CC2F2A"),
        "disabled": ("#7A808C", "#7D8490"),
        "diff.add": ("#1D3A2C", "#D9F2E3"),
        "diff.remove": ("#47262A", "#FCE1DF"),
        "mark": ("#574713", "#FFEDB8"),
        "category.S": ("#7CCF9B", "#1A7040"),
        "category.M": ("#85AAFF", "#2B57D0"),
        "category.L": ("#BFA0F5", "#6B3FC0"),
        "category.XL": ("#EE93C4", "#A32A74"),
        "category.HOT": ("#F4A268", "#9C4708"),
        "category.COLD": ("#62CBE4", "#056880"),
        "tint.accent": ("#353C4F", "#E8EEFD"),
        "tint.run": ("#2C404B", "#E0F3F8"),
        "tint.ok": ("#2E413D", "#E0F5EA"),
        "tint.warn": ("#453E32", "#FDF0D6"),
        "tint.err": ("#49363A", "#FDEAE9"),
        "tint.ice": ("#3A424D", "#E8F2FB"),
        "tint.reason": ("#3E3B4C", "#F0ECF7"),
        "tint.S": ("#34423F", "#E0F5EA"),
        "tint.M": ("#353C4F", "#E8EEFD"),
        "tint.L": ("#3E3A4D", "#F0EAFC"),
        "tint.XL": ("#463845", "#FBE9F3"),
        "tint.HOT": ("#473B36", "#FCEBDE"),
        "tint.COLD": ("#30414A", "#E0F3F8"),
        "series.1": ("#7EA6FF", "#3E6BE0"),
        "series.2": ("#5BCB8E", "#1F8A52"),
        "series.3": ("#E6B84C", "#B27B0A"),
        "series.4": ("#BFA0F5", "#7D55CC"),
        "series.5": ("#4EC5E6", "#0A86A6"),
        "series.6": ("#FF9580", "#D0512F"),
        "series.7": ("#EE93C4", "#BD4089"),
        "series.8": ("#A4ABB8", "#707784"),
        "on.fill": ("#FFFFFF", "#FFFFFF"),
    }
)
"""Token → (dark, light)."""

DARK, LIGHT, SYSTEM = "dark", "light", "system"

SMALLEST_ZOOM, LARGEST_ZOOM = 0.7, 2.5

WEIGHTS = {
    400: QFont.Weight.Normal,
    500: QFont.Weight.Medium,
    600: QFont.Weight.DemiBold,
    700: QFont.Weight.Bold,
}


class Theme(QObject):
    """The current colours, fonts and icons."""

    changed = Signal()
    """Scheme, zoom or motion changed: ask again and repaint."""

    def __init__(self) -> None:
        super().__init__()
        self._preference = SYSTEM
        self._dark = True
        self._zoom = 1.0
        self.reduced_motion = False
        self._images: QTemporaryDir | None = None

    # -- choosing ---------------------------------------------------------------------------------------------------

    @property
    def dark(self) -> bool:
        """Whether the dark scheme is shown."""
        return self._dark

    @property
    def preference(self) -> str:
        """`dark`, `light` or `system`."""
        return self._preference

    @property
    def zoom(self) -> float:
        """Text zoom; 1.0 is 100 %."""
        return self._zoom

    def install(self, preference: str = SYSTEM, zoom: float = 1.0) -> None:
        """Give the application its style and follow the system's colour scheme from now on."""
        QApplication.setStyle("Fusion")
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_changed)
        self._zoom = zoom
        self.choose(preference)

    def choose(self, preference: str) -> None:
        """Show `dark`, `light`, or what the `system` prefers."""
        self._preference = preference
        schemes = {DARK: Qt.ColorScheme.Dark, LIGHT: Qt.ColorScheme.Light, SYSTEM: Qt.ColorScheme.Unknown}
        QGuiApplication.styleHints().setColorScheme(schemes[preference])
        self._apply()

    def set_zoom(self, zoom: float) -> None:
        """Scale all text and sizes, within the limits."""
        self._zoom = min(LARGEST_ZOOM, max(SMALLEST_ZOOM, round(zoom, 2)))
        self._apply()

    def set_reduced_motion(self, reduced: bool) -> None:
        """Stop everything that loops."""
        self.reduced_motion = reduced
        self.changed.emit()

    def _system_changed(self) -> None:
        if self._preference == SYSTEM:
            self._apply()

    def _apply(self) -> None:
        scheme = QGuiApplication.styleHints().colorScheme()
        self._dark = self._preference == DARK or (self._preference == SYSTEM and scheme != Qt.ColorScheme.Light)
        application = QApplication.instance()
        sheet = self._stylesheet()
        if isinstance(application, QApplication) and application.styleSheet() != sheet:
            # One stylesheet after another has Qt polish a widget once for each of its parents, seconds in a full
            # window; from none to one it does it once.
            application.setStyleSheet("")
            application.setPalette(self._palette())
            application.setFont(self.font(13))
            application.setStyleSheet(sheet)
        self.changed.emit()

    # -- asking -----------------------------------------------------------------------------------------------------

    def hex(self, token: str) -> str:
        """`#RRGGBB` of a token."""
        return TOKENS[token][0 if self._dark else 1]

    def color(self, token: str, alpha: float = 1.0) -> QColor:
        """A token's colour, optionally translucent (0 to 1)."""
        color = QColor(self.hex(token))
        color.setAlphaF(alpha)
        return color

    def category_tokens(self, label: str) -> tuple[str, str]:
        """Text and tint token of a category badge; your own categories are neutral."""
        if f"category.{label}" in TOKENS:
            return f"category.{label}", f"tint.{label}"
        return "text2", "bg.press"

    def px(self, size: float) -> int:
        """A length of the design in device-independent pixels at the present zoom."""
        return round(size * self._zoom)

    def font(self, size: float, weight: int = 400, *, mono: bool = False) -> QFont:
        """The interface font, or the fixed one, at a design size in px, with tabular figures."""
        return font_at(size * self._zoom, weight, mono=mono)

    def icon(self, name: str, size: int = 16, color: str = "text2", *, checked: str | None = "text") -> QIcon:
        """A line icon at a design size; disabled and checked states have their colours."""
        icon = QIcon()
        for ratio in (1.0, 2.0):
            icon.addPixmap(self.pixmap(name, size, color, ratio))
            icon.addPixmap(self.pixmap(name, size, "disabled", ratio), QIcon.Mode.Disabled)
            if checked is not None:
                icon.addPixmap(self.pixmap(name, size, checked, ratio), QIcon.Mode.Normal, QIcon.State.On)
        return icon

    def window_icon(self) -> QIcon:
        """The program's own icon: a flow on a filled tile, alike in both schemes and at any text zoom."""
        icon = QIcon()
        for size in (16, 24, 32, 48, 64, 128):
            tile = QPixmap(size, size)
            tile.fill(Qt.GlobalColor.transparent)
            painter = QPainter(tile)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(TOKENS["accent.fill"][0]))
            painter.drawRoundedRect(QRectF(0, 0, size, size), size * 0.22, size * 0.22)
            margin = size * 0.14
            inside = QRectF(margin, margin, size - 2 * margin, size - 2 * margin)
            _renderer("flow", round(inside.width()), TOKENS["on.fill"][0]).render(painter, inside)
            painter.end()
            icon.addPixmap(tile)
        return icon

    def pixmap(self, name: str, size: float, color: str = "text2", ratio: float = 1.0) -> QPixmap:
        """A line icon rendered at a design size, colour token and device pixel ratio."""
        return _render(name, self.px(size), self.hex(color), ratio)

    def paint_icon(self, painter: QPainter, name: str, rect: QRectF, color: str) -> None:
        """Draw an icon into a scene or widget at whatever scale the painter has."""
        scale = painter.worldTransform().m11()
        _renderer(name, max(1, round(rect.width() * scale)), self.hex(color)).render(painter, rect)

    # -- Qt's own widgets -------------------------------------------------------------------------------------------

    def _palette(self) -> QPalette:
        palette = QPalette()
        roles = {
            QPalette.ColorRole.Window: "bg.dock",
            QPalette.ColorRole.WindowText: "text",
            QPalette.ColorRole.Base: "bg.field",
            QPalette.ColorRole.AlternateBase: "bg.dock",
            QPalette.ColorRole.Text: "text",
            QPalette.ColorRole.PlaceholderText: "muted",
            QPalette.ColorRole.Button: "bg.card",
            QPalette.ColorRole.ButtonText: "text",
            QPalette.ColorRole.BrightText: "err",
            QPalette.ColorRole.Highlight: "bg.selected",
            QPalette.ColorRole.HighlightedText: "text",
            QPalette.ColorRole.Link: "accent",
            QPalette.ColorRole.LinkVisited: "accent",
            QPalette.ColorRole.ToolTipBase: "bg.overlay",
            QPalette.ColorRole.ToolTipText: "text",
            QPalette.ColorRole.Light: "line.strong",
            QPalette.ColorRole.Midlight: "line",
            QPalette.ColorRole.Mid: "line.strong",
            QPalette.ColorRole.Dark: "line.strong",
            QPalette.ColorRole.Shadow: "line",
            QPalette.ColorRole.Accent: "accent.fill",
        }
        for role, token in roles.items():
            palette.setColor(role, self.color(token))
        for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
            palette.setColor(QPalette.ColorGroup.Disabled, role, self.color("disabled"))
        palette.setColor(QPalette.ColorGroup.Inactive, QPalette.ColorRole.Highlight, self.color("bg.selected.idle"))
        return palette

    def _stylesheet(self) -> str:
        values = {token.replace(".", "_"): self.hex(token) for token in TOKENS}
        for name, icon, color in (
            ("arrow", "chevron-down", "text2"),
            ("up", "chevron-up", "text2"),
            ("tick", "check", "on.fill"),
        ):
            values[name] = self._image_file(icon, color)
        for size in (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 26, 28, 32, 33):
            values[f"px{size}"] = f"{self.px(size)}px"
        return STYLESHEET % values

    def _image_file(self, icon: str, color: str) -> str:
        """An icon as a file: a stylesheet cannot take an image from anywhere else. Empty where no file can be made."""
        if self._images is None:
            self._images = QTemporaryDir()
        if not self._images.isValid():
            return ""
        stem = f"{icon}-{self.hex(color)[1:]}-{self.px(14)}"
        for ratio, mark in ((1.0, ""), (2.0, "@2x")):
            self.pixmap(icon, 14, color, ratio).save(self._images.filePath(f"{stem}{mark}.png"))
        return self._images.filePath(f"{stem}.png")


STYLESHEET = """
QMainWindow, QMenuBar, QToolBar, QStatusBar, QTabBar, QWidget#menu_row { background: %(bg_chrome)s; }
QWidget#page { background: %(bg_dock)s; }
QWidget#menu_row { border-bottom: 1px solid %(line)s; }
QMainWindow::separator { background: %(line)s; width: 1px; height: 1px; }
QMainWindow::separator:hover { background: %(accent)s; }
QMenuBar { padding: %(px4)s; }
QMenuBar::item { padding: %(px4)s %(px10)s; border-radius: 4px; background: transparent; }
QMenuBar::item:selected { background: %(bg_hover)s; }
QMenuBar::item:pressed { background: %(bg_press)s; }
QMenu { background: %(bg_overlay)s; border: 1px solid %(line_strong)s; padding: %(px4)s; }
QMenu::item { padding: %(px4)s %(px24)s %(px4)s %(px12)s; border-radius: 4px; }
QMenu::item:selected { background: %(bg_hover)s; }
QMenu::item:disabled { color: %(disabled)s; }
QMenu::separator { height: 1px; background: %(line)s; margin: %(px4)s %(px8)s; }
QToolTip { background: %(bg_overlay)s; color: %(text)s; border: 1px solid %(line_strong)s; padding: %(px4)s; }
QToolBar { border: none; spacing: %(px4)s; padding: %(px4)s; }
QToolBar[orientation="1"], QToolBar#main { border-bottom: 1px solid %(line)s; }
QToolBar::separator { background: %(line)s; width: 1px; margin: %(px6)s %(px6)s; }
QToolButton#close_tab { padding: 1px; margin-left: %(px4)s; }
QToolButton { background: transparent; border: 1px solid transparent; border-radius: 4px; padding: %(px4)s; }
QToolButton:hover { background: %(bg_hover)s; }
QToolButton:pressed, QToolButton:checked { background: %(bg_press)s; }
QToolButton:focus { border: 2px solid %(accent)s; padding: %(px3)s; }
QToolButton:disabled { color: %(disabled)s; }
QPushButton { background: %(bg_card)s; border: 1px solid %(line_strong)s; border-radius: 4px;
  padding: %(px4)s %(px12)s; min-height: %(px16)s; }
QPushButton:hover { background: %(bg_hover)s; }
QPushButton:pressed, QPushButton:checked { background: %(bg_press)s; }
QPushButton:focus { border: 2px solid %(accent)s; padding: %(px3)s %(px12)s; }
QPushButton:disabled { color: %(disabled)s; }
QPushButton[primary="true"] { background: %(accent_fill)s; border-color: %(accent_fill)s; color: %(on_fill)s; }
QPushButton[primary="true"]:disabled { background: %(bg_press)s; border-color: %(line_strong)s; color: %(disabled)s; }
QToolButton[primary="true"] { background: %(accent_fill)s; border-color: %(accent_fill)s; color: %(on_fill)s;
  padding: %(px4)s %(px12)s; }
QToolButton[primary="true"]:disabled { background: transparent; border-color: transparent; color: %(disabled)s; }
QLineEdit, QSpinBox, QDoubleSpinBox, QComboBox, QPlainTextEdit, QTextEdit { background: %(bg_field)s;
  border: 1px solid %(line_control)s; border-radius: 4px; padding: %(px3)s %(px6)s;
  selection-background-color: %(bg_selected)s; selection-color: %(text)s; }
QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus, QPlainTextEdit:focus, QTextEdit:focus {
  border: 2px solid %(accent)s; padding: %(px2)s %(px4)s; }
QComboBox::drop-down { border: none; width: %(px24)s; }
QComboBox::down-arrow { image: url("%(arrow)s"); width: %(px14)s; height: %(px14)s; }
QAbstractSpinBox { padding-right: %(px24)s; }
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button { border: none; background: transparent; width: %(px20)s;
  subcontrol-origin: border; right: 2px; }
QAbstractSpinBox::up-button { subcontrol-position: top right; top: 2px; }
QAbstractSpinBox::down-button { subcontrol-position: bottom right; bottom: 2px; }
QAbstractSpinBox::up-button:hover, QAbstractSpinBox::down-button:hover { background: %(bg_hover)s; }
QAbstractSpinBox::up-arrow { image: url("%(up)s"); width: %(px12)s; height: %(px12)s; }
QAbstractSpinBox::down-arrow { image: url("%(arrow)s"); width: %(px12)s; height: %(px12)s; }
QLineEdit[invalid="true"], QPlainTextEdit[invalid="true"], QComboBox[invalid="true"] { border: 2px solid %(err)s; }
QLineEdit:disabled, QPlainTextEdit:disabled, QComboBox:disabled { color: %(disabled)s; }
QPlainTextEdit[pane="true"], QTextEdit[pane="true"] { border: none; border-radius: 0; padding: 0 %(px8)s; }
QTreeView, QTableView, QListView { background: %(bg_dock)s; border: none; outline: 0; }
QHeaderView { background: %(bg_dock)s; }
QHeaderView::section { background: %(bg_dock)s; color: %(muted)s; border: none; border-bottom: 1px solid %(line)s;
  padding: %(px4)s %(px6)s; }
QScrollArea { border: none; background: %(bg_dock)s; }
QScrollBar { background: transparent; border: none; }
QScrollBar:vertical { width: %(px10)s; }
QScrollBar:horizontal { height: %(px10)s; }
QScrollBar::handle { background: %(line_control)s; border-radius: %(px4)s; margin: 2px; min-height: %(px24)s;
  min-width: %(px24)s; }
QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page { background: none; border: none;
  width: 0; height: 0; }
QSplitter::handle { background: %(line)s; }
QTabBar { border: none; }
QTabBar::tab { background: transparent; color: %(text2)s; padding: %(px6)s %(px12)s; border: none;
  border-right: 1px solid %(line)s; border-top: 2px solid transparent; min-height: %(px14)s; }
QTabBar::tab:selected { color: %(text)s; background: %(bg_canvas)s; border-top: 2px solid %(accent)s; }
QTabBar::tab:hover:!selected { background: %(bg_hover)s; }
QTabBar[flat="true"] { background: transparent; }
QTabBar[flat="true"]::tab { border: none; border-radius: 4px; margin: %(px4)s %(px2)s; padding: %(px4)s %(px10)s; }
QTabBar[flat="true"]::tab:selected { background: %(bg_press)s; }
QTabWidget::pane { border: none; }
QDockWidget { color: %(text)s; }
QStatusBar { border-top: 1px solid %(line)s; color: %(text2)s; }
QStatusBar::item { border: none; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QCheckBox::indicator { width: %(px14)s; height: %(px14)s; border: 1px solid %(line_control)s; border-radius: 3px;
  background: %(bg_field)s; }
QCheckBox::indicator:checked { background: %(accent_fill)s; border-color: %(accent_fill)s;
  image: url("%(tick)s"); }
QCheckBox:focus, QRadioButton:focus { color: %(accent)s; }
QRadioButton::indicator { width: %(px12)s; height: %(px12)s; border: 1px solid %(line_control)s;
  border-radius: %(px6)s; background: %(bg_field)s; }
QRadioButton::indicator:checked { width: %(px6)s; height: %(px6)s; border: %(px4)s solid %(accent_fill)s;
  border-radius: %(px6)s; background: %(on_fill)s; }
QProgressBar { background: %(bg_press)s; border: none; border-radius: 2px; }
QProgressBar::chunk { background: %(run)s; border-radius: 2px; }
QLabel[role="muted"] { color: %(muted)s; }
QLabel[role="secondary"] { color: %(text2)s; }
"""
"""The one small stylesheet. No `::item` rule: it would override the colours that models give to rows."""


@lru_cache(maxsize=256)
def font_at(size: float, weight: int, *, mono: bool) -> QFont:
    """The system's interface or fixed font at a pixel size; figures are tabular, code has no ligatures."""
    kind = QFontDatabase.SystemFont.FixedFont if mono else QFontDatabase.SystemFont.GeneralFont
    font = QFont(QFontDatabase.systemFont(kind))
    font.setPixelSize(max(1, round(size)))
    font.setWeight(WEIGHTS[weight])
    font.setFeature(QFont.Tag("tnum"), 1)
    if mono:
        font.setFeature(QFont.Tag("liga"), 0)
        font.setFeature(QFont.Tag("calt"), 0)
    return font


@lru_cache(maxsize=256)
def _drawing(name: str) -> str:
    return read_text("resources", "icons", f"{name}.svg")


@lru_cache(maxsize=512)
def _renderer(name: str, pixels: int, color: str) -> QSvgRenderer:
    """An icon's drawing with the stroke that keeps its weight at this size (visual-design: optical weight)."""
    stroke = min(2.3, max(1.5, 1.3 * 24 / pixels))
    svg = _drawing(name).replace("currentColor", color).replace('stroke-width="1.5"', f'stroke-width="{stroke:.2f}"')
    return QSvgRenderer(QByteArray(svg.encode()))


@lru_cache(maxsize=1024)
def _render(name: str, size: int, color: str, ratio: float) -> QPixmap:
    pixmap = QPixmap(QSize(round(size * ratio), round(size * ratio)))
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    _renderer(name, size, color).render(painter)
    painter.end()
    pixmap.setDevicePixelRatio(ratio)
    return pixmap


theme = Theme()
"""The application's theme."""
