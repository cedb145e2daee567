"""What floats over the canvas: zoom bar, minimap, first-start card, output tip."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from workbench.designer.card_layout import elided
from workbench.designer.node_card import STATE_ICONS
from workbench.designer.scene import FlowScene
from workbench.designer.view import FlowView
from workbench.theme import theme

_MINIMAP_WIDTH, _MINIMAP_LOWEST, _MINIMAP_HIGHEST = 150, 48, 110
_TIP_WIDTH = 232.0


class FloatingPanel(QFrame):
    """A raised surface with a hairline border."""

    def __init__(self, parent: QWidget, *, radius: float = 6.0, surface: str = "bg.overlay") -> None:
        super().__init__(parent)
        self._radius, self._surface = radius, surface
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw surface and border."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.color("line.strong"), 1.0))
        painter.setBrush(theme.color(self._surface))
        radius = theme.px(self._radius)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)


class ZoomBar(FloatingPanel):
    """Smaller, the zoom, larger, fit."""

    def __init__(self, view: FlowView, parent: QWidget) -> None:
        super().__init__(parent)
        self._view = view
        self._smaller = self._button(self.tr("Show the flow smaller (Ctrl+-)"))
        self._smaller.clicked.connect(view.zoom_out)
        self._percent = self._button(self.tr("Show the flow at 100 % (Ctrl+0)"))
        self._percent.clicked.connect(self._reset)
        self._larger = self._button(self.tr("Show the flow larger (Ctrl++)"))
        self._larger.clicked.connect(view.zoom_in)
        self.fit = self._button(self.tr("Show the whole flow (Shift+F)"))
        row = QHBoxLayout(self)
        row.setContentsMargins(2, 2, 2, 2)
        row.setSpacing(0)
        for button in (self._smaller, self._percent, self._larger, self.fit):
            row.addWidget(button)
        view.view_changed.connect(self._show_zoom)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    def _reset(self) -> None:
        self._view.zoom_to(1.0)

    def _show_zoom(self) -> None:
        self._percent.setText(f"{round(self._view.zoom * 100)} %")

    def _restyle(self) -> None:
        icons = ((self._smaller, "minus"), (self._larger, "plus"), (self.fit, "fit"))
        for button, icon in icons:
            button.setIcon(theme.icon(icon, 16))
            button.setIconSize(QSize(theme.px(16), theme.px(16)))
        self._percent.setFont(theme.font(12))
        # Wide enough for every zoom: the bar does not jump while zooming.
        width = self._percent.fontMetrics().horizontalAdvance("400 %") + theme.px(12)
        self._percent.setFixedWidth(width)
        self._show_zoom()
        self.adjustSize()


class Minimap(FloatingPanel):
    """The whole flow in small, with the visible part framed; a click or drag goes there."""

    def __init__(self, view: FlowView, scene: FlowScene, parent: QWidget) -> None:
        super().__init__(parent, surface="bg.canvas")
        self._view, self._scene = view, scene
        self._picture: QPixmap | None = None
        theme.changed.connect(self.redraw)
        self.setAccessibleName(self.tr("Map of the flow"))
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def fit_size(self) -> None:
        """Take the shape of the flow, within limits."""
        area = self._scene.extent()
        width = theme.px(_MINIMAP_WIDTH)
        wanted = width * area.height() / area.width() if area.width() else 0.0
        height = min(theme.px(_MINIMAP_HIGHEST), max(theme.px(_MINIMAP_LOWEST), round(wanted)))
        self.resize(width, height)

    def redraw(self) -> None:
        """Draw the agents anew: they moved, or their states changed."""
        self._picture = None
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the agents, kept as a picture, and the visible part."""
        super().paintEvent(event)
        ratio = self.devicePixelRatioF()
        if self._picture is None or self._picture.size() != self.size() * ratio:
            self._picture = self._drawn(ratio)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.drawPixmap(0, 0, self._picture)
        scale, offset = self._mapping()
        visible = self._view.visible_area()
        frame = QRectF(visible.topLeft() * scale + offset, visible.size() * scale)
        painter.setPen(QPen(theme.color("accent"), 1.0))
        painter.setBrush(theme.color("accent", 0.10))
        inside = QRectF(self.rect()).adjusted(2.5, 2.5, -2.5, -2.5)
        painter.drawRoundedRect(frame.intersected(inside), 3.0, 3.0)

    def _drawn(self, ratio: float) -> QPixmap:
        picture = QPixmap(self.size() * ratio)
        picture.setDevicePixelRatio(ratio)
        picture.fill(Qt.GlobalColor.transparent)
        scale, offset = self._mapping()
        groups: dict[str, list[QRectF]] = {}
        for item in self._scene.agents.values():
            _, color = STATE_ICONS.get(item.look.state, ("", "line.control"))
            rect = item.card_rect()
            groups.setdefault(color, []).append(QRectF(rect.topLeft() * scale + offset, rect.size() * scale))
        painter = QPainter(picture)
        painter.setPen(Qt.PenStyle.NoPen)
        for color, boxes in groups.items():
            painter.setBrush(theme.color(color, 0.75))
            painter.drawRects(boxes)
        painter.end()
        return picture

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Go there."""
        scale, offset = self._mapping()
        self._view.look_at((event.position() - offset) / scale)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Go along."""
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.mousePressEvent(event)

    def _mapping(self) -> tuple[float, QPointF]:
        area, margin = self._scene.extent(), theme.px(6)
        if area.isEmpty():
            return 1.0, QPointF()
        scale = min((self.width() - 2 * margin) / area.width(), (self.height() - 2 * margin) / area.height())
        center = QPointF(self.width() / 2, self.height() / 2)
        return scale, center - area.center() * scale


class FirstRunCard(FloatingPanel):
    """Says what to do first, with the button that does it."""

    run_requested = Signal()
    """Run was pressed."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, radius=8.0, surface="bg.card")
        self._icon = QLabel(self)
        self._title = QLabel(self.tr("Press Run to see it work"), self)
        self._title.setWordWrap(True)
        self._text = QLabel(self)
        self._text.setProperty("role", "secondary")
        self._text.setWordWrap(True)
        self._keys = QLabel(self)
        self._keys.setTextFormat(Qt.TextFormat.RichText)
        self._run = QPushButton(self.tr("Run"), self)
        self._run.setProperty("primary", "true")
        self._run.setToolTip(self.tr("Run this flow with its sample input (F5)"))
        self._run.clicked.connect(self.run_requested)
        words = QVBoxLayout()
        words.setSpacing(6)
        for label in (self._title, self._text, self._keys):
            words.addWidget(label)
        words.insertSpacing(2, 4)
        row = QHBoxLayout(self)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(words, 1)
        row.addWidget(self._run, 0, Qt.AlignmentFlag.AlignTop)
        theme.changed.connect(self._restyle)
        self._restyle()

    def layout_height(self, width: int) -> int:
        """Height that all texts need at a width."""
        layout = self.layout()
        if layout is None:
            return self.sizeHint().height()
        layout.activate()  # texts that came or went count at once
        return layout.heightForWidth(width)

    def set_text(self, text: str) -> None:
        """Say what will answer."""
        self._text.setText(text)
        self._text.setVisible(bool(text))

    def set_compact(self, compact: bool) -> None:
        """Leave only the title and the button, or show all again."""
        self._text.setVisible(not compact and bool(self._text.text()))
        self._keys.setVisible(not compact)

    def _restyle(self) -> None:
        self._icon.setPixmap(theme.pixmap("run", 18, "accent", self.devicePixelRatioF()))
        self._title.setFont(theme.font(15, 600))
        self._text.setFont(theme.font(13))
        self._keys.setFont(theme.font(11))
        muted, secondary = theme.hex("muted"), theme.hex("text2")
        keys = (("F5", self.tr("Run")), ("Ctrl+K", self.tr("every command")))
        gap = "&nbsp;" * 4
        shown = (
            f'<span style="color:{muted}">{key}</span>&nbsp;&nbsp;<span style="color:{secondary}">{word}</span>'
            for key, word in keys
        )
        self._keys.setText(gap.join(shown))
        self._run.setIcon(theme.icon("run", 16, "on.fill", checked=None))
        margin = theme.px(16)
        layout = self.layout()
        if layout is not None:
            layout.setContentsMargins(margin, theme.px(12), margin, theme.px(12))
            layout.setSpacing(theme.px(12))


class OutputTip(FloatingPanel):
    """The beginning of an agent's last output, or what is wrong with it, below its card."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._canvas = parent
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._head = QLabel(self)
        self._head.setProperty("role", "muted")
        self._line = QLabel(self)
        self._line.setTextFormat(Qt.TextFormat.PlainText)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 6, 10, 7)
        column.setSpacing(2)
        column.addWidget(self._head)
        column.addWidget(self._line)
        self.hide()

    def show_at(self, place: QPointF, head: str, text: str, *, whole: bool = False) -> None:
        """Show head and text, cut to one line unless `whole`, centred below a point and within the canvas."""
        self._head.setFont(theme.font(11))
        self._line.setFont(theme.font(12))
        self._head.setText(head)
        self._line.setWordWrap(whole)
        self._line.setFixedWidth(theme.px(_TIP_WIDTH))
        self._line.setText(text if whole else elided(text, _TIP_WIDTH, 12))
        self.adjustSize()
        room = self._canvas.rect()
        x = min(max(4, round(place.x() - self.width() / 2)), max(4, room.width() - self.width() - 4))
        y = min(round(place.y()), room.height() - self.height() - 4)
        self.move(x, y)
        self.show()
        self.raise_()
