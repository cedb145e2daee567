"""What the sections of the inspector have in common: fields, lists of fields, and the keys that are known there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.flow.flow_spec import AgentSpec, AgentType
from workbench.designer.fields import Binding, Field, Problems, TextField
from workbench.designer.targets import RowTarget, Target, moved, without
from workbench.designer.typed_values import optional
from workbench.theme import theme
from workbench.widgets.expression_edit import ExpressionEdit
from workbench.widgets.row_list import RowList
from workbench.widgets.section import Section
from workbench.widgets.words import Words

translate = QCoreApplication.translate


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys at an agent."""

    known: frozenset[str] | None = None
    """All that some part of the flow provides; None: there may be any."""
    before: tuple[str, ...] = ()
    """Those the agent may find."""
    passed: bool = False
    """Its routes have the verdict of a grader."""


class ExpressionField(TextField):
    """An expression, checked while it is typed; the note names the place."""

    edit: ExpressionEdit

    def __init__(
        self, binding: Binding, label: str, help_line: str, parent: QWidget, *, name: str = "", above: bool = False
    ) -> None:
        super().__init__(
            *(binding, label, help_line, parent),
            editor=ExpressionEdit(name or label, parent),
            above=above,
            parse=optional,
            show=lambda value: value or "",
        )
        self.edit.textChanged.connect(self._mark)

    def show_keys(self, keys: Keys, *, passed: bool = False) -> None:
        """Check against these keys; `passed`: here the verdict of a grader is at hand."""
        self.edit.judge(keys.known, keys.before, passed=passed and keys.passed)
        self._mark()

    def _mark(self) -> None:
        fault = self.edit.fault
        if fault is not None:
            place = translate("Inspector", "Character %1: %2").replace("%1", str(fault.start + 1))
            self._problem = (place.replace("%2", fault.message), False)
        elif self._problem[0] and not self._problem[1]:
            self._problem = ("", False)  # what the check said was about another text
        super()._mark()


class FormSection(Section):
    """A section with fields."""

    several = False
    """It is shown for several agents, too."""

    def __init__(self, key: str, title: str, target: Target, parent: QWidget, *, is_open: bool = True) -> None:
        super().__init__(title, parent, is_open=is_open)
        self.key = key
        """Under which it is remembered whether it is open."""
        self.opens = is_open
        """Whether it is open as long as nobody decided otherwise."""
        self.target = target
        self.fields: list[Field] = []
        self.keys = Keys()

    def fits(self, agents: Sequence[AgentSpec]) -> bool:
        """Whether these agents have what it edits."""
        return bool(agents)

    def add(self, field: Field, *, to: QVBoxLayout | None = None) -> Field:
        """Have a field, at the end."""
        self.fields.append(field)
        (self.body if to is None else to).addWidget(field)
        return field

    def say(self, text: str) -> Words:
        """Muted words between the fields."""
        label = Words(text, self, wrap=True)
        self.body.addWidget(label)
        return label

    def all_fields(self) -> list[Field]:
        """Its fields, those of rows too, from top to bottom."""
        return self.fields

    def refresh(self) -> None:
        """Show the values as they are now."""
        for field in self.all_fields():
            field.refresh()

    def show_problems(self, problems: Problems) -> None:
        """Let each field say what the check found at its value."""
        for field in self.all_fields():
            field.show_problems(problems)

    def show_keys(self, keys: Keys) -> None:
        """Know these keys."""
        self.keys = keys
        for field in self.all_fields():
            if isinstance(field, ExpressionField):
                field.show_keys(keys)

    def stops(self) -> list[QWidget]:
        """What takes the focus, in order."""
        return [self.head, *(stop for field in self.all_fields() for stop in field.stops())]


class RowFields(QWidget):
    """The fields of one row."""

    def __init__(self, target: RowTarget, parent: QWidget) -> None:
        super().__init__(parent)
        self.target = target
        self.fields: list[Field] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, theme.px(2))
        self._column.setSpacing(theme.px(4))

    def add(self, field: Field) -> Field:
        """Have a field, below the others."""
        self.fields.append(field)
        self._column.addWidget(field)
        return field

    def refresh(self) -> None:
        """Show the entry as it is now."""
        for field in self.fields:
            field.refresh()


class ListPart:
    """A list of structs as rows with fields: routes, operations, examples, inputs."""

    def __init__(
        self,
        section: FormSection,
        target: Target,
        field: str,
        *,
        title: str,
        kind: str,
        make: Callable[[RowTarget, QWidget], RowFields],
        steps: tuple[str, str, str],
    ) -> None:
        """`kind` names a row, %1 its number; `steps` are those of adding, removing and moving an entry."""
        self.target, self._field, self._make, self._steps = target, field, make, steps
        self._section = section
        self._names: tuple[str, ...] = ()
        self.list = RowList(title, kind, self._row, section)
        self.list.moved.connect(self._move)
        self.list.removed.connect(self._remove)

    @property
    def rows(self) -> list[RowFields]:
        """The rows that are there."""
        return [body for body in self.list.bodies() if isinstance(body, RowFields)]

    def fields(self) -> list[Field]:
        """Those of all rows."""
        return [field for row in self.rows for field in row.fields]

    def stops(self) -> list[QWidget]:
        """What takes the focus, row by row."""
        stops: list[QWidget] = []
        for row in self.list.rows:
            assert isinstance(row.body, RowFields)  # noqa: S101 - made by _row
            stops += [row.grip, *(stop for field in row.body.fields for stop in field.stops()), row.remove]
        return stops

    def entries(self) -> tuple[Any, ...]:
        """The entries as they are now."""
        items = self.target.items()
        return tuple(getattr(items[0], self._field)) if len(items) == 1 else ()

    def refresh(self) -> None:
        """Show the entries as they are now."""
        names, self._names = self._names, self.target.root.names
        if self.list.show_count(len(self.entries())) and names == self._names:
            self._forget_typed()
        for row in self.rows:
            row.refresh()

    def add(self, entry: Any, *, at: int | None = None) -> None:
        """Put another entry at the end, or at a place, and the cursor into it."""
        entries = self.entries()
        place = len(entries) if at is None else at
        self._put(self._steps[0], (*entries[:place], entry, *entries[place:]))
        self._section.set_open(True)
        rows = self.rows
        if place < len(rows) and (stops := [stop for one in rows[place].fields for stop in one.stops()]):
            stops[0].setFocus()

    def _row(self, index: int) -> QWidget:
        return self._make(self.make_target(index), self._section)

    def make_target(self, index: int) -> RowTarget:
        """What the fields of an entry edit."""
        return RowTarget(self.target, self._field, index)

    def _forget_typed(self) -> None:
        root = self.target.root
        root.refusals.drop_below(root.names, f"{self.target.path()}.{self._field}[")

    def _remove(self, index: int) -> None:
        self._put(self._steps[1], without(self.entries(), index))

    def _move(self, start: int, end: int) -> None:
        self._forget_typed()
        self._put(self._steps[2], moved(self.entries(), start, end))

    def _put(self, step: str, entries: tuple[Any, ...]) -> None:
        self.target.change(step, lambda item: replace(item, **{self._field: entries}))


def asks_model(agent: AgentSpec) -> bool:
    """Whether an agent asks a model itself."""
    return agent.flow is None and agent.type is not AgentType.PROCESSING_ONLY
