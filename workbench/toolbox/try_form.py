"""A form that calls a tool: a field for each argument, then result or error, and how long it took."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine import Tool
from engine.flow.tool_form import form_inputs, typed_arguments
from engine.flow.tools import Outcome
from workbench.text_format import seconds_text, visible_text
from workbench.theme import theme
from workbench.widgets.fault_note import FaultNote
from workbench.widgets.icon_label import IconText
from workbench.widgets.input_fields import InputFields


class TryForm(QWidget):
    """Its owner calls the tool and tells what came of it."""

    called = Signal(object)
    """The person wants the tool called with these arguments, a dict."""
    stop_wanted = Signal()
    """The person does not want to wait for it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._tool: Tool | None = None
        self._title, self._result_title = QLabel(self.tr("Try it"), self), QLabel(self.tr("Result"), self)
        self.fields = InputFields(self)
        self._fault = FaultNote(self)
        self._why_not = QLabel(self)
        self._why_not.setWordWrap(True)
        self._why_not.setTextFormat(Qt.TextFormat.PlainText)
        self._why_not.setProperty("role", "muted")
        self.call, self.stop = QPushButton(self.tr("&Call"), self), QPushButton(self.tr("&Stop"), self)
        self.call.setProperty("primary", True)
        self.call.clicked.connect(self._call)
        self.stop.clicked.connect(self.stop_wanted)
        self.state = IconText(self.tr("What came of it"), self)
        self.result = QPlainTextEdit(self)
        self.result.setReadOnly(True)
        self.result.setProperty("pane", True)
        self.result.setTabChangesFocus(True)
        self.result.setAccessibleName(self.tr("Result"))
        self._lay_out()
        theme.changed.connect(self.restyle)
        self.restyle()

    def _lay_out(self) -> None:
        inner = QWidget(self)
        form = QVBoxLayout(inner)
        form.setContentsMargins(theme.px(12), theme.px(12), theme.px(12), theme.px(12))
        form.setSpacing(theme.px(8))
        buttons = QHBoxLayout()
        buttons.addWidget(self.call)
        buttons.addWidget(self.stop)
        buttons.addStretch(1)
        for widget in (self._title, self._why_not, self.fields, self._fault):
            form.addWidget(widget)
        form.addLayout(buttons)
        form.addStretch(1)
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inner)
        head = QHBoxLayout()
        head.setContentsMargins(theme.px(12), 0, theme.px(12), 0)
        head.setSpacing(theme.px(12))
        head.addWidget(self._result_title)
        head.addWidget(self.state, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(area, 3)
        column.addLayout(head)
        column.addWidget(self.result, 2)

    def show_tool(self, tool: Tool | None, why_not: str) -> None:
        """Offer the fields of a tool; `why_not` says why it cannot be called, empty when it can."""
        if tool is not self._tool:
            self._tool = tool
            self.fields.show_inputs(form_inputs(tool.definition.parameters) if tool is not None else (), {})
            self._fault.show_fault("")
            self.result.clear()
            self.state.show_text(self.tr("not called yet"), "pending")
        self._why_not.setText(visible_text(why_not))
        self._why_not.setVisible(bool(why_not))
        self.call.setEnabled(tool is not None and not why_not)
        self.stop.setEnabled(False)

    def stops(self) -> list[QWidget]:
        """Where Tab stops, in order."""
        return [*self.fields.widgets(), self.call, self.stop, self.result]

    def show_calling(self) -> None:
        """The tool runs."""
        self.call.setEnabled(False)
        self.stop.setEnabled(True)
        if self.window().focusWidget() is self.call:
            self.stop.setFocus()
        self.result.clear()
        self.state.show_text(self.tr("running"), "spinner", "run")

    def show_outcome(self, outcome: Outcome | None, seconds: float) -> None:
        """What came of it, after how long; None for a call that was stopped."""
        if self.window().focusWidget() is self.stop:
            self.call.setFocus()
        self.call.setEnabled(True)
        self.stop.setEnabled(False)
        took = seconds_text(seconds)
        if outcome is None:
            self.state.show_text(self.tr("stopped after %1").replace("%1", took), "stop")
            return
        self.result.setPlainText(visible_text(outcome.output))
        if outcome.failed:
            self.state.show_text(self.tr("failed after %1").replace("%1", took), "failed", "err")
        else:
            size = self.tr("%1, %2 characters").replace("%2", f"{len(outcome.output):,}")
            self.state.show_text(size.replace("%1", took), "ok", "ok")

    def _call(self) -> None:
        if self._tool is None:
            return
        try:
            arguments = typed_arguments(self._tool.definition.parameters, self.fields.texts())
        except ValueError as error:
            self._fault.show_fault(str(error))
            return
        missing = [key for key in self.fields.missing() if key not in arguments]
        if missing:
            self._fault.show_fault(self.tr("%1 has no value.").replace("%1", missing[0]))
            self.fields.focus_key(missing[0])
            return
        self._fault.show_fault("")
        self.called.emit(arguments)

    def restyle(self) -> None:
        """Take the present fonts and colours; also after it got another parent, which makes labels forget theirs."""
        for title in (self._title, self._result_title):
            title.setFont(theme.font(13, 600))
        self._why_not.setFont(theme.font(12))
        self.result.setFont(theme.font(12, mono=True))
        for button, icon, color in ((self.call, "run", "on.fill"), (self.stop, "stop", "err")):
            button.setIcon(theme.icon(icon, 14, color))
            button.setIconSize(QSize(theme.px(14), theme.px(14)))
