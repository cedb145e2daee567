"""A prompt as a model would get it, with values that can be changed."""

import json
from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QScrollArea, QSplitter, QVBoxLayout, QWidget

from engine.flow.flow_spec import InputSpec
from workbench.text_format import visible_text
from workbench.theme import theme
from workbench.widgets.fault_note import FaultNote
from workbench.widgets.input_fields import InputFields
from workbench.widgets.tab_order import walk

LONGEST = 200_000
"""Characters that are shown."""


class Preview(QWidget):
    """Fields for the variables of a prompt, and its text with them."""

    values_changed = Signal()
    """The person changed a value."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._json: set[str] = set()
        self._texts: dict[str, str] = {}
        """What was typed, by variable: it stays from prompt to prompt."""
        self._title, self._values_title = QLabel(self.tr("Preview"), self), QLabel(self.tr("Sample values"), self)
        self._size = QLabel(self)
        self._size.setProperty("role", "muted")
        self.fields = InputFields(self)
        self.fields.values_changed.connect(self._typed)
        self._none = QLabel(self.tr("This text has no variables."), self)
        self._none.setProperty("role", "muted")
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setProperty("pane", True)
        self.text.setAccessibleName(self.tr("The prompt with sample values"))
        self.text.setTabChangesFocus(True)
        self.fault = FaultNote(self)
        self._lay_out()
        theme.changed.connect(self.restyle)
        self.restyle()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self._title)
        head.addStretch(1)
        head.addWidget(self._size)
        head.setContentsMargins(0, 0, theme.px(12), 0)
        upper, lower, inner = QWidget(self), QWidget(self), QWidget(self)
        column = QVBoxLayout(upper)
        column.setContentsMargins(theme.px(12), theme.px(8), 0, 0)
        column.addLayout(head)
        column.addWidget(self.text, 1)
        column.addWidget(self.fault)
        fields = QVBoxLayout(inner)
        fields.setContentsMargins(theme.px(12), 0, theme.px(12), theme.px(12))
        fields.addWidget(self._none)
        fields.addWidget(self.fields)
        fields.addStretch(1)
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inner)
        below = QVBoxLayout(lower)
        below.setContentsMargins(0, theme.px(8), 0, 0)
        self._values_title.setIndent(theme.px(12))
        below.addWidget(self._values_title)
        below.addWidget(area, 1)
        splitter = QSplitter(Qt.Orientation.Vertical, self)
        splitter.setHandleWidth(1)
        splitter.setChildrenCollapsible(False)
        splitter.addWidget(upper)
        splitter.addWidget(lower)
        splitter.setSizes([theme.px(400), theme.px(260)])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(splitter)

    def show_variables(self, samples: Mapping[str, object]) -> None:
        """Offer fields for these variables; what was typed for one of the same name stays."""
        self._json = {name for name, value in samples.items() if not isinstance(value, str)}
        specs = [
            InputSpec(key=name, type="json" if name in self._json else "text", default=_written(value))
            for name, value in samples.items()
        ]
        self._none.setVisible(not specs)
        self.fields.show_inputs(specs, self._texts)
        walk([self.text, *self.fields.widgets()])

    def values(self) -> dict[str, object]:
        """What the fields hold; raises ValueError that names a field without JSON."""
        values: dict[str, object] = {}
        for name, text in self.fields.texts().items():
            try:
                values[name] = json.loads(text) if name in self._json else text
            except (ValueError, RecursionError) as error:
                raise ValueError(self.tr("%1 is no JSON: %2").replace("%2", str(error)).replace("%1", name)) from None
        return values

    def show_text(self, text: str) -> None:
        """Show the prompt with its values."""
        shown = visible_text(text[:LONGEST])
        if shown != self.text.toPlainText():
            self.text.setPlainText(shown)
        self.text.setEnabled(True)
        self._size.setText(self.tr("%1 characters").replace("%1", f"{len(text):,}"))
        self.fault.show_fault("")

    def show_fault(self, words: str) -> None:
        """Say why there is no such text; the last one stays, greyed."""
        self.text.setEnabled(False)
        self.fault.show_fault(words)

    def _typed(self) -> None:
        self._texts |= self.fields.texts()
        self.values_changed.emit()

    def restyle(self) -> None:
        """Take the present fonts and colours; also after it got another parent, which makes labels forget theirs."""
        for title in (self._title, self._values_title):
            title.setFont(theme.font(12, 600))
        self._size.setFont(theme.font(11))
        self._none.setFont(theme.font(12))
        self.text.setFont(theme.font(12, mono=True))


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
