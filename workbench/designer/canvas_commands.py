"""What can be done with agents, links and frames on the canvas: each command is one step of undo."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QMimeData, QObject, QPointF, Signal
from PySide6.QtGui import QGuiApplication

from engine import EngineError, flow_text, read_flow
from engine.flow.flow_spec import FlowSpec
from workbench.designer.agent_edits import (
    copied_part,
    paste_part,
    remove_agents,
    set_start,
    set_state,
    toggle_breakpoints,
)
from workbench.designer.auto_layout import layered
from workbench.designer.edits import move_agents
from workbench.designer.frame_edits import change_frame, frame_around, remove_frame
from workbench.designer.link_edits import connect, disconnect, move_start
from workbench.designer.link_gesture import DrawnLink
from workbench.designer.palettes import Palettes
from workbench.tasks import Tasks

if TYPE_CHECKING:
    from workbench.designer.editor import FlowEditor

IDS = (
    "add_agent", "add_after", "connect_to", "disconnect", "delete", "delete_heal", "cut", "copy", "paste",
    "paste_linked", "duplicate", "rename", "mute", "bypass", "breakpoint", "set_start", "layout", "frame", "find",
    "save_agent",
)  # fmt: skip
"""Every command."""
LONGEST_PASTE = 4_000_000
"""Characters of a clipboard that are looked at."""
_AT_ONCE = 200
"""Agents that are laid out at once; more are in a thread, so that the window is not held up."""
_STEP = 30.0
"""How far below and right of the original a duplicate stands."""


class CanvasCommands(QObject):
    """Belongs to one editor; `perform` does what an action or a key asks for."""

    told = Signal(str)
    """Something to say beside the canvas: why nothing happened."""
    prompt_wanted = Signal(str)
    """The prompt of this agent is to be edited."""
    rename_wanted = Signal(str)
    """The name of this agent is to be edited."""
    save_wanted = Signal(str)
    """This agent is to be kept for other flows."""
    find_wanted = Signal()
    """The search field of the canvas is to open."""
    frame_text_wanted = Signal(int, str)
    """`title` or `comment` of a frame is to be edited."""

    def __init__(self, editor: "FlowEditor") -> None:
        super().__init__(editor)
        self._editor = editor
        self._tasks = Tasks(self)
        self.palettes = Palettes(editor, self)
        self._commands: dict[str, Callable[[], object]] = {
            "add_agent": self.palettes.add,
            "add_after": self.palettes.add_after,
            "connect_to": self.palettes.connect_to,
            "disconnect": self.palettes.disconnect_from,
            "delete": self.delete,
            "delete_heal": partial(self.delete, heal=True),
            "cut": self.cut,
            "copy": self.copy,
            "paste": self.paste,
            "paste_linked": partial(self.paste, incoming=True),
            "duplicate": self.duplicate,
            "rename": self.rename,
            "mute": partial(self.toggle_state, "mute"),
            "bypass": partial(self.toggle_state, "bypass"),
            "breakpoint": self.toggle_breakpoint,
            "set_start": self.start_here,
            "layout": self.lay_out,
            "frame": self.frame_selection,
            "find": self.find_wanted.emit,
            "save_agent": lambda: self.save_wanted.emit(self._editor.selected()[0]),
        }
        view = editor.view
        view.command_wanted.connect(self.perform)
        view.add_wanted.connect(self.palettes.add)
        view.link_drawn.connect(self.draw_link)
        view.open_wanted.connect(self.prompt_wanted)
        view.flow_dropped.connect(self.palettes.add_flow)
        view.agent_dropped.connect(self.palettes.add_saved)
        view.frame_open_wanted.connect(lambda index: self.frame_text_wanted.emit(index, "title"))

    def perform(self, command: str) -> None:
        """Do it, or tell why it cannot be done."""
        reason = self.why_not(command)
        if reason:
            self.told.emit(reason)
        else:
            self._commands[command]()

    def why_not(self, command: str) -> str:
        """Why a command cannot be done now; empty when it can."""
        names, mark = self._editor.selected(), self._editor.scene.mark
        if command in ("add_agent", "find", "paste", "paste_linked"):
            return ""
        if command == "layout":
            return "" if self._spec.agents else self.tr("This flow has no agents.")
        if command == "delete" and mark is not None:
            return ""
        if command == "rename" and isinstance(mark, int):
            return ""
        if not names:
            return self.tr("Select an agent.")
        if command in ("add_after", "connect_to", "disconnect", "rename", "set_start", "save_agent") and len(names) > 1:
            return self.tr("Select one agent only.")
        return ""

    @property
    def _spec(self) -> FlowSpec:
        return self._editor.document.spec

    def _named(self, one: str, several: str) -> str:
        """What a step of undo is called: with the name of the one agent, or with their number."""
        names = self._editor.selected()
        return one.replace("%1", names[0]) if len(names) == 1 else several.replace("%1", str(len(names)))

    # -- removing -----------------------------------------------------------------------------------------------------

    def delete(self, *, heal: bool = False) -> None:
        """Remove the selected agents, or the selected link or frame."""
        names, mark = self._editor.selected(), self._editor.scene.mark
        if names:
            text = self._named(self.tr("Delete %1"), self.tr("Delete %1 agents"))
            self._editor.edit(text, remove_agents(self._spec, names, heal=heal))
        elif isinstance(mark, int):
            self._editor.edit(self.tr("Delete frame"), remove_frame(self._spec, mark))
        elif mark is not None:
            self.delete_link(*mark)

    def delete_link(self, source: str, port: int) -> None:
        """Remove a link."""
        text = self.tr("Delete link of %1").replace("%1", source)
        self._editor.edit(text, disconnect(self._spec, source, port))

    # -- clipboard ----------------------------------------------------------------------------------------------------

    def copy(self) -> None:
        """Put the selected agents on the clipboard, as the text of a flow file."""
        data = QMimeData()
        data.setText(flow_text(copied_part(self._spec, self._editor.selected())))
        QGuiApplication.clipboard().setMimeData(data)

    def cut(self) -> None:
        """Copy and remove."""
        self.copy()
        text = self._named(self.tr("Cut %1"), self.tr("Cut %1 agents"))
        self._editor.edit(text, remove_agents(self._spec, self._editor.selected()))

    def paste(self, *, incoming: bool = False) -> None:
        """Put the clipboard's agents at the mouse; with `incoming` also the links that led to them."""
        text = QGuiApplication.clipboard().text()
        part = self._part_of(text)
        if part is None:
            self.told.emit(self.tr("There are no agents on the clipboard."))
            return
        self.insert(part, self._editor.view.place_to_add(), incoming=incoming)

    @staticmethod
    def _part_of(text: str) -> FlowSpec | None:
        if not text or len(text) > LONGEST_PASTE:
            return None
        try:
            part = read_flow(text).spec
        except EngineError:
            return None
        return part if part.agents else None

    def insert(self, part: FlowSpec, place: QPointF, *, incoming: bool = False) -> None:
        """Put a part of a flow at a place, as one step, selected."""
        spec, names = paste_part(self._spec, part, _point(place), incoming=incoming)
        one, several = self.tr("Paste %1"), self.tr("Paste %1 agents")
        text = one.replace("%1", names[0]) if len(names) == 1 else several.replace("%1", str(len(names)))
        self._add(text, spec, names)

    def duplicate(self) -> None:
        """Copy the selected agents beside themselves, without the clipboard."""
        part = copied_part(self._spec, self._editor.selected())
        corner = self._editor.scene.extent_of(self._editor.selected()).topLeft() + QPointF(_STEP, _STEP)
        spec, names = paste_part(self._spec, part, _point(corner))
        self._add(self._named(self.tr("Duplicate %1"), self.tr("Duplicate %1 agents")), spec, names)

    def _add(self, text: str, spec: FlowSpec, names: Sequence[str]) -> None:
        self._editor.edit(text, spec)
        self._editor.select(names)

    # -- links --------------------------------------------------------------------------------------------------------

    def draw_link(self, drawn: DrawnLink) -> None:
        """Make or move a link that was dragged; in the void something is added to lead to, or to come from."""
        fixed = drawn.fixed
        if not drawn.agent:
            self.palettes.add(drawn.place, None, fixed)
        elif fixed.port is not None:
            self.link(fixed.agent, fixed.port, drawn.agent)
        elif fixed.moved is not None:
            text = self.tr("Move link to begin at %1").replace("%1", drawn.agent)
            self._editor.edit(text, move_start(self._spec, *fixed.moved, drawn.agent, drawn.port))
        else:
            self.link(drawn.agent, drawn.port, fixed.agent)

    def link(self, source: str, port: int, target: str) -> None:
        """Lead a port to an agent."""
        text = self.tr("Connect %1 to %2").replace("%2", target).replace("%1", source)
        self._editor.edit(text, connect(self._spec, source, port, target))

    # -- agents -------------------------------------------------------------------------------------------------------

    def rename(self) -> None:
        """Edit the name of the selected agent, or the title of the selected frame."""
        names, mark = self._editor.selected(), self._editor.scene.mark
        if names:
            self.rename_wanted.emit(names[0])
        elif isinstance(mark, int):
            self.frame_text_wanted.emit(mark, "title")

    def toggle_state(self, state: Literal["mute", "bypass"]) -> None:
        """Mute or bypass the selected agents; when all are, let them run again."""
        names = self._editor.selected()
        chosen = [agent for agent in self._spec.agents if agent.name in names]
        on = not all(agent.state == state for agent in chosen)
        if state == "mute":
            text = self._named(self.tr("Mute %1"), self.tr("Mute %1 agents"))
        else:
            text = self._named(self.tr("Bypass %1"), self.tr("Bypass %1 agents"))
        if not on:
            text = self._named(self.tr("Let %1 run"), self.tr("Let %1 agents run"))
        self._editor.edit(text, set_state(self._spec, names, state if on else None))

    def toggle_breakpoint(self) -> None:
        """Have the run wait before the selected agents; when it does before all, let it pass."""
        names = self._editor.selected()
        has_all = all(name in self._spec.editor.breakpoints for name in names)
        text = self._named(self.tr("Breakpoint at %1"), self.tr("Breakpoints at %1 agents"))
        if has_all:
            text = self._named(self.tr("No breakpoint at %1"), self.tr("No breakpoints at %1 agents"))
        self._editor.edit(text, toggle_breakpoints(self._spec, names))

    def start_here(self) -> None:
        """Let the flow begin at the selected agent."""
        name = self._editor.selected()[0]
        self._editor.edit(self.tr("Start at %1").replace("%1", name), set_start(self._spec, name))

    def lay_out(self) -> None:
        """Put the selected agents in columns, or all when at most one is selected."""
        names = self._editor.selected()
        wanted = names if len(names) > 1 else ()
        heights = {name: item.content.body_height for name, item in self._editor.scene.agents.items()}
        if len(heights) <= _AT_ONCE:
            self._arrange(layered(self._spec, wanted, heights))
        else:
            self._tasks.start(self._lay_out_beside(self._spec, wanted, heights), self._editor)

    async def _lay_out_beside(self, spec: FlowSpec, names: Sequence[str], heights: Mapping[str, float]) -> None:
        """Find the places of many agents in a thread; a flow that was edited meanwhile stays as it is."""
        places = await asyncio.to_thread(layered, spec, names, heights)
        if self._spec is spec:
            self._arrange(places)

    def _arrange(self, places: Mapping[str, tuple[float, float]]) -> None:
        before = {name: (item.x(), item.y()) for name, item in self._editor.scene.agents.items() if name in places}
        self._editor.edit(self.tr("Tidy up"), move_agents(self._spec, places))
        self._editor.glide(before)

    def color_frame(self, index: int, color: str) -> None:
        """Give a frame another colour."""
        self._editor.edit(self.tr("Colour frame"), change_frame(self._spec, index, color=color))

    def frame_selection(self) -> None:
        """Put a comment frame around the selected agents, and edit its title."""
        self._editor.edit(self.tr("Add frame"), frame_around(self._spec, self._editor.selected(), self.tr("Frame")))
        index = len(self._spec.editor.frames) - 1
        self._editor.mark(index)
        self.frame_text_wanted.emit(index, "title")


def _point(place: QPointF) -> tuple[float, float]:
    return round(place.x()), round(place.y())
