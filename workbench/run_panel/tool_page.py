"""What one call of a tool got and gave, in the place of the streams."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QSplitter, QVBoxLayout, QWidget

from engine.events import ToolCalled
from workbench.run_panel.labels import Figures
from workbench.run_panel.run_state import StreamedText
from workbench.run_panel.statistics_line import Figure
from workbench.run_panel.stream_text import PaneFlusher, StreamText, View
from workbench.text_format import seconds_text, visible_text
from workbench.theme import theme
from workbench.widgets.icon_label import IconLabel


class ToolPage(QWidget):
    """Arguments beside the result."""

    def __init__(self, flusher: PaneFlusher, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._call: ToolCalled | None = None
        self.arguments = StreamText(flusher, "text", self)
        self.result = StreamText(flusher, "text", self)
        self.arguments.setAccessibleName(self.tr("Arguments"))
        self.result.setAccessibleName(self.tr("Result"))
        self._icon = IconLabel("tool", "text2", 14, self)
        self._name = Figures(12, 600, "text", self)
        self._result_name = Figures(12, 600, "text", self)
        self._splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setHandleWidth(1)
        self._heads: list[QWidget] = []
        self._add_side(self.arguments, self._name, self._icon)
        self._add_side(self.result, self._result_name)
        self._splitter.setSizes([1000, 1000])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._splitter)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _add_side(self, text: StreamText, name: Figures, icon: IconLabel | None = None) -> None:
        side = QWidget(self)
        head = QWidget(side)
        row = QHBoxLayout(head)
        row.setSpacing(theme.px(8))
        if icon is not None:
            row.addWidget(icon)
        name.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        row.addWidget(name, 1)
        column = QVBoxLayout(side)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(head)
        column.addWidget(text, 1)
        self._heads.append(head)
        self._splitter.addWidget(side)

    def _restyle(self) -> None:
        for head in self._heads:
            head.setFixedHeight(theme.px(28))
            row = head.layout()
            if row is not None:
                row.setContentsMargins(theme.px(12), 0, theme.px(12), 0)

    def show_call(self, call: ToolCalled) -> None:
        """Show this call."""
        if call is self._call:
            return
        self._call = call
        failed = call.failed
        self._icon.show_icon("failed" if failed else "tool", "err" if failed else "text2")
        name = visible_text(call.name)
        self._name.setText(self.tr("Arguments of %1").replace("%1", name))
        self._result_name.setText(self.tr("Failed with") if failed else self.tr("Result"))
        self._result_name.set_color("err" if failed else "text")
        self.arguments.setAccessibleName(self._name.text())
        self.result.setAccessibleName(self._result_name.text())
        for pane, text in ((self.arguments, call.arguments), (self.result, call.output)):
            source = StreamedText()
            source.settle(text)
            pane.bind(source, live=False)
        self.arguments.setPlaceholderText(self.tr("It was called without arguments."))
        self.result.setPlaceholderText(self.tr("It gave nothing."))

    def choose_view(self, view: View) -> None:
        """Show both rendered, raw or as JSON."""
        self.arguments.choose_view(view)
        self.result.choose_view(view)

    def figures(self) -> list[Figure]:
        """What stands in the line below."""
        if self._call is None:
            return []
        failed = self._call.failed
        outcome = self.tr("failed") if failed else self.tr("done")
        return [
            Figure(self.tr("Tool"), visible_text(self._call.name)),
            Figure(self.tr("Time"), seconds_text(self._call.seconds)),
            Figure(self.tr("Outcome"), outcome, color="err" if failed else "text"),
        ]

    @property
    def full_text(self) -> str:
        """The whole call, for the clipboard."""
        call = self._call
        return "" if call is None else f"{call.name}\n{call.arguments}\n\n{call.output}"
