"""The canvas's scene: mirrors the flow as items, shows selection and run. It never edits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from PySide6.QtCore import QLineF, QObject, QPointF, QRectF, Qt, Signal
from PySide6.QtWidgets import QGraphicsItem, QGraphicsScene

from engine.errors import Problem
from engine.flow.flow_spec import AgentSpec, FlowSpec
from workbench.designer.agent_run import LinkRun
from workbench.designer.card_content import CARD_WIDTH, card_content
from workbench.designer.card_grid import CardGrid
from workbench.designer.far_links import FarLinks
from workbench.designer.frame_edits import frames_of
from workbench.designer.frame_item import FrameLayer
from workbench.designer.guides import Guides
from workbench.designer.items import AgentItem, OverviewItem
from workbench.designer.level import Level
from workbench.designer.links import LINK_DATA, LinkPicture, goes_back, loop_top
from workbench.designer.placement import flow_order, placed
from workbench.designer.run_overlay import RunOverlay
from workbench.theme import theme

Mark = tuple[str, int] | int | None
"""A selected link (agent and port it leaves), the number of a selected frame, or None."""

ROOM = 20_000.0
"""Scene units around the flow into which the view can be moved."""
_NEAR = 600.0
"""Links up to this long, in scene units, are drawn only when one of their ends comes near the view."""
_MANY = 100
"""Agents that move at once whose links are all drawn anew; of more, those that can be seen."""


class FlowScene(QGraphicsScene):
    """Items by agent name, links by the agents they touch."""

    extent_changed = Signal()
    """Agents came, went or moved."""

    def __init__(self, spec: FlowSpec, overlay: RunOverlay, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._overlay = overlay
        self._spec = spec
        self._agents: dict[str, AgentItem] = {}
        self._links: dict[str, list[LinkPicture]] = {}
        """Every link under its source and under its target."""
        self._selection: frozenset[str] = frozenset()
        self._current = ""
        self._mark: Mark = None
        self.frames = FrameLayer(self)
        """The comment frames."""
        self._level = Level.FULL
        self._problems: Mapping[str, Problem] = {}
        self._grid = CardGrid()
        self.guides = Guides(self)
        self._extent: QRectF | None = None
        self._laid = QRectF()
        """Where all links that can be seen are drawn for the present level."""
        self._seen = QRectF()
        """The area that was to be laid last."""
        self._far = FarLinks(self._draw_link, self._settle, self)
        self._flowing: set[LinkPicture] = set()
        self._overview = OverviewItem()
        self.overview = QGraphicsScene(self)
        """Shown instead of this scene from far away: hiding thousands of items would take longer than drawing them."""
        self.overview.addItem(self._overview)
        self._fill(spec)
        theme.changed.connect(self.refresh)

    # -- asking -----------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> FlowSpec:
        """The flow on show."""
        return self._spec

    @property
    def mark(self) -> Mark:
        """The link or frame that is selected."""
        return self._mark

    @property
    def agents(self) -> Mapping[str, AgentItem]:
        """Items by name, in the file's order."""
        return self._agents

    @property
    def selection(self) -> frozenset[str]:
        """Names of the selected agents."""
        return self._selection

    @property
    def current(self) -> str:
        """The agent that has the keyboard, empty for none."""
        return self._current

    @property
    def level(self) -> Level:
        """The level of detail shown."""
        return self._level

    def problem(self, name: str) -> Problem | None:
        """The gravest fault of an agent."""
        return self._problems.get(name)

    def links_of(self, name: str) -> Sequence[LinkPicture]:
        """The links that start or end at an agent."""
        return self._links.get(name, ())

    def extent(self) -> QRectF:
        """What all agents and the loops over them cover."""
        if self._extent is None:
            rect = QRectF()
            for item in self._agents.values():
                rect |= item.card_rect()
            for link in self._each_link():
                if link.is_loop:
                    rect |= link.bounds()
            self._extent = rect | self.frames.extent()
        return self._extent

    def extent_of(self, names: Iterable[str]) -> QRectF:
        """What some agents cover."""
        rect = QRectF()
        for name in names:
            rect |= self._agents[name].card_rect()
        return rect

    def agent_at(self, place: QPointF) -> AgentItem | None:
        """The card under a point."""
        if self._level is Level.BOXES:
            return next((item for item in reversed(self._agents.values()) if item.card_rect().contains(place)), None)
        for item in self.items(place, Qt.ItemSelectionMode.IntersectsItemBoundingRect):
            if isinstance(item, AgentItem) and item.card_rect().contains(place):
                return item
        return None

    def next_agent(self, step: int) -> str | None:
        """The agent after (1) or before (-1) the current one along the flow, None at the ends."""
        order = flow_order(self._spec)
        if self._current not in order:
            return order[0 if step > 0 else -1] if order else None
        index = order.index(self._current) + step
        return order[index] if 0 <= index < len(order) else None

    def agents_in(self, area: QRectF) -> frozenset[str]:
        """Names of the agents whose cards an area touches."""
        return frozenset(name for name, item in self._agents.items() if item.card_rect().intersects(area))

    # -- mirroring the flow -----------------------------------------------------------------------------------------

    def set_spec(self, spec: FlowSpec) -> None:
        """Follow the flow: only what differs from before is touched."""
        before, self._spec = self._spec, spec
        old, new = _by_name(before), _by_name(spec)
        touched = self._exchange(spec, old, new) if list(old) != list(new) else set()
        marked = {before.start, spec.start} if before.start != spec.start else set()
        marked |= set(before.editor.breakpoints) ^ set(spec.editor.breakpoints)
        for name, agent in new.items():
            if name in old and (old[name] is not agent or name in marked):
                self._change(agent)
                touched.add(name)
        if before.editor.frames is not spec.editor.frames:
            self._show_frames()
        for name, place in placed(spec).items():
            item = self._agents[name]
            if (item.x(), item.y()) != place:
                item.setPos(*place)
                touched.add(name)
        if touched:
            self._place_links(touched)
            self._settle()

    def move_for_now(self, places: Mapping[str, tuple[float, float]]) -> None:
        """Show agents elsewhere while they are dragged; the flow does not change."""
        for name, place in places.items():
            self._agents[name].setPos(*place)
        self._place_links(set(places))
        self._extent = None
        if self._level is Level.BOXES:
            self._rebuild_overview()

    def _show_frames(self) -> None:
        self.frames.show_frames(frames_of(self._spec))
        if isinstance(self._mark, int) and self.frames.item(self._mark) is None:
            self._mark = None
        self._settle()

    def _exchange(self, spec: FlowSpec, old: Mapping[str, AgentSpec], new: Mapping[str, AgentSpec]) -> set[str]:
        """Take out the agents that went and put in those that came; which ones have to be linked anew."""
        for name in old.keys() - new.keys():
            for link in list(self.links_of(name)):
                self._remove_link(link)
            self.removeItem(self._agents.pop(name))
            self._links.pop(name, None)
            self._grid.remove(name)
        came = new.keys() - old.keys()
        places = placed(spec) if came else {}
        for name in came:
            self._add_item(new[name], places[name])
        self._agents = {name: self._agents[name] for name in new}
        # A route may have named an agent before it was there.
        waiting = [
            name
            for name, item in self._agents.items()
            if name in came or any(port.target in came for port in item.content.ports)
        ]
        for name in waiting:
            for link in [link for link in self.links_of(name) if link.source == name]:
                self._remove_link(link)
            self._add_links(name)
        for name in came:
            self._restore_agent(name)
        self.show_link_runs(waiting)
        return set(waiting)

    def _add_item(self, agent: AgentSpec, place: tuple[float, float]) -> None:
        item = AgentItem(card_content(self._spec, agent))
        item.setPos(*place)
        item.level = self._level
        self.addItem(item)
        self._agents[agent.name] = item

    def _fill(self, spec: FlowSpec) -> None:
        places = placed(spec)
        for name, agent in _by_name(spec).items():
            self._add_item(agent, places[name])
        self._show_frames()
        for name in self._agents:
            self._add_links(name)
        for name, item in self._agents.items():
            self._grid.place(name, item.resting_rect())
        for link in self._far_links(self._each_link()):
            self._draw_link(link)
        self._laid = QRectF()
        self._settle()

    def _restore_agent(self, name: str) -> None:
        """Put what is not of the file back onto a new item."""
        item = self._agents[name]
        if name in self._problems:
            item.set_problem(self._problems[name].severity)
        if name in self._selection or name == self._current:
            item.set_marks(selected=name in self._selection, current=name == self._current)
        self._show_agent(name)

    def _change(self, agent: AgentSpec) -> None:
        item = self._agents[agent.name]
        before, content = item.content, card_content(self._spec, agent)
        item.set_content(content)
        self._show_agent(agent.name)
        if before.ports != content.ports:
            for link in [link for link in self.links_of(agent.name) if link.source == agent.name]:
                self._remove_link(link)
            self._add_links(agent.name)
            self.show_link_runs([agent.name])

    def _add_links(self, source: str) -> None:
        for index, port in enumerate(self._agents[source].content.ports):
            if port.target is None or port.target not in self._agents:
                continue
            link = LinkPicture(source, index, port, port.target)
            link.marked = (source, index) == self._mark
            link.show_pill(self._level is Level.FULL)
            self._links.setdefault(source, []).append(link)
            if port.target != source:
                self._links.setdefault(port.target, []).append(link)

    def _remove_link(self, link: LinkPicture) -> None:
        link.remove(self)
        self._flowing.discard(link)
        self._far.drop(link)
        for name in {link.source, link.target}:
            self._links[name].remove(link)

    def _place_links(self, names: set[str]) -> None:
        """Draw the links of agents that moved or changed their height; of many only those that can be seen."""
        for name in names:
            self._grid.place(name, self._agents[name].resting_rect())
        links = {link for name in names for link in self._links.get(name, ())}
        if len(names) <= _MANY:
            for link in links:
                self._draw_link(link)
            return
        for link in links:
            link.wait()
        self._laid = QRectF()
        self.lay(self._seen)
        self._far.start(self._far_links(links))

    def _far_links(self, links: Iterable[LinkPicture]) -> Iterator[LinkPicture]:
        """Those that can be seen while both their ends are out of sight; `lay` draws the others."""
        places = {name: (item.x(), item.y()) for name, item in self._agents.items()}
        for link in links:
            (x, y), (to_x, to_y) = places[link.source], places[link.target]
            if link.source == link.target or not 0.0 <= to_x - x <= _NEAR or abs(to_y - y) > _NEAR:
                yield link

    def _draw_link(self, link: LinkPicture) -> None:
        source, target = self._agents[link.source], self._agents[link.target]
        start, end = source.out_port(link.index), target.in_port()
        top = None
        if source is target or goes_back(start, end):
            top = loop_top(start, end, min(source.y(), target.y()), self._grid)
        link.level = self._level
        link.draw(self, start, end, top)

    def _settle(self) -> None:
        self._extent = None
        room = self.extent().adjusted(-ROOM, -ROOM, ROOM, ROOM)
        self.setSceneRect(room)
        self.overview.setSceneRect(room)
        if self._level is Level.BOXES:
            self._rebuild_overview()
        self.extent_changed.emit()

    # -- selection --------------------------------------------------------------------------------------------------

    def set_selection(self, names: Iterable[str], current: str) -> None:
        """Mark the selected agents and the one that has the keyboard."""
        before = self._selection | {self._current}
        self._selection, self._current = frozenset(names), current
        for name in before | self._selection | {current}:
            item = self._agents.get(name)
            if item is not None:
                item.set_marks(selected=name in self._selection, current=name == current)
        if self._level is Level.BOXES:
            self._rebuild_overview()

    def set_mark(self, mark: Mark) -> None:
        """Show which link or frame is selected."""
        before, self._mark = self._mark, mark
        for one, marked in ((before, False), (mark, True)):
            if isinstance(one, int):
                frame = self.frames.item(one)
                if frame is not None:
                    frame.set_marked(marked)
            elif one is not None and (link := self.link(*one)) is not None:
                link.marked = marked
                link.refresh()

    def link(self, source: str, port: int) -> LinkPicture | None:
        """The link that leaves an agent by a port."""
        return next((one for one in self.links_of(source) if (one.source, one.index) == (source, port)), None)

    def link_of_line(self, item: QGraphicsItem) -> LinkPicture | None:
        """The link that an item is the line of."""
        key = item.data(LINK_DATA)
        return self.link(*key) if key is not None else None

    def show_link(self, source: str, port: int, *, shown: bool) -> None:
        """Hide a link while its end is dragged elsewhere."""
        link = self.link(source, port)
        if link is not None:
            link.set_shown(shown)

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Mark agents that have faults; an error outweighs warnings."""
        marks: dict[str, Problem] = {}
        for problem in problems:
            known = marks.get(problem.agent)
            if problem.agent and (known is None or (known.severity, problem.severity) == ("warning", "error")):
                marks[problem.agent] = problem
        for name in self._problems.keys() | marks.keys():
            if name in self._agents:
                self._agents[name].set_problem(marks[name].severity if name in marks else "")
        self._problems = marks
        if self._level is Level.BOXES:
            self._rebuild_overview()

    # -- the run ----------------------------------------------------------------------------------------------------

    def show_overlay(self, overlay: RunOverlay) -> None:
        """Show another state of the run from now on."""
        before, self._overlay = self._overlay, overlay
        overlay.take_changes()
        for name in {**before.agents, **overlay.agents, **before.frozen, **overlay.frozen}:
            self._show_agent(name)
        self.show_link_runs({source for source, _, _ in (*before.links, *overlay.links)})
        if self._level is Level.BOXES:
            self._rebuild_overview()

    @property
    def overlay(self) -> RunOverlay:
        """The state of the run that is shown."""
        return self._overlay

    def show_run_changes(self) -> None:
        """Show what the run changed since the last call, and time going on."""
        names, links = self._overlay.take_changes()
        for name in names | set(self._overlay.running_agents()):
            self._show_agent(name)
        if links:
            self.show_link_runs({source for source, _, _ in links})
        if names and self._level is Level.BOXES:
            self._rebuild_overview()

    def show_link_runs(self, sources: Iterable[str] | None = None) -> None:
        """Show on the links of some agents, or of all that ran, how many contexts went along."""
        wanted = None if sources is None else set(sources)
        totals: dict[tuple[str, int], LinkRun] = {}
        for (source, target, verdict), run in self._overlay.links.items():
            index = self._port_index(source, target, verdict) if wanted is None or source in wanted else None
            if index is not None:
                total = totals.setdefault((source, index), LinkRun())
                total.count += run.count
                total.flowing += run.flowing
                total.ungraded += run.ungraded
        for name in {source for source, _ in totals} if wanted is None else wanted:
            for link in self.links_of(name):
                if link.source == name:
                    run = totals.get((name, link.index), LinkRun())
                    link.show_run(run)
                    (self._flowing.add if run.flowing else self._flowing.discard)(link)

    def animate(self, seconds: float) -> None:
        """Move what moves: spinners (1 s a turn), halos (1.6 s), dots (0.9 s along a link)."""
        glow = abs(2.0 * ((seconds / 1.6) % 1.0) - 1.0)
        for name in self._overlay.running_agents():
            if name in self._agents:
                self._agents[name].animate(seconds % 1.0, 0.35 + 0.65 * glow)
        for link in self._flowing:
            link.advance((seconds / 0.9) % 1.0)

    def _show_agent(self, name: str) -> None:
        item = self._agents.get(name)
        if item is not None:
            run = self._overlay.agent(name)
            item.show_run(run, self._overlay.elapsed(run), self._overlay.frozen.get(name))

    def _port_index(self, source: str, target: str | None, verdict: bool | None) -> int | None:
        """Which of an agent's ports a context took; the verdict tells ports with the same target apart."""
        item = self._agents.get(source)
        ports = item.content.ports if item is not None else ()
        matches = [index for index, port in enumerate(ports) if port.target == target]
        if verdict is False:
            matches.sort(key=lambda index: not ports[index].is_feedback)
        return matches[0] if matches else None

    # -- level of detail --------------------------------------------------------------------------------------------

    def set_level(self, level: Level) -> None:
        """Draw cards, titles or boxes."""
        if level is self._level:
            return
        self._level = level
        if level is Level.BOXES:
            self._rebuild_overview()
            return
        for item in self._agents.values():
            item.set_level(level)
        for link in self._each_link():
            link.show_pill(level is Level.FULL)
        self._laid = QRectF()

    def lay(self, area: QRectF) -> None:
        """Draw the links that can be seen in an area, to the ports of the present level; others wait until they can."""
        self._seen = area
        if self._level is Level.BOXES or self._laid.contains(area):
            return
        self._laid = area.adjusted(-_NEAR, -_NEAR, _NEAR, _NEAR)
        around = self._laid.adjusted(-_NEAR, -_NEAR, _NEAR, _NEAR)
        for item in self.items(around, Qt.ItemSelectionMode.IntersectsItemBoundingRect):
            if isinstance(item, AgentItem):
                for link in self.links_of(item.name):
                    if link.level is not self._level:
                        self._draw_link(link)

    def refresh(self) -> None:
        """Paint everything in the present colours."""
        for item in self._agents.values():
            item.refresh()
        for link in self._each_link():
            link.refresh()
        self._overview.update()

    def _rebuild_overview(self) -> None:
        lines: list[QLineF] = []
        for link in self._each_link():
            source, target = self._agents[link.source], self._agents[link.target]
            start = QPointF(source.x() + CARD_WIDTH, source.y() + source.content.body_height / 2)
            end = QPointF(target.x(), target.y() + target.content.body_height / 2)
            lines += link.straight(start, end)
        self._overview.rebuild(self._agents.values(), lines, self.extent())

    def _each_link(self) -> Iterable[LinkPicture]:
        for name, links in self._links.items():
            for link in links:
                if link.source == name:
                    yield link


def _by_name(spec: FlowSpec) -> dict[str, AgentSpec]:
    """The agents in the file's order; of those with the same name, a fault that Problems tells, the first one."""
    agents: dict[str, AgentSpec] = {}
    for agent in spec.agents:
        agents.setdefault(agent.name, agent)
    return agents
