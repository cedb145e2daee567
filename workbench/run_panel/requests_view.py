"""The Requests tab: a line for each model request of the run, live, with all its figures in the tip."""

from dataclasses import dataclass
from datetime import datetime

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QBrush, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QVBoxLayout, QWidget

from engine.completion import Phase
from engine.events import AnyEvent, ChunkReceived, PhaseChanged, PromptReady, RunFinished
from engine.request_records import RequestRecord, RequestRecords
from workbench.run_panel.statistics_view import FigureDelegate
from workbench.text_format import cost_text, plain_rate_text, plain_tip, seconds_text, tokens_text, visible_text
from workbench.theme import theme

Index = QModelIndex | QPersistentModelIndex
_NO_INDEX = QModelIndex()

NUMBER, AGENT, PROFILE, HOST, WAITED, FIRST, TIME, TOKENS_IN, TOKENS_OUT, SPEED, COST, END = range(12)
LEAST_NEEDED = (HOST, SPEED, WAITED, FIRST, PROFILE, TIME)
"""Columns that go when there is no room, in this order."""
WIDTHS = {
    NUMBER: 56, PROFILE: 120, HOST: 150, WAITED: 84, FIRST: 96, TIME: 84, TOKENS_IN: 76, TOKENS_OUT: 76, SPEED: 80,
    COST: 90, END: 200,
}  # fmt: skip
"""Design px; the agent takes what is left."""
AGENT_WIDTH = 150
"""Design px it keeps."""


@dataclass(slots=True)
class _Line:
    """One request."""

    prompt: PromptReady
    phase: Phase | None = None
    record: RequestRecord | None = None


class RequestsModel(QAbstractTableModel):
    """The requests of one run, in the order in which they began."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.names = (
            self.tr("No."), self.tr("Agent"), self.tr("Profile"), self.tr("Host"), self.tr("Waited"),
            self.tr("First token"), self.tr("Time"), self.tr("In"), self.tr("Out"), self.tr("tok/s"), self.tr("Cost"),
            self.tr("End"),
        )  # fmt: skip
        self._lines: list[_Line] = []
        self._places: dict[tuple[int, str, int], int] = {}
        self._records = RequestRecords()

    def clear(self) -> None:
        """Forget the run."""
        self.beginResetModel()
        self._lines.clear()
        self._places.clear()
        self._records = RequestRecords()
        self.endResetModel()

    def apply(self, event: AnyEvent) -> None:
        """Take the next event of the run."""
        if isinstance(event, ChunkReceived):  # there are many, and no figure follows from one
            return
        record = self._records.add(event)
        if isinstance(event, PromptReady):
            row = len(self._lines)
            self.beginInsertRows(_NO_INDEX, row, row)
            self._lines.append(_Line(event))
            self._places[event.step, event.branch, event.attempt] = row
            self.endInsertRows()
        elif isinstance(event, PhaseChanged):
            self._change(self._places.get((event.step, event.branch, event.attempt)), event.phase)
        elif record is not None:
            self._change(self._places.get((record.step, record.branch, record.attempt)), None, record)
        elif isinstance(event, RunFinished) and self._lines:
            # What did not end by itself ended with the run.
            self.dataChanged.emit(self.index(0, END), self.index(len(self._lines) - 1, END))

    def _change(self, row: int | None, phase: Phase | None, record: RequestRecord | None = None) -> None:
        if row is None:
            return
        self._lines[row].phase, self._lines[row].record = phase, record
        self.dataChanged.emit(self.index(row, 0), self.index(row, END))

    def place(self, row: int) -> tuple[int, str]:
        """Step number and branch path of a line."""
        prompt = self._lines[row].prompt
        return prompt.step, prompt.branch

    def rowCount(self, parent: Index = _NO_INDEX) -> int:
        """How many requests there are."""
        return 0 if parent.isValid() else len(self._lines)

    def columnCount(self, parent: Index = _NO_INDEX) -> int:
        """How many figures each has."""
        return 0 if parent.isValid() else len(self.names)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The name of a column."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(section)
        return self.names[section] if role == Qt.ItemDataRole.DisplayRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """What a cell shows."""
        line, column = self._lines[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return visible_text(self._text(line, index.row(), column))
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.FontRole:
                return theme.font(12)
            case Qt.ItemDataRole.ForegroundRole:
                failed = column == END and line.record is not None and line.record.error
                return QBrush(theme.color("err" if failed else "text" if column == AGENT else "text2"))
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self.details(line.record)) if line.record is not None else None
        return None

    def _text(self, line: _Line, row: int, column: int) -> str:
        prompt, record = line.prompt, line.record
        if column == NUMBER:
            return f"{row + 1:,}"
        if column == AGENT:
            return f"{prompt.agent} {prompt.branch}".rstrip()
        if column == PROFILE:
            return record.profile if record is not None else prompt.profile
        if record is None:
            return (line.phase.value if line.phase is not None else "…") if column == END else ""
        return _figure(record, column) if column != END else self._end(record)

    def _end(self, record: RequestRecord) -> str:
        if record.error:
            return record.error
        return self.tr("from the cache") if record.cached else record.finish_reason

    def details(self, record: RequestRecord) -> str:
        """All that is known of a request, in lines."""
        pairs = [
            (self.tr("Model"), record.model),
            (self.tr("Server"), ", ".join(filter(None, (record.provider, record.host)))),
            (self.tr("Started"), _clock(record.started)),
            (self.tr("Ended"), _clock(record.ended)),
            (self.tr("Prompt"), record.prompt_hash),
            (self.tr("Shortened"), self._shortened(record)),
            (self.tr("Cached in"), tokens_text(record.cached_in_tokens) if record.cached_in_tokens else ""),
            (self.tr("Reasoning"), tokens_text(record.reasoning_out_tokens) if record.reasoning_out_tokens else ""),
            (self.tr("Tools called"), ", ".join(record.tools)),
            (self.tr("Malformed events"), f"{record.skipped_events:,}" if record.skipped_events else ""),
            (self.tr("Sent"), _size(record.bytes_sent)),
            (self.tr("Received"), _size(record.bytes_received)),
            (self.tr("Memory of the program"), _size(record.memory)),
            *((self.tr("Attempt"), str(one)) for one in record.attempts),
        ]
        return "\n".join(f"{name}: {value}" for name, value in pairs if value)

    def _shortened(self, record: RequestRecord) -> str:
        if not record.prompt_tokens:
            return ""
        text = self.tr("%1 of %2 tokens sent, %3 turns left out").replace("%3", str(record.dropped_turns))
        return text.replace("%2", f"{record.prompt_tokens:,}").replace("%1", f"{record.sent_tokens:,}")


class RequestsView(QWidget):
    """Follows one run by itself; a click on a line shows its branch."""

    branch_chosen = Signal(int, str)
    """Step number, branch path."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = RequestsModel(self)
        self.table = QTableView(self)
        self.table.setModel(self.model)
        self.table.setShowGrid(False)
        self.table.setWordWrap(False)
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.table.setItemDelegate(FigureDelegate(self.table))
        self.table.setTabKeyNavigation(False)
        self.table.setAccessibleName(self.tr("Requests"))
        self.table.verticalHeader().hide()
        self.table.clicked.connect(self._choose)
        self.table.activated.connect(self._choose)
        header = self.table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(False)
        header.setMinimumSectionSize(1)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(AGENT, QHeaderView.ResizeMode.Stretch)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.table)
        theme.changed.connect(self._restyle)
        self._restyle()

    def apply(self, event: AnyEvent) -> None:
        """Take the next event of the run."""
        self.model.apply(event)

    def clear(self) -> None:
        """Forget the run."""
        self.model.clear()

    def _choose(self, index: QModelIndex) -> None:
        self.branch_chosen.emit(*self.model.place(index.row()))

    def _restyle(self) -> None:
        self.table.setFont(theme.font(12))
        header = self.table.horizontalHeader()
        header.setFont(theme.font(11))
        header.setFixedHeight(theme.px(26))
        header.setStyleSheet(f"QHeaderView::section {{ padding: 0 {theme.px(10)}px; }}")
        self.table.verticalHeader().setDefaultSectionSize(theme.px(24))
        for column, width in WIDTHS.items():
            header.resizeSection(column, theme.px(width))
        self._hide_columns()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out what has no room."""
        super().resizeEvent(event)
        self._hide_columns()

    def _hide_columns(self) -> None:
        wanted = theme.px(AGENT_WIDTH) + sum(map(theme.px, WIDTHS.values()))
        for column in LEAST_NEEDED:
            hidden = wanted > self.width()
            self.table.setColumnHidden(column, hidden)
            wanted -= theme.px(WIDTHS[column]) if hidden else 0

    @property
    def text(self) -> str:
        """The table as lines with tabs, for the clipboard."""
        rows = range(self.model.rowCount())
        columns = range(len(self.model.names))
        lines = ["\t".join(str(self.model.index(row, column).data()) for column in columns) for row in rows]
        return "\n".join(["\t".join(self.model.names), *lines])


def _alignment(column: int) -> int:
    left = column in (AGENT, PROFILE, HOST, END)
    side = Qt.AlignmentFlag.AlignLeft if left else Qt.AlignmentFlag.AlignRight
    return int(side | Qt.AlignmentFlag.AlignVCenter)


def _figure(record: RequestRecord, column: int) -> str:
    if column in (TOKENS_IN, TOKENS_OUT, COST) and not (record.requests or record.cached):
        return ""  # nothing came, which is not the same as 0 tokens of an answer
    texts = {
        HOST: record.host,
        WAITED: seconds_text(record.waited) if record.waited else "",
        FIRST: "" if record.first_token is None else seconds_text(record.first_token),
        TIME: seconds_text(record.seconds),
        TOKENS_IN: tokens_text(record.in_tokens + record.cached_in_tokens, record.estimated),
        TOKENS_OUT: tokens_text(record.out_tokens + record.reasoning_out_tokens, record.estimated),
        SPEED: plain_rate_text(record.tokens_per_second, record.estimated) if record.tokens_per_second else "",
        COST: cost_text(record.cost, record.provenance) if record.requests else "",
    }
    return texts[column]


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def _size(count: int) -> str:
    if not count:
        return ""
    if count < 10_000:
        return f"{count:,} B"
    return f"{count / 1000:,.0f} kB" if count < 10_000_000 else f"{count / 1_000_000:,.0f} MB"
