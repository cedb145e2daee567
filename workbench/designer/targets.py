"""What a field of the inspector edits: agents, the flow itself, or a part of either; every edit is a step of undo."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication, QObject, Signal

from engine import Problem
from engine.flow.flow_spec import AgentSpec, FlowSpec
from workbench.designer.editor import FlowEditor

translate = QCoreApplication.translate

Change = Callable[[Any], Any]
"""From a part of the flow to what it shall be."""


class Refusals(QObject):
    """Texts that were typed and cannot be taken. They wait, also while something else is shown, to be corrected."""

    changed = Signal()
    """There are others now."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._texts: dict[tuple[tuple[str, ...], str], tuple[str, str]] = {}
        """(agents, path of the field) → typed text, fault; no agents: the flow itself."""

    def typed(self, names: tuple[str, ...], path: str) -> tuple[str, str] | None:
        """The refused text of a field and why."""
        return self._texts.get((names, path))

    def keep(self, names: tuple[str, ...], path: str, typed: str, fault: str) -> None:
        """Remember a text."""
        if self._texts.get((names, path)) != (typed, fault):
            self._texts[names, path] = (typed, fault)
            self.changed.emit()

    def drop(self, names: tuple[str, ...], path: str) -> None:
        """Forget a text, if there is one."""
        if self._texts.pop((names, path), None) is not None:
            self.changed.emit()

    def drop_below(self, names: tuple[str, ...], path: str) -> None:
        """Forget the texts of fields in a list whose entries are others now."""
        gone = [key for key in self._texts if key[0] == names and key[1].startswith(path)]
        for key in gone:
            del self._texts[key]
        if gone:
            self.changed.emit()

    def rename(self, old: str, new: str) -> None:
        """Follow an agent to its new name."""
        renamed = {
            (tuple(new if name == old else name for name in names), path): kept
            for (names, path), kept in self._texts.items()
        }
        self._texts = renamed

    def problems(self, spec: FlowSpec) -> list[Problem]:
        """Each as an error with agent and place; those of agents that are gone are left out."""
        places = {agent.name: index for index, agent in enumerate(spec.agents)}
        found = []
        for (names, path), (_, fault) in self._texts.items():
            if not names:
                found.append(Problem(severity="error", message=fault, path=f"${path}"))
            elif names[0] in places:
                place = f"$.agents[{places[names[0]]}]{path}"
                found.append(Problem(severity="error", message=f"{names[0]}: {fault}", path=place, agent=names[0]))
        return found


class Target(QObject):
    """Where fields read and write. Several items are edited alike, in one step."""

    @property
    def root(self) -> "Root":
        """The agents or the flow it belongs to."""
        raise NotImplementedError

    def items(self) -> Sequence[Any]:
        """The parts as they are now; none when they are gone."""
        raise NotImplementedError

    def path(self) -> str:
        """The JSON path of the part below its root."""
        raise NotImplementedError

    def change(self, step: str, change: Change, merge: str = "") -> None:
        """Change every item; edits in a row with the same `merge` become one step, named `step` with %1 the root."""
        raise NotImplementedError


class Root(Target):
    """What a whole form edits."""

    def __init__(self, editor: FlowEditor, refusals: Refusals, parent: QObject) -> None:
        super().__init__(parent)
        self.editor = editor
        self.refusals = refusals

    @property
    def root(self) -> "Root":
        """Itself."""
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The agents; none: the flow."""
        raise NotImplementedError

    def places(self) -> list[str]:
        """The JSON path of each item."""
        raise NotImplementedError

    def path(self) -> str:
        """Nothing: it is the root."""
        return ""

    def _push(self, step: str, label: str, spec: FlowSpec, merge: str) -> None:
        key = f"{'/'.join(self.names)}:{merge}" if merge else None
        self.editor.edit(step.replace("%1", label), spec, key)


class AgentTarget(Root):
    """The selected agents."""

    def __init__(self, editor: FlowEditor, refusals: Refusals, parent: QObject) -> None:
        super().__init__(editor, refusals, parent)
        self._names: tuple[str, ...] = ()
        self._found: tuple[FlowSpec, tuple[str, ...], list[AgentSpec], list[str]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in the file's order."""
        return self._names

    def show(self, names: Sequence[str]) -> None:
        """Edit these from now on."""
        self._names = tuple(names)

    def items(self) -> list[AgentSpec]:
        """The agents as they are now."""
        return self._look_up()[0]

    @property
    def agent(self) -> AgentSpec | None:
        """The first one."""
        items = self.items()
        return items[0] if items else None

    def places(self) -> list[str]:
        """The JSON path of each."""
        return self._look_up()[1]

    def _look_up(self) -> tuple[list[AgentSpec], list[str]]:
        """Agents and places, looked up once for each state of the flow: many fields ask."""
        spec = self.editor.document.spec
        if self._found is None or self._found[0] is not spec or self._found[1] != self._names:
            wanted = set(self._names)
            pairs = [(one, f"$.agents[{index}]") for index, one in enumerate(spec.agents) if one.name in wanted]
            self._found = (spec, self._names, [one for one, _ in pairs], [place for _, place in pairs])
        return self._found[2], self._found[3]

    def change(self, step: str, change: Change, merge: str = "") -> None:
        """Change every agent, in one step."""
        spec, wanted = self.editor.document.spec, set(self._names)
        agents = tuple([change(one) if one.name in wanted else one for one in spec.agents])
        label = self._names[0] if self._names else ""
        if len(self._names) > 1:
            label = translate("Inspector", "%1 agents").replace("%1", str(len(self._names)))
        self._push(step, label, replace(spec, agents=agents), merge)


class FlowTarget(Root):
    """The flow itself."""

    @property
    def names(self) -> tuple[str, ...]:
        """None: no agent."""
        return ()

    def items(self) -> list[FlowSpec]:
        """The flow as it is now."""
        return [self.editor.document.spec]

    def places(self) -> list[str]:
        """The root of the file."""
        return ["$"]

    def change(self, step: str, change: Change, merge: str = "") -> None:
        """Change the flow."""
        spec = self.editor.document.spec
        self._push(step, spec.name, change(spec), f"flow{merge}" if merge else "")


class PartTarget(Target):
    """A part of each item of another target: the handler of agents, for instance."""

    def __init__(
        self, outer: Target, field: str, *, read: Callable[[Any], Any], write: Callable[[Any, Any], Any]
    ) -> None:
        """Edit what `read` finds in an item and `write` puts back; `field` is its name in the file."""
        super().__init__(outer)
        self._outer, self._field, self._read, self._write = outer, field, read, write

    @property
    def root(self) -> Root:
        """That of the other target."""
        return self._outer.root

    def items(self) -> list[Any]:
        """The parts that are there."""
        return [part for part in map(self._read, self._outer.items()) if part is not None]

    def path(self) -> str:
        """Below that of the other target."""
        return f"{self._outer.path()}.{self._field}"

    def change(self, step: str, change: Change, merge: str = "") -> None:
        """Change the part in every item that has it."""

        def changed(item: Any) -> Any:
            part = self._read(item)
            return item if part is None else self._write(item, change(part))

        self._outer.change(step, changed, merge)


class RowTarget(Target):
    """One entry of a list: a route, an operation, an input."""

    def __init__(self, outer: Target, field: str, index: int, *, name: str = "") -> None:
        """Edit entry `index` of the tuple `field` of the one item of `outer`; `name` is that in the file."""
        super().__init__(outer)
        self.outer = outer
        self._field, self._index, self._name = field, index, name or field

    @property
    def root(self) -> Root:
        """That of the other target."""
        return self.outer.root

    def items(self) -> list[Any]:
        """The entry, or nothing when the list is shorter."""
        outer = self.outer.items()
        entries = getattr(outer[0], self._field) if outer else ()
        return [entries[self._index]] if self._index < len(entries) else []

    def path(self) -> str:
        """Below that of the list."""
        return f"{self.outer.path()}.{self._name}[{self._index}]"

    def change(self, step: str, change: Change, merge: str = "") -> None:
        """Change the entry."""

        def changed(item: Any) -> Any:
            entries = list(getattr(item, self._field))
            if self._index < len(entries):
                entries[self._index] = change(entries[self._index])
            return replace(item, **{self._field: tuple(entries)})

        self.outer.change(step, changed, merge)


def moved(entries: Sequence[Any], start: int, end: int) -> tuple[Any, ...]:
    """A list with one entry at another place."""
    changed = list(entries)
    changed.insert(end, changed.pop(start))
    return tuple(changed)


def without(entries: Sequence[Any], index: int) -> tuple[Any, ...]:
    """A list without one entry."""
    return (*entries[:index], *entries[index + 1 :])
