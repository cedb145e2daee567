"""What a tool is: its description, what it may do, its arguments as a table."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QScrollArea,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from engine import Tool
from engine.flow.tool_form import schema_rows
from workbench.text_format import plain_tip, visible_text
from workbench.theme import theme
from workbench.toolbox.tool_entries import ToolEntry
from workbench.widgets.chip import Chip
from workbench.widgets.elided import ElidedLabel
from workbench.widgets.icon_label import IconLabel
from workbench.widgets.row_delegate import RowDelegate

SHOWN_ROWS = 12
"""Of the table, at once."""


class ToolView(QWidget):
    """Read-only, apart from a button that loads a plug-in."""

    load_wanted = Signal()
    """The person wants the plug-in of a package loaded."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._name = ElidedLabel(self)
        self.asks, self.restricted = Chip(self), Chip(self, kind="warn")
        self._description, self._abilities_title, self._arguments_title = QLabel(self), QLabel(self), QLabel(self)
        self._abilities_title.setText(self.tr("What it may do"))
        self._arguments_title.setText(self.tr("Arguments"))
        self._facts = QGridLayout()
        self._facts.setHorizontalSpacing(theme.px(16))
        self._facts.setVerticalSpacing(theme.px(6))
        self._facts.setColumnStretch(1, 1)
        self.facts: list[tuple[str, str]] = []
        """What is said of it: a name and a text each."""
        self._labels: list[QLabel] = []
        self.table = self._build_table()
        self._no_arguments = QLabel(self.tr("It takes no arguments."), self)
        self._no_arguments.setProperty("role", "muted")
        self.load = QPushButton(self.tr("&Load it"), self)
        self.load.setToolTip(self.tr("Import the package that it is in; its code runs inside of the workbench"))
        self.load.clicked.connect(self.load_wanted)
        self._lay_out()
        theme.changed.connect(self._restyle)
        self._restyle()

    def _build_table(self) -> QTreeWidget:
        table = QTreeWidget(self)
        table.setHeaderLabels([self.tr("Name"), self.tr("Type"), self.tr("Needed"), self.tr("Description")])
        table.setRootIsDecorated(False)
        table.setUniformRowHeights(True)
        table.setAllColumnsShowFocus(True)
        table.setItemDelegate(RowDelegate(28, table))
        table.setAccessibleName(self.tr("Arguments"))
        table.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        table.header().setStretchLastSection(True)
        return table

    def _lay_out(self) -> None:
        inner = QWidget(self)
        head = QHBoxLayout()
        head.setSpacing(theme.px(8))
        for widget in (IconLabel("tool", "text2", 16, inner), self._name, self.asks, self.restricted):
            head.addWidget(widget)
        head.addStretch(1)
        column = QVBoxLayout(inner)
        column.setContentsMargins(*(theme.px(16),) * 4)
        column.setSpacing(theme.px(10))
        column.addLayout(head)
        column.addWidget(self._description)
        column.addWidget(self._abilities_title)
        column.addLayout(self._facts)
        column.addWidget(self._arguments_title)
        column.addWidget(self.table)
        column.addWidget(self._no_arguments)
        column.addWidget(self.load, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inner)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(area)
        for label in (self._description, self._abilities_title, self._arguments_title):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)

    def show_tool(self, entry: ToolEntry, tool: Tool | None, facts: Sequence[tuple[str, str]]) -> None:
        """Show a tool, or what is known of one that is not loaded."""
        self._name.setText(visible_text(entry.name))
        asks = tool is None or tool.side_effects
        self.asks.say(self.tr("asks first") if asks else self.tr("only computes"), "accent" if asks else "ok")
        self.restricted.say("" if entry.trusted else self.tr("not trusted"))
        unknown = self.tr("What it does is known once it is loaded.")
        self._description.setText(visible_text(tool.definition.description) if tool is not None else unknown)
        self._show_facts(facts)
        rows = schema_rows(tool.definition.parameters) if tool is not None else []
        self.table.clear()
        for row in rows:
            needed = self.tr("yes") if row.required else self.tr("no")
            if row.default:
                needed = self.tr("no, %1").replace("%1", visible_text(row.default))
            texts = [visible_text(row.name), row.type, needed, visible_text(row.description)]
            item = QTreeWidgetItem(self.table, texts)
            item.setFont(0, theme.font(12, mono=True))
            item.setToolTip(3, plain_tip(row.description))
        self.table.setVisible(bool(rows))
        self._no_arguments.setVisible(tool is not None and not rows)
        self._arguments_title.setVisible(tool is not None)
        self.load.setVisible(tool is None)
        self._fit_table()

    def _show_facts(self, facts: Sequence[tuple[str, str]]) -> None:
        if list(facts) == self.facts:
            return
        self.facts = list(facts)
        for label in self._labels:
            self._facts.removeWidget(label)
            label.hide()
            label.deleteLater()
        self._labels = []
        for row, (name, text) in enumerate(facts):
            for column, words in enumerate((name, text)):
                label = QLabel(visible_text(words), self)
                label.setTextFormat(Qt.TextFormat.PlainText)
                label.setWordWrap(column == 1)
                label.setProperty("role", "" if column else "secondary")
                self._facts.addWidget(label, row, column, Qt.AlignmentFlag.AlignTop)
                self._labels.append(label)
        self._restyle()

    def _fit_table(self) -> None:
        rows = min(self.table.topLevelItemCount(), SHOWN_ROWS)
        self.table.setFixedHeight(theme.px(28) * (rows + 1) + theme.px(4))

    def _restyle(self) -> None:
        self._name.setFont(theme.font(15, 600))
        for title in (self._abilities_title, self._arguments_title):
            title.setFont(theme.font(13, 600))
            title.setContentsMargins(0, theme.px(8), 0, 0)
        for label in (self._description, self._no_arguments):
            label.setFont(theme.font(13))
        for label in self._labels:
            label.setFont(theme.font(12))
        self.table.setFont(theme.font(12))
        self.table.header().setFont(theme.font(11))
        self._fit_table()
