"""Fields of the inspector: each is bound to a value of what is edited, checks it, and makes a step of undo."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication, QSignalBlocker, Qt
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from engine import Problem
from workbench.designer.targets import RowTarget, Target
from workbench.theme import theme
from workbench.widgets.checked_line import CheckedLine
from workbench.widgets.elided import ElidedComboBox
from workbench.widgets.fault_note import FaultNote, mark_invalid
from workbench.widgets.template_edit import TemplateEdit

translate = QCoreApplication.translate

LABEL_WIDTH = 84
ROW_LABEL_WIDTH = 58
_NOTHING = object()
MIXED = object()
"""What several items have that do not have the same."""

Problems = Mapping[str, Sequence[Problem]]
"""JSON path → the problems of exactly this place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Which value a field edits, and how the step of undo is called (%1 is the agent)."""

    target: Target
    path: str
    """Of the value below its target, `.timeout` for instance."""
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any]
    step: str

    @property
    def whole_path(self) -> str:
        """Below the agent or the flow."""
        return self.target.path() + self.path

    def value(self) -> Any:
        """The value of all items, MIXED, or None when there is no item."""
        values = [self.read(item) for item in self.target.items()]
        if not values:
            return None
        return values[0] if all(value == values[0] for value in values[1:]) else MIXED

    def put(self, value: Any, *, merge: bool = False) -> None:
        """Give all items a value."""
        key = self.whole_path if merge else ""
        self.target.change(self.step, lambda item: self.write(item, value), key)

    def places(self) -> list[str]:
        """The JSON paths of the value."""
        return [place + self.whole_path for place in self.target.root.places()]


def bound(target: Target, field: str, step: str, *, name: str = "") -> Binding:
    """A binding to a field of a struct; `name` is that in the file when it differs."""
    return Binding(
        target=target,
        path=f".{name or field}",
        read=lambda item: getattr(item, field),
        write=lambda item, value: replace(item, **{field: value}),
        step=step,
    )


class Field(QWidget):
    """A label, an editor, and below it what is wrong with the value."""

    def __init__(self, binding: Binding, label: str, help_line: str, parent: QWidget, *, above: bool = False) -> None:
        """`above`: the label stands over the editor instead of beside it; without one there is no label."""
        super().__init__(parent)
        self.binding = binding
        self.help_line = help_line
        self.caption = QLabel(label, self)
        self.caption.setProperty("role", "secondary")
        self.caption.setToolTip(help_line)
        self.caption.setWordWrap(not above)
        self.caption.setVisible(bool(label))
        self._above = above
        self.row = QHBoxLayout()
        """Where the editor stands; more may follow it."""
        self.row.setContentsMargins(0, 0, 0, 0)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(theme.px(2))

    def place(self, editor: QWidget, note: FaultNote) -> None:
        """Lay out the parts, once the editor is there."""
        self.caption.setBuddy(editor)
        self.setFocusProxy(editor)
        self.row.addWidget(editor, 1)
        if self._above:
            self._column.addWidget(self.caption)
            self._column.addLayout(self.row)
        else:
            line = QHBoxLayout()
            line.setSpacing(theme.px(8))
            line.addWidget(self.caption)
            line.addLayout(self.row, 1)
            self._column.addLayout(line)
        self._column.addWidget(note)
        theme.changed.connect(self._resize)
        self._resize()

    def stops(self) -> list[QWidget]:
        """What takes the focus."""
        return []

    def refresh(self) -> None:
        """Show the value as it is now."""

    def show_problems(self, problems: Problems) -> None:
        """Say what the check found at this value."""
        places = self.binding.places()
        found = next((problems[place][0] for place in places if problems.get(place)), None)
        if found is None and isinstance(self.binding.value(), tuple):
            inside = tuple(f"{place}[" for place in places)
            found = next((entries[0] for path, entries in problems.items() if path.startswith(inside)), None)
        self.show_problem(found.message if found else "", is_warning=found is not None and found.severity != "error")

    def show_problem(self, text: str, *, is_warning: bool) -> None:
        """Say this below the editor, or nothing."""

    def finish(self) -> None:
        """Take or refuse what is being typed."""

    @property
    def is_refused(self) -> bool:
        """Whether the text in the editor cannot be taken."""
        return False

    def _resize(self) -> None:
        self.caption.setFont(theme.font(12))
        if not self._above:
            inside = isinstance(self.binding.target, RowTarget)
            self.caption.setFixedWidth(theme.px(ROW_LABEL_WIDTH if inside else LABEL_WIDTH))


class LineField(Field):
    """One line, taken when it is left or at Enter."""

    def __init__(
        self,
        binding: Binding,
        label: str,
        help_line: str,
        parent: QWidget,
        *,
        name: str = "",
        above: bool = False,
        parse: Callable[[str], Any] = str,
        show: Callable[[Any], str] = str,
        hint: str = "",
        take: Callable[[Any], None] | None = None,
    ) -> None:
        """`parse` raises ValueError for what cannot be taken; `take` puts the value instead of the binding."""
        super().__init__(binding, label, help_line, parent, above=above)
        self.line = CheckedLine(name or label, self)
        self.line.set_help(help_line)
        self._parse, self._show, self._hint = parse, show, hint
        self._take = take or binding.put
        self.place(self.line, self.line.note)
        self.line.editingFinished.connect(self._finished)
        self.line.taken_back.connect(self._accept)

    def stops(self) -> list[QWidget]:
        """What takes the focus."""
        return [self.line]

    @property
    def is_refused(self) -> bool:
        """Whether the text in the editor cannot be taken."""
        return bool(self.line.fault)

    def refresh(self) -> None:
        """Show the value as it is now."""
        if self.line.hasFocus() and self.line.isModified():
            return
        root, value = self.binding.target.root, self.binding.value()
        self.line.setPlaceholderText(_several() if value is MIXED else self._hint)
        text = self._text(value)
        kept = root.refusals.typed(root.names, self.binding.whole_path)
        if kept is not None and (fault := self._fault(kept[0]) or kept[1]):
            self.line.refuse(kept[0], fault, text)
        else:
            self.line.show_value(text)

    def show_problem(self, text: str, *, is_warning: bool) -> None:
        """Say this below the editor, or nothing."""
        self.line.show_problem(text, is_warning=is_warning)

    def finish(self) -> None:
        """Take or refuse what is being typed."""
        if self.line.isModified():
            self._finished()

    def _text(self, value: Any) -> str:
        return "" if value is None or value is MIXED else self._show(value)

    def _fault(self, typed: str) -> str:
        try:
            self._parse(typed.strip())
        except ValueError as error:
            return str(error)
        return ""

    def _finished(self) -> None:
        if not self.line.isModified() or not self.binding.target.items():
            return
        root, typed = self.binding.target.root, self.line.text()
        old = self.binding.value()
        fault = self._fault(typed)
        if fault:
            self.line.refuse(typed, fault, self._text(old))
            root.refusals.keep(root.names, self.binding.whole_path, typed, fault)
            return
        self.line.show_value(typed.strip())
        self._accept()
        value = self._parse(typed.strip())
        if value != old and not (old is MIXED and not typed.strip()):
            try:
                self._take(value)
            except ValueError as error:
                self.line.refuse(typed, str(error), self._text(old))
                root.refusals.keep(root.names, self.binding.whole_path, typed, str(error))
                return
        self.refresh()

    def _accept(self) -> None:
        root = self.binding.target.root
        root.refusals.drop(root.names, self.binding.whole_path)
        self.line.show_problem("")  # what the check said was about another text


class TextField(Field):
    """A text of several lines, or an expression: taken while it is typed, in one step."""

    def __init__(
        self,
        binding: Binding,
        label: str,
        help_line: str,
        parent: QWidget,
        *,
        editor: TemplateEdit | None = None,
        name: str = "",
        above: bool = True,
        parse: Callable[[str], Any] = str,
        show: Callable[[Any], str] = str,
    ) -> None:
        super().__init__(binding, label, help_line, parent, above=above)
        self.edit = editor or TemplateEdit(name or label, self)
        self.edit.setToolTip(help_line)
        self.edit.setAccessibleDescription(help_line)
        self.note = FaultNote(self)
        self._parse, self._show = parse, show
        self._refused = ""
        self._problem = ("", False)
        self._own: Any = _NOTHING
        """The value that was typed here last; then the text is not written anew."""
        self._typing = False
        self.place(self.edit, self.note)
        self.edit.edited.connect(self._edited)

    def stops(self) -> list[QWidget]:
        """What takes the focus."""
        return [self.edit]

    @property
    def is_refused(self) -> bool:
        """Whether the text in the editor cannot be taken."""
        return bool(self._refused)

    def refresh(self) -> None:
        """Show the value as it is now."""
        root, value = self.binding.target.root, self.binding.value()
        self.edit.setPlaceholderText(_several() if value is MIXED else "")
        kept = root.refusals.typed(root.names, self.binding.whole_path)
        self._refused = kept[1] if kept else ""
        if kept is not None:
            self.edit.load(kept[0])
        elif not self._typing and (self._own is _NOTHING or self._own != value):
            # What was typed stays as it was typed, also where the value could be written otherwise.
            self._own = _NOTHING
            self.edit.load("" if value is None or value is MIXED else self._show(value))
        self._mark()

    def show_problem(self, text: str, *, is_warning: bool) -> None:
        """Say this below the editor, or nothing."""
        self._problem = (text, is_warning)
        self._mark()

    def _edited(self, text: str) -> None:
        root = self.binding.target.root
        try:
            value = self._parse(text)
        except ValueError as error:
            self._refused = str(error)
            root.refusals.keep(root.names, self.binding.whole_path, text, self._refused)
            self._mark()
            return
        root.refusals.drop(root.names, self.binding.whole_path)
        self._refused = ""
        self._mark()
        self._typing = True
        try:
            self.binding.put(value, merge=True)
        finally:
            self._typing = False
        self._own = self.binding.value()

    def _mark(self) -> None:
        text, is_warning = (self._refused, False) if self._refused else self._problem
        self.note.show_fault(text, is_warning=is_warning)
        self.edit.setAccessibleDescription(text or self.help_line)
        mark_invalid(self.edit, bool(text) and not is_warning)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An entry of a choice: its value, its name, and a line about it."""

    value: Any
    text: str
    help_line: str = ""
    icon: str = ""


class ChoiceField(Field):
    """One of several values; a value that is none of them stays and is shown as it is."""

    def __init__(
        self,
        binding: Binding,
        label: str,
        help_line: str,
        parent: QWidget,
        *,
        choices: Callable[[], Sequence[Choice]],
        name: str = "",
        above: bool = False,
        unknown: str = "%1",
    ) -> None:
        """`unknown` is how a value is shown that is no choice."""
        super().__init__(binding, label, help_line, parent, above=above)
        self._choices, self._unknown = choices, unknown
        self._filled: tuple[Any, tuple[Choice, ...]] | None = None
        self.box = ElidedComboBox(self)
        self.box.setAccessibleName(name or label)
        self.box.setToolTip(help_line)
        self.box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.box.setMinimumContentsLength(4)
        self.box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.note = FaultNote(self)
        self.place(self.box, self.note)
        self.box.activated.connect(self._chosen)

    def stops(self) -> list[QWidget]:
        """What takes the focus."""
        return [self.box]

    def refresh(self) -> None:
        """Show the value as it is now."""
        value, choices = self.binding.value(), tuple(self._choices())
        if (value, choices) == self._filled and self.box.currentIndex() == self._index(value):
            return
        self._filled = (value, choices)
        with QSignalBlocker(self.box):
            self.box.clear()
            for choice in choices:
                icon = theme.icon(choice.icon, 14, checked=None) if choice.icon else QIcon()
                self.box.addItem(icon, choice.text, choice)
                if choice.help_line:
                    self.box.setItemData(self.box.count() - 1, choice.help_line, Qt.ItemDataRole.ToolTipRole)
            index = self._index(value)
            if index < 0 and self.binding.target.items():
                text = _several() if value is MIXED else self._unknown.replace("%1", str(value))
                self.box.addItem(text, Choice(value=value, text=text))
                index = self.box.count() - 1
            self.box.setCurrentIndex(index)

    def show_problem(self, text: str, *, is_warning: bool) -> None:
        """Say this below the editor, or nothing."""
        self.note.show_fault(text, is_warning=is_warning)
        self.box.setAccessibleDescription(text or self.help_line)
        mark_invalid(self.box, bool(text) and not is_warning)

    def _index(self, value: Any) -> int:
        return next((i for i in range(self.box.count()) if self.box.itemData(i).value == value), -1)

    def _chosen(self, index: int) -> None:
        choice = self.box.itemData(index)
        if choice is not None and choice.value is not MIXED and choice.value != self.binding.value():
            self.binding.put(choice.value)


class TickField(Field):
    """Yes or no."""

    def __init__(self, binding: Binding, label: str, help_line: str, parent: QWidget) -> None:
        super().__init__(binding, "", help_line, parent, above=True)
        self.box = QCheckBox(label, self)
        self.box.setAccessibleName(label)
        self.box.setAccessibleDescription(help_line)
        self.box.setToolTip(help_line)
        self.note = FaultNote(self)
        self.place(self.box, self.note)
        self.box.clicked.connect(self._clicked)

    def stops(self) -> list[QWidget]:
        """What takes the focus."""
        return [self.box]

    def refresh(self) -> None:
        """Show the value as it is now."""
        value = self.binding.value()
        with QSignalBlocker(self.box):
            self.box.setTristate(value is MIXED)
            state = Qt.CheckState.Checked if value else Qt.CheckState.Unchecked
            self.box.setCheckState(Qt.CheckState.PartiallyChecked if value is MIXED else state)

    def show_problem(self, text: str, *, is_warning: bool) -> None:
        """Say this below the editor, or nothing."""
        self.note.show_fault(text, is_warning=is_warning)

    def _clicked(self) -> None:
        self.binding.put(self.box.checkState() is not Qt.CheckState.Unchecked)


def _several() -> str:
    return translate("Inspector", "several values")
