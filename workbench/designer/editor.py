"""One flow's editor: the canvas, what floats over it, and the undo stack."""

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic

from PySide6.QtCore import (
    QEvent,
    QObject,
    QPointF,
    QRect,
    QRectF,
    QTimer,
    Signal,
)
from PySide6.QtGui import QHideEvent, QPixmapCache, QShowEvent, QUndoStack
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.errors import Problem
from engine.events import AnyEvent, ChunkReceived, RunStarted
from engine.flow.flow_spec import FlowSpec
from engine.flow.run_plan import PlannedAgent
from workbench.designer.agent_run import FrozenMark
from workbench.designer.canvas_commands import CanvasCommands
from workbench.designer.canvas_controls import FirstRunCard, Minimap, OutputTip, ZoomBar
from workbench.designer.card_content import FOOTER_HEIGHT
from workbench.designer.card_tip import card_tip
from workbench.designer.commands import EditFlow
from workbench.designer.edits import move_agents, renamed_agents
from workbench.designer.find_bar import FindBar
from workbench.designer.flow_document import FlowDocument
from workbench.designer.frame_edits import change_frame
from workbench.designer.frame_text import FrameText
from workbench.designer.glide import Glide
from workbench.designer.run_overlay import RunOverlay
from workbench.designer.scene import FlowScene, Mark
from workbench.designer.view import FlowView
from workbench.designer.walking import walked_to
from workbench.text_format import visible_text
from workbench.theme import theme
from workbench.widgets.empty_place import EmptyPlace

_FIGURES_MILLISECONDS = 100
_FRAME_MILLISECONDS = 33
_HOVER_MILLISECONDS = 400
_CARD_CACHE_KILOBYTES = 96 * 1024


class FlowEditor(QWidget):
    """Shows a flow on a canvas and lets a person select, move and, through the inspector, change its agents."""

    selection_changed = Signal(tuple)
    """Names of the selected agents, in the file's order."""
    marked = Signal()
    """A link or frame was selected, or is no more."""
    run_requested = Signal()
    """The first-start card's Run was pressed."""
    sample_requested = Signal(object)
    """A sample should be opened instead of this empty flow; the button pressed for it."""

    def __init__(self, document: FlowDocument, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        QPixmapCache.setCacheLimit(max(QPixmapCache.cacheLimit(), _CARD_CACHE_KILOBYTES))
        self.document = document
        self.undo_stack = QUndoStack(self)
        self._overlay = RunOverlay()
        self.scene = FlowScene(document.spec, self._overlay, self)
        self.view = FlowView(self.scene, self)
        self.setFocusProxy(self.view)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.view)
        self._selected: tuple[str, ...] = ()
        self._hovered = ""
        self._opened = False
        self._glide = Glide(self.scene, self)
        self.commands = CanvasCommands(self)
        self._build_floating()
        self._figures = self._timer(_FIGURES_MILLISECONDS, self._show_figures)
        self._frames = self._timer(_FRAME_MILLISECONDS, self._show_frame)
        self._hover_wait = self._timer(_HOVER_MILLISECONDS, self._show_tip)
        self._hover_wait.setSingleShot(True)
        self._connect()
        self._describe()

    # -- editing ----------------------------------------------------------------------------------------------------

    def edit(self, text: str, spec: FlowSpec, merge_key: str | None = None) -> None:
        """Make an undoable edit; edits in a row with the same merge key are one step."""
        if spec != self.document.spec:
            self.undo_stack.push(EditFlow(self.document, text, spec, merge_key))
            if self._first_run.isVisibleTo(self):  # who edits needs the place
                self.show_first_run(None)

    def selected(self) -> tuple[str, ...]:
        """Names of the selected agents, in the file's order."""
        return self._selected

    def select(self, names: Iterable[str]) -> None:
        """Select exactly these agents; unknown names are passed over."""
        wanted = frozenset(names)
        self._select(wanted, next(iter(wanted)) if len(wanted) == 1 else "")

    def select_all(self) -> None:
        """Select every agent."""
        self._select(self.scene.agents, self.scene.current)

    def select_none(self) -> None:
        """Select no agent: the inspector shows the flow itself."""
        self._select((), "")

    def mark(self, mark: Mark) -> None:
        """Select a link or a frame instead of agents; None for none."""
        if mark is not None and self._selected:
            self._select((), "")
        self.scene.set_mark(mark)
        self.marked.emit()
        self._describe()

    def walk(self, right: int, down: int, grows: bool) -> None:
        """Select the agent that links, or the place on the canvas, lead to from the current one."""
        places = {name: (item.x(), item.y()) for name, item in self.scene.agents.items()}
        current = self.scene.current or (self._selected[0] if self._selected else "")
        name = walked_to(self.document.spec, places, current, right, down)
        if name:
            self._select({name, *self._selected} if grows else {name}, name)
            self.view.reveal(self.scene.agents[name].card_rect())

    def select_next(self, step: int = 1) -> None:
        """Select the next (1) or previous (-1) agent along the flow and show it."""
        name = self.scene.next_agent(step)
        if name is not None:
            self._select({name}, name)
            self.view.reveal(self.scene.agents[name].card_rect())

    def reveal(self, name: str) -> None:
        """Select an agent and bring it into view."""
        if name in self.scene.agents:
            self._select({name}, name)
            self.view.reveal(self.scene.agents[name].card_rect())

    def glide(self, before: Mapping[str, tuple[float, float]]) -> None:
        """Show agents on their way from where they were to where they are."""
        if self.isVisible():
            self._glide.start(before)

    # -- looking ----------------------------------------------------------------------------------------------------

    def fit_all(self) -> None:
        """Show the whole flow."""
        self.view.fit(_with_footers(self.scene.extent()))

    def fit_selection(self) -> None:
        """Show the selected agents, or the whole flow when there are none."""
        area = self.scene.extent_of(self._selected) if self._selected else self.scene.extent()
        self.view.fit(_with_footers(area))

    def zoom_in(self) -> None:
        """Show the flow larger."""
        self.view.zoom_in()

    def zoom_out(self) -> None:
        """Show the flow smaller."""
        self.view.zoom_out()

    def zoom_reset(self) -> None:
        """Show the flow at 100 %."""
        self.view.zoom_to(1.0)

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Mark the agents that have faults."""
        self.scene.show_problems(problems)

    def show_first_run(self, text: str | None) -> None:
        """Offer the first run, saying what will answer; None takes the offer away."""
        self._first_run.setVisible(text is not None)
        if text is not None:
            self._first_run.set_text(text)
        self._arrange()
        if text is not None:  # when the offer goes, a run begins: nothing may jump then
            self._keep_as_opened()
        self._follow_view()

    # -- the run ----------------------------------------------------------------------------------------------------

    def apply_event(self, event: AnyEvent) -> None:
        """Show what an event changes, at the next tick."""
        self._overlay.apply(event)
        if isinstance(event, ChunkReceived):
            return  # thousands a second: the running timer shows them
        if isinstance(event, RunStarted):
            self.show_first_run(None)
        if not self._figures.isActive():
            self._figures.start()
        self._set_frames()

    def clear_run(self) -> None:
        """Show the flow at rest."""
        self._overlay.clear()
        self._show_figures()

    @property
    def overlay(self) -> RunOverlay:
        """The run as it stands."""
        return self._overlay

    def show_overlay(self, overlay: RunOverlay) -> None:
        """Show this state of the run from now on: one of its passes, or how it stands."""
        self.scene.show_overlay(overlay)
        self.minimap.redraw()

    def show_frozen(self, marks: Mapping[str, FrozenMark]) -> None:
        """Mark exactly these agents as frozen."""
        self._overlay.freeze(marks)
        self._show_figures()

    def show_planned(self, agents: Mapping[str, PlannedAgent]) -> None:
        """Tint the agents that a run would reach; with none of them, none."""
        self._overlay.plan(agents)
        self._show_figures()

    @property
    def is_animating(self) -> bool:
        """Whether something moves on the canvas."""
        return self._frames.isActive()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _build_floating(self) -> None:
        # Not children of the viewport: scrolling a viewport moves its children along.
        canvas = self.view
        self._zoom_bar = ZoomBar(self.view, canvas)
        self.minimap = Minimap(self.view, self.scene, canvas)
        self._first_run = FirstRunCard(canvas)
        self._first_run.hide()
        text = self.tr("Double-click or press Space to add the first agent.")
        self._empty = EmptyPlace("flow", self.tr("Empty flow"), text, canvas)
        add = self._empty.add_button(self.tr("Add agent"), "plus")
        add.clicked.connect(lambda: self.commands.palettes.add())
        self._empty.installEventFilter(self)
        sample = self._empty.add_button(self.tr("Start from a sample"))
        sample.clicked.connect(lambda: self.sample_requested.emit(sample))
        self._tip = OutputTip(canvas)
        self.find_bar = FindBar(self, canvas)
        self.frame_text = FrameText(self, canvas)
        canvas.viewport().installEventFilter(self)

    def _connect(self) -> None:
        self.document.spec_changed.connect(self._spec_changed)
        self.view.selection_wanted.connect(self._select)
        self.view.agents_moved.connect(self._move)
        self.view.grabbed.connect(self._glide.grab)
        self.view.let_go.connect(self._glide.let_go)
        self.view.next_wanted.connect(self.select_next)
        self.view.mark_wanted.connect(self.mark)
        self.view.walk_wanted.connect(self.walk)
        self.view.frame_moved.connect(self._move_frame)
        self.commands.find_wanted.connect(self.find_bar.open)
        self.commands.frame_text_wanted.connect(self.frame_text.open)
        self.view.hover_changed.connect(self._hover)
        self.view.view_changed.connect(self._follow_view)
        self.scene.extent_changed.connect(self._follow_extent)
        self._zoom_bar.fit.clicked.connect(self.fit_all)
        self._first_run.run_requested.connect(self.run_requested)
        theme.changed.connect(self._theme_changed)

    def _timer(self, milliseconds: int, then: object) -> QTimer:
        timer = QTimer(self)
        timer.setInterval(milliseconds)
        timer.timeout.connect(then)
        return timer

    def _spec_changed(self, before: FlowSpec, after: FlowSpec) -> None:
        self._glide.end()
        renamed = renamed_agents(before, after)
        selected = [renamed.get(name, name) for name in self._selected]
        current = renamed.get(self.scene.current, self.scene.current)
        self._overlay.rename(renamed)
        self.scene.set_spec(after)
        self._select(selected, current)
        self._follow_view()

    def _select(self, names: Iterable[str], current: str) -> None:
        wanted = set(names)
        selected = tuple(name for name in self.scene.agents if name in wanted)
        mark = self.scene.mark
        if mark is not None and (selected or not self._still_there(mark)):
            self.scene.set_mark(None)
            self.marked.emit()
        self.scene.set_selection(selected, current if current in self.scene.agents else "")
        if selected != self._selected:
            self._selected = selected
            self.selection_changed.emit(selected)
        self._describe()

    def _move(self, places: Mapping[str, tuple[float, float]], by_keys: bool) -> None:
        names = sorted(places)
        text = self.tr("Move %1").replace("%1", names[0]) if len(names) == 1 else self.tr("Move agents")
        merge_key = f"move:{'/'.join(names)}" if by_keys else None
        self.edit(text, move_agents(self.document.spec, places), merge_key)

    def _still_there(self, mark: Mark) -> bool:
        if isinstance(mark, int):
            return self.scene.frames.item(mark) is not None
        return mark is not None and self.scene.link(*mark) is not None

    def _move_frame(self, index: int, rect: QRectF, places: Mapping[str, tuple[float, float]]) -> None:
        numbers = (rect.x(), rect.y(), rect.width(), rect.height())
        self.edit(self.tr("Move frame"), change_frame(move_agents(self.document.spec, places), index, rect=numbers))

    def _describe(self) -> None:
        """Tell screen readers what is shown and selected."""
        self.view.setAccessibleName(self.tr("Flow %1").replace("%1", self.document.title))
        chosen = ", ".join(self._selected[:5]) or self.tr("none")
        if len(self._selected) > 5:
            more = str(len(self._selected) - 5)
            chosen = self.tr("%1 and %2 more").replace("%2", more).replace("%1", chosen)
        description = self.tr("%1 agents, selected: %2").replace("%1", str(len(self.scene.agents)))
        self.view.setAccessibleDescription(description.replace("%2", chosen))

    def _show_figures(self) -> None:
        self.scene.show_run_changes()
        self.minimap.redraw()
        if not self._overlay.is_active:
            self._figures.stop()
        self._set_frames()

    def _show_frame(self) -> None:
        self.scene.animate(monotonic())

    def _set_frames(self) -> None:
        """Animate only while something runs, can be seen, and motion is welcome."""
        wanted = self._overlay.is_active and self.isVisible() and not theme.reduced_motion
        if wanted is not self._frames.isActive():
            self._frames.start() if wanted else self._frames.stop()

    def _hover(self, name: str) -> None:
        self._hovered = name
        self._tip.hide()
        self._hover_wait.stop()
        if name:
            self._hover_wait.start()

    def _show_tip(self) -> None:
        item = self.scene.agents.get(self._hovered)
        if item is None:
            return
        overlay = self.scene.overlay
        tip = card_tip(
            overlay.agent(self._hovered), self.scene.problem(self._hovered), overlay.frozen.get(self._hovered)
        )
        if tip is None:
            return
        card = item.card_rect()
        below = self.view.mapFromScene(card.center().x(), card.bottom() + 2.0)
        self._tip.show_at(QPointF(below), tip.head, visible_text(tip.text), whole=tip.whole)

    def _theme_changed(self) -> None:
        self._set_frames()
        self._arrange()
        self._keep_as_opened()
        self._follow_view()

    def _keep_as_opened(self) -> None:
        """Until somebody takes hold of the view, show the flow as it would open now."""
        if self.view.is_as_opened:
            self._open_view()

    def _follow_view(self) -> None:
        self._tip.hide()
        extent, visible = self.scene.extent(), self.view.visible_area()
        self.scene.lay(visible)
        self._empty.setVisible(not self.scene.agents)
        self._zoom_bar.setVisible(bool(self.scene.agents) and self._has_room(self._zoom_bar))
        shown = not extent.isEmpty() and not visible.contains(extent) and self._has_room(self.minimap)
        self.minimap.setVisible(shown)
        if shown:
            self.minimap.update()

    def _follow_extent(self) -> None:
        self._arrange()
        self.minimap.redraw()
        self._follow_view()

    def _arrange(self) -> None:
        """Put what floats where it belongs."""
        room, margin = self.view.viewport().rect(), theme.px(10)
        self._zoom_bar.adjustSize()
        self._zoom_bar.move(margin, room.height() - self._zoom_bar.height() - margin)
        self.minimap.fit_size()
        self.minimap.move(room.width() - self.minimap.width() - margin, room.height() - self.minimap.height() - margin)
        size = self._empty.sizeHint().boundedTo(room.size())
        self._empty.setGeometry(
            (room.width() - size.width()) // 2, (room.height() - size.height()) // 2, size.width(), size.height()
        )
        self.find_bar.place()
        offered = self._first_run.isVisibleTo(self)
        card = self._first_run_place(room, self._zoom_bar.width() + 2 * margin, margin)
        self._first_run.setGeometry(card)
        corners = [QRect() if not self._has_room(part) else part.geometry() for part in (self._zoom_bar, self.minimap)]
        self.view.keep_free_below(room.height() - card.top() if offered else 0, corners[0], corners[1])

    def _first_run_place(self, room: QRect, beside: int, margin: int) -> QRect:
        """In the middle; on a narrow canvas beside the zoom bar, on a very narrow one instead of it."""
        widest = theme.px(670)
        width = min(widest, room.width() - 2 * beside)
        left = (room.width() - width) // 2
        if width < theme.px(320):
            left, width = beside, min(widest, room.width() - beside - margin)
        if width < theme.px(240):
            left, width = margin, room.width() - 2 * margin
        lowest = theme.px(4)
        self._first_run.set_compact(False)
        height = self._first_run.layout_height(width)
        if height > room.height() / 2:
            self._first_run.set_compact(True)
            height = self._first_run.layout_height(width)
        # On a canvas that is too low even so, its foot is cut, not its button.
        top = max(lowest, room.height() - height - theme.px(16))
        return QRect(left, top, width, height)

    def _has_room(self, part: QWidget) -> bool:
        """Whether something in a corner leaves most of the canvas free, and the first-start card is not there."""
        if self._first_run.isVisibleTo(self) and self._first_run.geometry().intersects(part.geometry()):
            return False
        return self.view.viewport().height() >= 2.5 * part.height()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep what floats in its corner when the canvas changes size."""
        if watched is self._empty:
            if event.type() is QEvent.Type.MouseButtonDblClick:
                self.commands.palettes.add()
        elif event.type() is QEvent.Type.Resize:
            self._arrange()
            self._keep_as_opened()
            self._follow_view()
        return super().eventFilter(watched, event)

    def showEvent(self, event: QShowEvent) -> None:
        """Open on the flow, the first time."""
        super().showEvent(event)
        if not self._opened:
            self._opened = True
            # The viewport has its size only after the layout did its work.
            QTimer.singleShot(0, self, self._open)
        self._set_frames()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop moving what nobody sees."""
        super().hideEvent(event)
        self._set_frames()

    def _open(self) -> None:
        self._arrange()
        self._keep_as_opened()
        self._follow_view()

    def _open_view(self) -> None:
        start = self.scene.agents.get(self.document.spec.start) or next(iter(self.scene.agents.values()), None)
        if start is not None:
            self.view.open_on(_with_footers(self.scene.extent()), start.card_rect())


def _with_footers(area: QRectF) -> QRectF:
    """The area of cards with room for the footers that a run gives them."""
    return area if area.isEmpty() else area.adjusted(0.0, 0.0, 0.0, FOOTER_HEIGHT)
