"""Fields for the inputs a flow declares, one widget per type, with their help and what is missing."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from engine.flow.context import text_of
from engine.flow.flow_inputs import input_values
from engine.flow.flow_spec import InputSpec
from workbench.theme import theme
from workbench.widgets.elided import ElidedComboBox, ElidedLabel
from workbench.widgets.fault_note import FaultNote, mark_invalid

TALL = ("text", "list", "json")
"""Types that take several lines."""
CHECKED = ("number", "json")
"""Types that not every text is one of."""
LONG = 100_000
"""Characters from which a text is not checked while it is typed: the run will."""


class FileField(QWidget):
    """A path with a button that chooses one."""

    text_edited = Signal()
    """The path changed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.line = QLineEdit(self)
        self._browse_button = browse = QToolButton(self)
        browse.setToolTip(self.tr("Choose a file"))
        browse.setAccessibleName(self.tr("Choose a file"))
        browse.clicked.connect(self._browse)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.line)
        layout.addWidget(browse)
        self.setFocusProxy(self.line)
        self.line.textChanged.connect(self.text_edited)
        self.restyle()

    def restyle(self) -> None:
        """Take the present text zoom and colours."""
        self._browse_button.setIcon(theme.icon("folder", 16))
        self._browse_button.setIconSize(QSize(theme.px(16), theme.px(16)))

    def _browse(self) -> None:
        dialog = QFileDialog(self, self.tr("Choose a file"))
        dialog.fileSelected.connect(self.line.setText)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()


class InputFields(QWidget):
    """A column of labelled fields for a flow's inputs."""

    values_changed = Signal()
    """The person changed a value."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._specs: Sequence[InputSpec] = ()
        self._fields: dict[str, QWidget] = {}
        self._loading = False
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._labels: list[QLabel] = []
        self._hints: list[QLabel] = []
        self._notes: dict[str, FaultNote] = {}
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_inputs(self, specs: Sequence[InputSpec], values: Mapping[str, str]) -> None:
        """Build the fields; `values` are texts typed before, missing ones take the default."""
        self._loading = True
        if tuple(specs) != tuple(self._specs):
            self._build(specs)
        for spec in specs:
            self._set(spec, values.get(spec.key, default_text(spec)))
        self._loading = False
        self._check()

    def texts(self) -> dict[str, str]:
        """What the fields hold, as text by key."""
        return {spec.key: self._text(spec) for spec in self._specs}

    def values(self) -> dict[str, object]:
        """Values for a run: what was typed; empty optional fields are left out."""
        return {key: text for key, text in self.texts().items() if text or self._is_required(key)}

    def missing(self) -> list[str]:
        """Keys of required inputs without a value."""
        return missing_inputs(self._specs, self.texts())

    def invalid(self) -> list[str]:
        """Keys of inputs whose text is not of their type; it is told below their fields."""
        return [key for key, note in self._notes.items() if note.text]

    def widgets(self) -> list[QWidget]:
        """The fields that take the focus, in order."""
        return [field.line if isinstance(field, FileField) else field for field in self._fields.values()]

    def focus_key(self, key: str) -> None:
        """Put the cursor into a field."""
        self._fields[key].setFocus()

    def _is_required(self, key: str) -> bool:
        return any(spec.required for spec in self._specs if spec.key == key)

    def _build(self, specs: Sequence[InputSpec]) -> None:
        while (item := self._layout.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self._specs = tuple(specs)
        self._fields, self._labels, self._hints, self._notes = {}, [], [], {}
        for spec in specs:
            label = ElidedLabel(f"{spec.key} *" if spec.required else spec.key, self)
            label.setToolTip(spec.help)
            field = self._make(spec)
            field.setAccessibleName(spec.key)
            field.setAccessibleDescription(spec.help)
            field.setToolTip(spec.help)
            label.setBuddy(field)
            self._labels.append(label)
            self._layout.addWidget(label)
            self._layout.addWidget(field)
            if spec.type in CHECKED:
                self._notes[spec.key] = note = FaultNote(self)
                self._layout.addWidget(note)
            if spec.help:
                hint = QLabel(spec.help, self)
                hint.setProperty("role", "muted")
                hint.setWordWrap(True)
                self._layout.addWidget(hint)
                self._hints.append(hint)
            self._fields[spec.key] = field
        self._restyle()

    def _restyle(self) -> None:
        self._layout.setSpacing(theme.px(4))
        for number, label in enumerate(self._labels):
            label.setFont(theme.font(12, 500))
            # A label stands nearer to its own field than to the help of the one above.
            label.setContentsMargins(0, theme.px(8) if number else 0, 0, 0)
        for hint in self._hints:
            hint.setFont(theme.font(11))
        for field in self._fields.values():
            if isinstance(field, QPlainTextEdit):
                field.setFont(theme.font(12, mono=True))
                field.setFixedHeight(theme.px(110))
            elif isinstance(field, FileField):
                field.restyle()

    def _make(self, spec: InputSpec) -> QWidget:
        if spec.type == "boolean":
            box = QCheckBox(spec.help or spec.key, self)
            box.toggled.connect(self._changed)
            return box
        if spec.type == "choice":
            combo = ElidedComboBox(self)
            combo.addItems(spec.choices)
            combo.currentTextChanged.connect(self._changed)
            return combo
        if spec.type in ("file", "image"):
            file = FileField(self)
            file.text_edited.connect(self._changed)
            return file
        if spec.type in TALL and (spec.type != "text" or "\n" in default_text(spec)):
            edit = QPlainTextEdit(self)
            edit.setTabChangesFocus(True)
            edit.textChanged.connect(self._changed)
            return edit
        line = QLineEdit(self)
        line.textChanged.connect(self._changed)
        return line

    def _changed(self) -> None:
        if not self._loading:
            self._check()
            self.values_changed.emit()

    def _check(self) -> None:
        """Tell below each field what is wrong with its text."""
        for spec in self._specs:
            if (note := self._notes.get(spec.key)) is not None:
                fault = fault_of(spec, self._text(spec))
                note.show_fault(fault)
                mark_invalid(self._fields[spec.key], bool(fault))

    def _set(self, spec: InputSpec, text: str) -> None:
        match self._fields[spec.key]:
            case QCheckBox() as box:
                box.setChecked(text.strip().lower() == "true")
            case QComboBox() as combo:
                combo.setCurrentText(text)
            case FileField() as file:
                file.line.setText(text)
            case QPlainTextEdit() as edit if edit.toPlainText() != text:
                edit.setPlainText(text)
            case QLineEdit() as line if line.text() != text:
                line.setText(text)
                line.setCursorPosition(0)  # a long text shows its beginning
            case _:
                pass

    def _text(self, spec: InputSpec) -> str:
        match self._fields[spec.key]:
            case QCheckBox() as box:
                return "true" if box.isChecked() else "false"
            case QComboBox() as combo:
                return combo.currentText()
            case FileField() as file:
                return file.line.text()
            case QPlainTextEdit() as edit:
                return edit.toPlainText()
            case QLineEdit() as line:
                return line.text()
        return ""


def fault_of(spec: InputSpec, text: str) -> str:
    """What is wrong with a text as the value of an input: what was found and expected; a missing one is no fault."""
    if not text.strip() or len(text) > LONG:
        return ""
    try:
        input_values(spec, text)
    except ValueError as error:
        return f"{str(error)[:1].upper()}{str(error)[1:]}."
    return ""


def default_text(spec: InputSpec) -> str:
    """An input's default as it stands in its field."""
    if spec.type == "list" and isinstance(spec.default, list):
        return "\n".join(text_of(item) for item in spec.default)
    return text_of(spec.default)


def missing_inputs(specs: Sequence[InputSpec], texts: Mapping[str, str]) -> list[str]:
    """Keys of required inputs that have neither a typed value nor a default."""
    return [spec.key for spec in specs if spec.required and not texts.get(spec.key, default_text(spec)).strip()]
