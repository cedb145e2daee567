"""The lists that open on the canvas: what to add, what to connect to, which link to remove, which flow to run."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, QPoint, QPointF

from engine.flow.flow_spec import AgentSpec, FlowSpec
from workbench.agent_library import SavedAgent
from workbench.designer.agent_edits import paste_part, way_out
from workbench.designer.agent_kinds import additions, subflow_part
from workbench.designer.auto_layout import COLUMN_STEP
from workbench.designer.card_content import Port, card_content, icon_name
from workbench.designer.link_edits import (
    add_route,
    connect,
    disconnect,
    insert_between,
    links_of,
    may_add_route,
    may_connect,
)
from workbench.designer.link_gesture import OpenLink
from workbench.widgets.search_palette import Choice, SearchPalette

if TYPE_CHECKING:
    from workbench.designer.editor import FlowEditor

FlowChoices = Callable[[], Sequence[tuple[str, str]]]
"""Title and source of the flows that can run as nodes."""


class Palettes(QObject):
    """Opens them for one editor."""

    def __init__(self, editor: "FlowEditor", parent: QObject) -> None:
        super().__init__(parent)
        self._editor = editor
        self._palette: SearchPalette | None = None
        self.flows: FlowChoices = tuple
        self.saved: Callable[[], Sequence[SavedAgent]] = tuple
        """The agents that the person saved."""

    @property
    def open_palette(self) -> SearchPalette | None:
        """The list on show."""
        return self._palette if self._palette is not None and self._palette.isVisible() else None

    @property
    def _spec(self) -> FlowSpec:
        return self._editor.document.spec

    def _open(self, place: QPointF, title: str, choices: Sequence[Choice]) -> None:
        if self._palette is None:
            self._palette = SearchPalette(self._editor)
        view = self._editor.view
        at = view.viewport().mapToGlobal(view.mapFromScene(place))
        self._palette.open_at(at + QPoint(2, 2), title, choices)

    # -- adding -------------------------------------------------------------------------------------------------------

    def add(
        self, place: QPointF | None = None, on_link: tuple[str, int] | None = None, link: OpenLink | None = None
    ) -> None:
        """Ask what to add at a place, on a link, or at the open end of one."""
        at = place if place is not None else self._editor.view.place_to_add()
        choices = []
        for addition in additions(self.saved()):
            if addition.part is None:
                then: Callable[[], object] = partial(self._choose_flow, at, on_link, link)
            else:
                then = partial(self._insert, addition.part, at, on_link, link)
            choices.append(Choice(text=addition.text, detail=addition.detail, icon=addition.icon, run=then))
        self._open(at, self.tr("Add agent or snippet"), choices)

    def add_after(self) -> None:
        """Ask what to add behind the selected agent, which then leads to it."""
        name = self._editor.selected()[0]
        agent = self._spec.agent(name)
        if agent is not None:
            port = self._free_port(agent)
            self._editor.reveal(name)
            self.add(_beside(self._editor, name), None, OpenLink(agent=name, port=port))

    def _free_port(self, agent: AgentSpec) -> int:
        """The first port that leads nowhere, else the last one."""
        ports = card_content(self._spec, agent).ports
        free = (index for index, port in enumerate(ports) if port.target is None)
        return next(free, len(ports) - 1)

    def _choose_flow(self, at: QPointF, on_link: tuple[str, int] | None, link: OpenLink | None) -> None:
        choices = [
            Choice(
                text=title,
                detail=source,
                icon="subflow",
                run=partial(self._insert, subflow_part(source, title), at, on_link, link),
            )
            for title, source in self.flows()
        ]
        self._open(at, self.tr("Run which flow as a node?"), choices)

    def add_flow(self, source: str, place: QPointF) -> None:
        """Add a flow that was dragged here as a node."""
        title = next((title for title, one in self.flows() if one == source), source)
        self._insert(subflow_part(source, title), place, None, None)

    def add_saved(self, path: str, place: QPointF | None = None) -> None:
        """Add a saved agent, by its file, at a place or at the mouse; one that is gone or faulty is passed over."""
        part = next((one.part for one in self.saved() if str(one.path) == path), None)
        if part is not None:
            self._insert(part, place if place is not None else self._editor.view.place_to_add(), None, None)

    def _insert(self, part: FlowSpec, at: QPointF, on_link: tuple[str, int] | None, link: OpenLink | None) -> None:
        """Add a part and join it to what is waiting for it: one step."""
        spec, names = paste_part(self._spec, part, (round(at.x()), round(at.y())))
        first, last = names[0], way_out(spec, names)
        if on_link is not None:
            spec = insert_between(spec, *on_link, first, last)
        elif link is not None and link.port is not None:
            spec = connect(spec, link.agent, link.port, first)
        elif link is not None:
            spec = connect(spec, last, 0, link.agent)
            if link.moved is not None:
                spec = connect(spec, *link.moved, None)
        self._editor.edit(self.tr("Add %1").replace("%1", first), spec)
        self._editor.select(names if len(names) > 1 else [first])

    # -- links --------------------------------------------------------------------------------------------------------

    def connect_to(self) -> None:
        """Ask which port of the selected agent is to lead where."""
        name = self._editor.selected()[0]
        agent = self._spec.agent(name)
        if agent is None:
            return
        ports = card_content(self._spec, agent).ports
        adds = bool(agent.routes) and may_add_route(agent)
        if len(ports) == 1 and not adds:
            self._choose_target(name, 0)
            return
        choices = [
            Choice(text=port_text(port), detail=self._leads_to(port), run=partial(self._choose_target, name, index))
            for index, port in enumerate(ports)
        ]
        if adds:
            otherwise = self.tr("when no condition holds")
            choices.append(
                Choice(text=self.tr("New route"), detail=otherwise, icon="plus", run=partial(self._choose_target, name))
            )
        self._open(self._below(name), self.tr("Connect which way out of %1?").replace("%1", name), choices)

    def _choose_target(self, name: str, port: int | None = None) -> None:
        def lead(target: str) -> None:
            spec = add_route(self._spec, name, target) if port is None else connect(self._spec, name, port, target)
            text = self.tr("Connect %1 to %2").replace("%2", target).replace("%1", name)
            self._editor.edit(text, spec)

        choices = [
            Choice(text=one.name, icon=icon_name(one), detail=_first_line(one), run=partial(lead, one.name))
            for one in self._spec.agents
            if (one.name != name if port is None else may_connect(self._spec, name, port, one.name))
        ]
        self._open(self._below(name), self.tr("Connect %1 to…").replace("%1", name), choices)

    def disconnect_from(self) -> None:
        """Ask which link from or to the selected agent is to go."""
        name = self._editor.selected()[0]

        def remove(source: str, port: int) -> None:
            text = self.tr("Delete link of %1").replace("%1", source)
            self._editor.edit(text, disconnect(self._spec, source, port))

        agents = {agent.name: agent for agent in reversed(self._spec.agents)}
        choices = []
        for source, port, target in links_of(self._spec):
            if name in (source, target) and source in agents:
                shown = card_content(self._spec, agents[source]).ports[port]
                way = self.tr("%1 → %2").replace("%2", target).replace("%1", source)
                choices.append(
                    Choice(text=way, detail=port_text(shown), icon="link", run=partial(remove, source, port))
                )
        self._open(self._below(name), self.tr("Remove which link of %1?").replace("%1", name), choices)

    def _leads_to(self, port: Port) -> str:
        target = port.target
        return self.tr("leads to %1").replace("%1", target) if target else ""

    def _below(self, name: str) -> QPointF:
        self._editor.reveal(name)
        return self._editor.scene.agents[name].card_rect().bottomLeft()


def port_text(port: Port) -> str:
    """What a way out is called."""
    return port.label if port.label and not port.is_end else QCoreApplication.translate("palettes", "always")


def _first_line(agent: AgentSpec) -> str:
    return next(iter((agent.template or agent.system_prompt).splitlines()), "")[:200]


def _beside(editor: "FlowEditor", name: str) -> QPointF:
    """A free place right of an agent, below what stands there."""
    card = editor.scene.agents[name].card_rect()
    place = QPointF(card.left() + COLUMN_STEP, card.top())
    taken = [item.card_rect() for item in editor.scene.agents.values()]
    while any(rect.contains(place + QPointF(1.0, 1.0)) for rect in taken):
        place.setY(place.y() + 120.0)
    return place
