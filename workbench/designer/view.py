"""The canvas: mouse and keyboard over the scene. What a person wants changed is told by signals."""

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDragEnterEvent,
    QDragMoveEvent,
    QDropEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from workbench.designer.frame_edits import agents_inside
from workbench.designer.frame_gestures import MoveFrame, ResizeFrame
from workbench.designer.gestures import GRID, Gesture, Move, Pan, RubberBand
from workbench.designer.level import Level
from workbench.designer.link_gesture import DrawLink, OpenLink
from workbench.designer.link_hits import frame_at, link_at, link_end_at, port_at
from workbench.designer.placement import placed
from workbench.designer.scene import FlowScene, Mark
from workbench.designer.zoom_view import ZoomView
from workbench.widgets.dragged_flow import AGENT, FLOW, is_dragged, source_of

_WHEEL_STEP = 1.15
_DRAG_AFTER = 4
_LARGE_STEP = 10

_ARROWS = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}


class FlowView(ZoomView):
    """The canvas of a flow."""

    selection_wanted = Signal(object, str)
    """Names to select, and the one that gets the keyboard."""
    mark_wanted = Signal(object)
    """The link or frame to select instead, None for none."""
    grabbed = Signal(object)
    """These agents follow the mouse from now on."""
    let_go = Signal()
    """They do no more; whether they moved was told before."""
    agents_moved = Signal(object, bool)
    """New places by name; whether by arrow keys (steps that may be joined)."""
    next_wanted = Signal(int)
    """Step along the flow: 1 or -1."""
    walk_wanted = Signal(int, int, bool)
    """Step along the links, to the right and down; whether the selection is to grow."""
    add_wanted = Signal(QPointF, object)
    """Something is to be added at a place of the scene; the link (agent, port) it is to be put on, or None."""
    link_drawn = Signal(object)
    """A DrawnLink."""
    open_wanted = Signal(str)
    """An agent is to be edited in the inspector."""
    command_wanted = Signal(str)
    """A key asks for this command."""
    frame_moved = Signal(int, object, object)
    """Number of a frame, its new rectangle, new places of the agents that went along."""
    frame_open_wanted = Signal(int)
    """The title of this frame is to be edited."""
    flow_dropped = Signal(str, QPointF)
    """A flow was dragged here, to run as one node at this place of the scene."""
    agent_dropped = Signal(str, QPointF)
    """The file of a saved agent was dragged here, to be added at this place of the scene."""
    hover_changed = Signal(str)
    """Name of the agent under the mouse, empty for none."""
    menu_wanted = Signal(str, QPoint)
    """A context menu is wanted for this agent, empty for the canvas itself; where on the screen."""

    def __init__(self, scene: FlowScene, parent: QWidget | None = None) -> None:
        super().__init__(scene, parent)
        self._gesture: Gesture | None = None
        self._press: tuple[QPoint, str] | None = None
        self._grip: OpenLink | None = None
        """The port or end of a link that was pressed."""
        self._mark: Mark = None
        """The link or frame that was pressed."""
        self._space_held = self._space_used = False
        self._hovered = ""
        self.mouse_place: QPoint | None = None
        """Where the mouse is in the viewport, None while it is elsewhere."""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setAcceptDrops(True)

    # -- mouse ------------------------------------------------------------------------------------------------------

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom at the cursor; with Shift or a sideways wheel, scroll."""
        turn = event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier or abs(turn.x()) > abs(turn.y()):
            self.is_as_opened = False
            amount = turn.x() or turn.y()
            self.horizontalScrollBar().setValue(self.horizontalScrollBar().value() - amount)
        elif turn.y():
            self.zoom_to(self._zoom * _WHEEL_STEP ** (turn.y() / 120.0), event.position().toPoint())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a gesture, or select."""
        self._stop_travel()
        self.is_as_opened = False
        place = event.position().toPoint()
        if event.button() is Qt.MouseButton.MiddleButton or (
            event.button() is Qt.MouseButton.LeftButton and self._space_held
        ):
            self._gesture = Pan(self, place)
            self._space_used = True
            self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
        elif event.button() is Qt.MouseButton.LeftButton:
            at = self.mapToScene(place)
            item = self._scene.agent_at(at)
            name = item.name if item is not None else ""
            self._press = (place, name)
            self._grip = self._grip_at(at, name)
            if name:
                self._press_agent(name, _adds(event))
        event.accept()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Edit an agent or a frame's title; add an agent in the void, or on a link."""
        at = self.mapToScene(event.position().toPoint())
        if event.button() is not Qt.MouseButton.LeftButton or self._space_held:
            super().mouseDoubleClickEvent(event)
            return
        event.accept()
        item, frame = self._scene.agent_at(at), frame_at(self._scene, at)
        if item is not None:
            self.open_wanted.emit(item.name)
        elif frame is not None:
            self.frame_open_wanted.emit(frame.frame.index)
        else:
            link = link_at(self._scene, at)
            self.add_wanted.emit(at, (link.source, link.index) if link is not None else None)

    def _grip_at(self, at: QPointF, name: str) -> OpenLink | None:
        """The port or end of a link under the mouse. An arrow that stands before a port is the end of its link."""
        port = port_at(self._scene, at)
        if name and port is None:
            return None
        end = None if name else link_end_at(self._scene, at)
        arrow = port is not None and port.port is None and end is not None and end.port is not None
        return end if port is None or arrow else port

    def _begin(self, start: QPoint, name: str, adds: bool) -> Gesture:
        """The gesture that a drag from here is."""
        at = self.mapToScene(start)
        if self._grip is not None:
            return DrawLink(self, self._scene, self._grip, self.link_drawn.emit)
        if name and name in self._scene.selection:
            self.grabbed.emit(self._scene.selection)
            return Move(self, self._scene, start, name, self._moved)
        frame = None if name else frame_at(self._scene, at)
        if frame is not None:
            self.mark_wanted.emit(frame.frame.index)
            if frame.at_corner(at):
                return ResizeFrame(self, start, frame, self.frame_moved.emit)
            self.grabbed.emit(frozenset(agents_inside(self._scene.spec, frame.frame)))
            return MoveFrame(self, self._scene, start, frame, self.frame_moved.emit)
        kept = self._scene.selection if adds else frozenset()
        return RubberBand(self, self._scene, start, kept, self._select)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Feed the gesture, or follow the mouse's hovering."""
        place = self.mouse_place = event.position().toPoint()
        free = bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        if self._gesture is None and self._press is not None:
            start, name = self._press
            if (place - start).manhattanLength() < _DRAG_AFTER:
                return
            self._gesture = self._begin(start, name, _adds(event))
        if self._gesture is not None:
            self._gesture.move(place, free=free)
            return
        at = self.mapToScene(place)
        item = None if self._scene.level is Level.BOXES else self._scene.agent_at(at)
        self._hover(item.name if item is not None else "")
        self._show_cursor(at)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the gesture; a click into the void selects nothing."""
        if self._gesture is not None:
            gesture, self._gesture = self._gesture, None
            gesture.finish()
            self.let_go.emit()
            self._show_cursor()
        elif self._press is not None and not self._press[1] and not _adds(event):
            self._press_void(self.mapToScene(self._press[0]))
        self._press, self._grip = None, None
        event.accept()

    def _press_void(self, at: QPointF) -> None:
        """Select the link or frame under the mouse, else nothing."""
        self._select(frozenset())
        link, frame = link_at(self._scene, at), frame_at(self._scene, at)
        mark: Mark = None
        if link is not None:
            mark = (link.source, link.index)
        elif frame is not None:
            mark = frame.frame.index
        if mark is not None:
            self.mark_wanted.emit(mark)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of the agent under the mouse, or for a key of the current one."""
        place, name = event.pos(), ""
        if event.reason() is QContextMenuEvent.Reason.Keyboard:
            name = self._scene.current
            if name:
                place = self.mapFromScene(self._scene.agents[name].card_rect().center())
        elif (item := self._scene.agent_at(self.mapToScene(place))) is not None:
            name = item.name
        if self._gesture is None:
            if not name and event.reason() is QContextMenuEvent.Reason.Mouse:
                self._press_void(self.mapToScene(place))
            if name and name not in self._scene.selection:
                self.selection_wanted.emit(frozenset({name}), name)
            self.menu_wanted.emit(name, self.viewport().mapToGlobal(place))
        event.accept()

    def leaveEvent(self, event: QEvent) -> None:
        """Forget the hovering."""
        self._hover("")
        self.mouse_place = None
        super().leaveEvent(event)

    def _press_agent(self, name: str, adds: bool) -> None:
        selection = self._scene.selection
        if adds:
            self.selection_wanted.emit(selection ^ {name}, name)
        elif name not in selection:
            self.selection_wanted.emit(frozenset({name}), name)
        else:
            self.selection_wanted.emit(selection, name)

    def _select(self, names: Iterable[str]) -> None:
        self.selection_wanted.emit(frozenset(names), "")

    def _moved(self, places: object) -> None:
        self.agents_moved.emit(places, False)

    def _hover(self, name: str) -> None:
        if name == self._hovered:
            return
        for one, hovered in ((self._hovered, False), (name, True)):
            if one in self._scene.agents:
                self._scene.agents[one].set_hovered(hovered)
        self._hovered = name
        self.hover_changed.emit(name)

    def _show_cursor(self, at: QPointF | None = None) -> None:
        shape = Qt.CursorShape.ArrowCursor
        if self._space_held:
            shape = Qt.CursorShape.OpenHandCursor
        elif at is not None and port_at(self._scene, at) is not None:
            shape = Qt.CursorShape.CrossCursor
        elif at is not None and self._scene.frames.items() and (frame := frame_at(self._scene, at)) is not None:
            shape = Qt.CursorShape.SizeFDiagCursor if frame.at_corner(at) else Qt.CursorShape.SizeAllCursor
        if self.viewport().cursor().shape() is not shape:
            self.viewport().setCursor(shape)

    # -- dragged here -------------------------------------------------------------------------------------------------

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take flows and saved agents."""
        if is_dragged(event.mimeData()):
            event.acceptProposedAction()
        else:
            event.ignore()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        """Take them anywhere."""
        event.setAccepted(is_dragged(event.mimeData()))

    def dropEvent(self, event: QDropEvent) -> None:
        """Add the flow as a node, or the agent, here."""
        for kind, dropped in ((FLOW, self.flow_dropped), (AGENT, self.agent_dropped)):
            if source := source_of(event.mimeData(), kind):
                dropped.emit(source, self.mapToScene(event.position().toPoint()))
                event.acceptProposedAction()

    # -- keyboard ---------------------------------------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Take Tab for walking along the flow, except from its ends."""
        if event.type() is QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            step = {Qt.Key.Key_Tab: 1, Qt.Key.Key_Backtab: -1}.get(Qt.Key(event.key()), 0)
            if step and self._can_step(step):
                self.next_wanted.emit(step)
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk along links by arrow keys, with Alt move what is selected; cancel by Esc, pan while Space is held."""
        key = Qt.Key(event.key())
        if key is Qt.Key.Key_Escape:
            self._escape(event)
        elif key is Qt.Key.Key_Space:
            if not event.isAutoRepeat():
                self._space_held, self._space_used = True, self._gesture is not None
                self._show_cursor()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._scene.current:
            self.open_wanted.emit(self._scene.current)
        elif key is Qt.Key.Key_D and not event.modifiers():
            self.command_wanted.emit("bypass")
        elif key in _ARROWS and not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._press_arrow(_ARROWS[key], event.modifiers())
        else:
            super().keyPressEvent(event)

    def _press_arrow(self, way: tuple[int, int], modifiers: Qt.KeyboardModifier) -> None:
        grows = bool(modifiers & Qt.KeyboardModifier.ShiftModifier)
        if not modifiers & Qt.KeyboardModifier.AltModifier:
            self.walk_wanted.emit(*way, grows)
        elif self._scene.selection:
            step = GRID * (_LARGE_STEP if grows else 1)
            places = placed(self._scene.spec)  # where they belong: they may be on their way
            moved = {
                name: (places[name][0] + way[0] * step, places[name][1] + way[1] * step)
                for name in self._scene.selection
            }
            self.agents_moved.emit(moved, True)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """End panning by Space; Space without a drag adds an agent at the mouse."""
        if event.key() == Qt.Key.Key_Space and not event.isAutoRepeat():
            adds = self._space_held and not self._space_used
            self._space_held = False
            self._show_cursor()
            if adds:
                self.add_wanted.emit(self.place_to_add(), None)
        super().keyReleaseEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Entered by Tab: begin at the first or last agent."""
        super().focusInEvent(event)
        step = {Qt.FocusReason.TabFocusReason: 1, Qt.FocusReason.BacktabFocusReason: -1}.get(event.reason(), 0)
        if step and not self._scene.current:
            self.next_wanted.emit(step)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Forget a held Space."""
        self._space_held = False
        self._show_cursor()
        super().focusOutEvent(event)

    def _escape(self, event: QKeyEvent) -> None:
        if self._gesture is not None:
            gesture, self._gesture = self._gesture, None
            self._press, self._grip = None, None
            gesture.cancel()
            self.let_go.emit()
            self._show_cursor()
        elif self._scene.selection or self._scene.mark is not None:
            self._select(frozenset())
        else:
            event.ignore()

    def place_to_add(self) -> QPointF:
        """Where something new goes: under the mouse, else into the middle of what is seen."""
        place = self.mouse_place
        if place is None or not self.viewport().rect().contains(place):
            place = self.viewport().rect().center()
        return self.mapToScene(place)

    def _can_step(self, step: int) -> bool:
        """Whether there is an agent before or after the current one; else Tab leaves the canvas."""
        return bool(self._scene.agents) and self._scene.next_agent(step) is not None


def _adds(event: QMouseEvent) -> bool:
    modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    return bool(event.modifiers() & modifiers)
