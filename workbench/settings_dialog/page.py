"""One page of the settings: a title, heads, and rows of a label, fields and what to know about them."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QFrame, QHBoxLayout, QLabel, QLayout, QScrollArea, QVBoxLayout, QWidget

from workbench.theme import theme
from workbench.widgets.checked_line import CheckedLine

LABEL_WIDTH = 130
"""Design px of the labels' column."""
FIELD_WIDTH = 110
"""Design px of a number's field."""


class Field(CheckedLine):
    """A line of text; what cannot be taken stays in the field with the reason below it."""

    def __init__(self, name: str, take: Callable[[str], str], parent: QWidget) -> None:
        """`take` puts the typed text into the settings and returns it tidied, or raises ValueError in words."""
        super().__init__(name, parent)
        self._take = take
        self.editingFinished.connect(self.finish_editing)

    def show_setting(self, text: str) -> None:
        """Show what holds, unless another text is being typed or was refused."""
        if not self.isModified() and not self.fault:
            self.show_value(text)

    def finish_editing(self) -> bool:
        """Take what was typed, or say why not; false when it was refused just now."""
        if not self.isModified():
            return True
        typed = self.text().strip()
        try:
            tidy = self._take(typed)
        except ValueError as error:
            self.refuse(typed, str(error), self.value)
            return False
        self.show_value(tidy)
        return True


class NumberField(Field):
    """A number, or nothing."""

    def __init__(self, name: str, take: Callable[[str], str], parent: QWidget) -> None:
        super().__init__(name, take, parent)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        theme.changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        self.setFixedWidth(theme.px(FIELD_WIDTH))


class Page(QScrollArea):
    """A page; its subclass adds rows from top to bottom, then calls `finish`."""

    def __init__(self, title: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.title = title
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._body = QWidget(self)
        self._rows = QVBoxLayout(self._body)
        self._fonts: list[tuple[QWidget, float, int]] = []
        self._names: list[QLabel] = []
        self._indented: list[QLayout] = []
        self._columns: list[QLabel] = []
        self.setWidget(self._body)
        self._rows.addWidget(self._label(title, 15, 600))
        theme.changed.connect(self._restyle)

    # -- building -----------------------------------------------------------------------------------------------------

    def add_head(self, text: str) -> None:
        """Begin a group."""
        self._rows.addSpacing(theme.px(10))
        self._rows.addWidget(self._label(text, 13, 600))

    def add_row(self, name: str, *fields: QWidget, unit: str = "", hint: str = "") -> None:
        """Add a label with its fields side by side, their unit behind, faults and a hint below."""
        label = self._label(name, 12, 400)
        label.setBuddy(fields[0])
        self._names.append(label)
        line = QHBoxLayout()
        line.setSpacing(theme.px(8))
        line.addWidget(label)
        for field in fields:
            self._fonts.append((field, 13, 400))
            line.addWidget(field, int(type(field) is Field))
        if not any(type(field) is Field for field in fields):
            line.addWidget(self.hint(unit), 1)
        self._rows.addLayout(line)
        for note in (field.note for field in fields if isinstance(field, CheckedLine)):
            self.add_indented(note)
        if hint:
            self.add_indented(self.hint(hint))

    def add_columns(self, *names: str) -> None:
        """Name the columns of the number fields in the rows that follow."""
        line = QHBoxLayout()
        line.setSpacing(theme.px(8))
        for name in names:
            label = self._label(name, 11, 400)
            label.setProperty("role", "muted")
            label.setAlignment(Qt.AlignmentFlag.AlignRight)
            self._columns.append(label)
            line.addWidget(label)
        line.addStretch(1)
        self._indented.append(line)
        self._rows.addLayout(line)

    def add_box(self, text: str, chosen: Callable[[bool], object], hint: str = "") -> QCheckBox:
        """Add a check box; `chosen` hears what the person made of it."""
        box = QCheckBox(text, self._body)
        box.setAccessibleName(text)
        box.setAccessibleDescription(hint)
        box.clicked.connect(chosen)
        self._fonts.append((box, 13, 400))
        self._rows.addWidget(box, 0, Qt.AlignmentFlag.AlignLeft)
        if hint:
            self.add_wide(self.hint(hint))
        return box

    def add_buttons(self, *buttons: QWidget) -> None:
        """Add buttons side by side."""
        line = QHBoxLayout()
        line.setSpacing(theme.px(8))
        for button in buttons:
            line.addWidget(button)
        line.addStretch(1)
        self._rows.addLayout(line)

    def add_wide(self, widget: QWidget, stretch: int = 0) -> None:
        """Add something as wide as the page."""
        self._rows.addWidget(widget, stretch)

    def add_indented(self, widget: QWidget) -> None:
        """Add something in the column of the fields."""
        line = QHBoxLayout()
        line.addWidget(widget, 1)
        self._indented.append(line)
        self._rows.addLayout(line)

    def hint(self, text: str) -> QLabel:
        """Muted words that wrap."""
        label = self._label(text, 12, 400)
        label.setProperty("role", "muted")
        return label

    def finish(self, *, stretch: bool = True) -> None:
        """All rows are there; `stretch`: none of them takes the room that is left."""
        if stretch:
            self._rows.addStretch(1)
        self._restyle()

    def _label(self, text: str, size: float, weight: int) -> QLabel:
        label = QLabel(text, self._body)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        self._fonts.append((label, size, weight))
        return label

    # -- at work ------------------------------------------------------------------------------------------------------

    def finish_editing(self) -> Field | None:
        """Take what is being typed; the field that refused it just now, if one did."""
        return next((field for field in self.findChildren(Field) if not field.finish_editing()), None)

    def restyle(self) -> None:
        """For the subclass: take the present text zoom."""

    def _restyle(self) -> None:
        for widget, size, weight in self._fonts:
            widget.setFont(theme.font(size, weight))
        for name in self._names:
            name.setFixedWidth(theme.px(LABEL_WIDTH))
        for column in self._columns:
            column.setFixedWidth(theme.px(FIELD_WIDTH))
        for line in self._indented:
            line.setContentsMargins(theme.px(LABEL_WIDTH) + theme.px(8), 0, 0, 0)
        self._rows.setContentsMargins(theme.px(24), theme.px(16), theme.px(24), theme.px(16))
        self._rows.setSpacing(theme.px(6))
        self.restyle()
