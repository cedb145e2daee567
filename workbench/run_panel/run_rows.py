"""The rows of a run: agent executions, their branches, their attempts, with time, tokens and cost."""

from dataclasses import dataclass, field
from enum import IntEnum

from PySide6.QtCore import QAbstractItemModel, QCoreApplication, QModelIndex, QObject, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QColor, QFont

from engine.events import Graded, Statistics, ToolCalled
from workbench.run_panel.labels import (
    GRADE_LOOKS,
    grade_sentence,
    grade_text,
    grade_word,
    state_look,
    state_word,
)
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import GOOD_STATES, Attempt, Branch, State, Step, Totals, grade_outcome
from workbench.run_panel.statistics_line import cost_of_attempt
from workbench.text_format import audit_text, cost_text, plain_tip, seconds_text, stale_text, tokens_text, visible_text
from workbench.theme import theme

Index = QModelIndex | QPersistentModelIndex


class Column(IntEnum):
    """Columns of the tree."""

    STEP = 0
    TIME = 1
    TOKENS = 2
    COST = 3


@dataclass(eq=False, slots=True)
class Row:
    """One line: an execution, a branch, an attempt, a tool that ran, or an agent that has not begun."""

    parent: "Row | None"
    number: int = 0
    step: Step | None = None
    branch: Branch | None = None
    attempt: Attempt | None = None
    tool: ToolCalled | None = None
    waiting: str = ""
    """Name of an agent that has not begun."""
    repeated: bool = False
    """Whether there are more executions of the same agent."""
    rows: list["Row"] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """1 for an execution, one more for each line above."""
        return 1 if self.parent is None or self.parent.parent is None else self.parent.depth + 1

    @property
    def only_branch(self) -> Branch | None:
        """The branch this line stands for, None for an execution with several."""
        if self.branch is not None:
            return self.branch
        if self.step is not None and self.step.splits < 2 and len(self.step.branches) == 1:
            return next(iter(self.step.branches.values()))
        return None

    @property
    def state(self) -> State:
        """State to show."""
        if self.tool is not None:
            return State.FAILED if self.tool.failed else State.DONE
        if self.attempt is not None:
            return self.attempt.state
        if self.branch is not None:
            return self.branch.state
        return self.step.state if self.step is not None else State.QUEUED

    @property
    def warned(self) -> bool:
        """Whether the line got over trouble."""
        if self.attempt is not None:
            return bool(self.attempt.retries or self.attempt.stale)
        part = self.branch or self.step
        return part is not None and part.warned

    @property
    def grade(self) -> Graded | None:
        """What a grader made of the one answer this line stands for."""
        branch = self.only_branch
        return branch.grade if branch is not None else None

    @property
    def look(self) -> tuple[str, str]:
        """Icon and colour token: a grade tells more than that the grader answered."""
        if self.waiting:
            return "pending", "muted"
        if self.tool is not None:
            return ("failed", "err") if self.tool.failed else ("tool", "text2")
        grade = self.grade
        if grade is not None and self.state in GOOD_STATES:
            return GRADE_LOOKS[grade_outcome(grade)]
        return state_look(self.state, self.warned)

    @property
    def note(self) -> tuple[str, str]:
        """What is said behind the name, and its colour token: a grade, the arguments of a tool."""
        if self.tool is not None:
            return " ".join(self.tool.arguments[:200].split()), "muted"
        branch = self.only_branch
        attempt = self.attempt or (branch.attempt if branch is not None else None)
        if attempt is not None and attempt.audit is not None:
            return audit_text(attempt.audit), "warn"
        if attempt is not None and attempt.from_thinking:
            return QCoreApplication.translate("RunRows", "thinking taken as answer"), "reason"
        grade = self.grade
        if grade is not None:
            return grade_text(grade), GRADE_LOOKS[grade_outcome(grade)][1]
        if self.step is not None and self.step.grades and self.branch is None:
            counts = (f"{count} {grade_word(outcome)}" for outcome, count in self.step.grades.items() if count)
            return ", ".join(counts), "text2"
        return "", ""

    @property
    def kept(self) -> bool:
        """Whether it was finished in the run that this one goes on from."""
        if self.attempt is not None or self.tool is not None:
            return self.parent is not None and self.parent.kept
        part = self.branch or self.step
        return part is not None and part.kept

    @property
    def agent(self) -> str:
        """The agent this line belongs to."""
        if self.step is not None:
            return self.step.agent
        return self.waiting or (self.parent.agent if self.parent is not None else "")

    @property
    def name(self) -> str:
        """Text of the first column; a count stands first, so that eliding keeps it.

        Executions of the same agent on several branches are told apart by their paths.
        """
        if self.tool is not None:
            return self.tool.name
        if self.attempt is not None:
            return QCoreApplication.translate("RunRows", "attempt %1").replace("%1", str(self.attempt.number))
        if self.branch is not None:
            return f"{self.branch.index}/{self.branch.count}  {self.branch.label}".rstrip()
        if self.step is None:
            return self.waiting
        count = max(self.step.splits, len(self.step.branches))
        name = self.step.agent
        if self.step.within:
            name = name.rpartition("/")[2]
        elif self.repeated and self.step.path:
            name = f"{name} · {self.step.path}"
        return f"{self.step.done_count}/{count}  {name}" if count > 1 else name


class RunRows(QAbstractItemModel):
    """The run as rows for a tree view."""

    def __init__(self, run: RunModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._run = run
        self._root = Row(None)
        self._steps: dict[int, Row] = {}
        self._top = 0
        """Executions that are not inside of another."""
        self._first: dict[str, Row] = {}
        """The first execution of each agent."""
        self._branches: dict[tuple[int, str], Row] = {}
        theme.changed.connect(self._read_theme)
        self._read_theme()
        run.run_started.connect(self.reset)
        run.step_started.connect(self._add_step)
        run.branch_started.connect(self._add_branch)
        run.attempt_started.connect(self._add_attempt)
        run.tool_called.connect(self._add_tool)
        run.graded.connect(self._show_grade)

    def reset(self) -> None:
        """Begin with the agents that are known to come."""
        self.beginResetModel()
        self._root = Row(None)
        self._steps.clear()
        self._top = 0
        self._first.clear()
        self._branches.clear()
        for name in self._run.profiles:
            if "/" in name:
                continue  # inside of a node, which has a line of its own first
            self._root.rows.append(Row(self._root, waiting=name))
        self.endResetModel()

    # -- growing ----------------------------------------------------------------------------------------------------

    def _add_step(self, number: int) -> None:
        step = self._run.steps[number]
        if (around := self._around(step)) is not None:
            self._steps[number] = self._append(around, Row(around, step=step))
            return
        place = self._top
        self._top += 1
        self.beginInsertRows(QModelIndex(), place, place)
        row = Row(self._root, place, step=step)
        first = self._first.setdefault(step.agent, row)
        self._root.rows.insert(place, row)
        self._steps[number] = row
        self.endInsertRows()
        if row is not first:
            first.repeated = row.repeated = True
            self.dataChanged.emit(self.index_of(first), self.index_of(row))
        for later in range(place + 1, len(self._root.rows)):
            if self._root.rows[later].waiting == step.agent:
                self.beginRemoveRows(QModelIndex(), later, later)
                del self._root.rows[later]
                self.endRemoveRows()
                break

    def _around(self, step: Step) -> Row | None:
        """The line of the node, or of its branch, that an execution happens inside of."""
        path = step.path
        while path and (step.within, path) not in self._branches:
            path = path.rpartition(".")[0]
        return self._branches.get((step.within, path)) or self._steps.get(step.within)

    def _add_branch(self, number: int, path: str) -> None:
        row = self._steps[number]
        step = self._run.steps[number]
        branch = step.branches[path]
        if branch.count > 1:
            self._branches[number, path] = self._append(row, Row(row, branch=branch))
        else:
            self._branches[number, path] = row

    def _add_attempt(self, number: int, path: str, _attempt: int) -> None:
        if len(self._run.steps[number].branches[path].attempts) > 1:  # else the line of the branch tells all
            self._attempt_rows(number, path)

    def _attempt_rows(self, number: int, path: str) -> list[Row]:
        """The lines of all attempts of a branch, those that were missing too."""
        row = self._branches[number, path]
        shown = [one for one in row.rows if one.attempt is not None]
        attempts = self._run.steps[number].branches[path].attempts
        return shown + [self._append(row, Row(row, attempt=attempt)) for attempt in attempts[len(shown) :]]

    def _add_tool(self, number: int, path: str) -> None:
        row = self._attempt_rows(number, path)[-1]
        if row.attempt is not None:
            self._append(row, Row(row, tool=row.attempt.tools[-1]))

    def _show_grade(self, number: int, path: str) -> None:
        index = self.index_of(self._branches[number, path])
        self.dataChanged.emit(index, index)

    def _append(self, parent: Row, row: Row) -> Row:
        row.number = len(parent.rows)
        self.beginInsertRows(self.index_of(parent), row.number, row.number)
        parent.rows.append(row)
        self.endInsertRows()
        return row

    # -- what a view asks -------------------------------------------------------------------------------------------

    def row_of(self, index: Index) -> Row:
        """The line behind an index."""
        row = index.internalPointer() if index.isValid() else self._root
        return row if isinstance(row, Row) else self._root

    def index_of(self, row: Row, column: int = 0) -> QModelIndex:
        """The index of a line."""
        if row is self._root:
            return QModelIndex()
        number = row.number if row.waiting == "" else self._root.rows.index(row)
        return self.createIndex(number, column, row)

    @property
    def branch_count(self) -> int:
        """Branches with a line."""
        return len(self._branches)

    def step_row(self, number: int) -> Row | None:
        """The line of an execution."""
        return self._steps.get(number)

    def waiting_row(self, agent: str) -> Row | None:
        """The line of an agent that has not begun."""
        return next((row for row in self._root.rows if row.waiting == agent), None)

    def branch_row(self, number: int, path: str) -> Row | None:
        """The line of a branch."""
        return self._branches.get((number, path))

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:  # noqa: B008
        """Qt: index of a child."""
        rows = self.row_of(parent).rows
        return self.createIndex(row, column, rows[row]) if 0 <= row < len(rows) else QModelIndex()

    def parent(self, index: Index = QModelIndex()) -> QModelIndex:  # type: ignore[override]  # noqa: B008
        """Qt: index of the parent."""
        above = self.row_of(index).parent
        return QModelIndex() if above is None or above is self._root else self.index_of(above)

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """Qt: number of children."""
        return len(self.row_of(parent).rows) if parent.column() <= 0 else 0

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """Qt: number of columns."""
        return len(Column)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Qt: names of the columns."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return (self.tr("Step"), self.tr("Time"), self.tr("Tokens"), self.tr("Cost"))[section]
        if role == Qt.ItemDataRole.TextAlignmentRole and section:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Qt: what to show."""
        row = self.row_of(index)
        column = index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self.text(row, column)
        if role == Qt.ItemDataRole.TextAlignmentRole and column:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.ForegroundRole:
            return self.color(row, column)
        if role == Qt.ItemDataRole.FontRole:
            return self.font(row, column)
        if role == Qt.ItemDataRole.SizeHintRole:
            return QSize(theme.px(60), theme.px(24))
        if role == Qt.ItemDataRole.ToolTipRole and column == Column.STEP:
            return plain_tip(_tip_text(row))
        if role == Qt.ItemDataRole.AccessibleTextRole and column == Column.STEP:
            return f"{visible_text(row.name)}, {_state_text(row)}"
        return None

    def text(self, row: Row, column: int) -> str:
        """Text of a cell."""
        if column == Column.STEP:
            return visible_text(row.name)
        if row.waiting:
            return "–"
        now = self._run.now()
        if column == Column.TIME:
            return _time_text(row, now)
        return _tokens_text(row) if column == Column.TOKENS else _cost_text(row)

    def color(self, row: Row, column: int) -> QColor:
        """Colour of a cell."""
        if row.waiting or row.state is State.QUEUED or row.kept:
            return self._colors["muted"]
        return self._colors["text" if column == Column.STEP and row.attempt is None else "text2"]

    def _read_theme(self) -> None:
        self._colors = {token: theme.color(token) for token in ("text", "text2", "muted")}

    @staticmethod
    def font(row: Row, column: int) -> QFont:
        """Font of a cell: bold while its agent runs."""
        running = row.step is not None and row.state is State.RUNNING
        return theme.font(13 if column == Column.STEP else 12, 600 if running and column == Column.STEP else 400)


def _state_text(row: Row) -> str:
    """The state in words, with what has changed since a frozen answer came, and whether it is an earlier run's."""
    words = [state_word(row.state)]
    branch = row.only_branch or (row.parent.only_branch if row.attempt is not None and row.parent else None)
    attempt = row.attempt or (branch.attempt if branch is not None else None)
    if attempt is not None and attempt.stale:
        stale = QCoreApplication.translate("RunRows", "stale: %1")
        words.append(stale.replace("%1", stale_text(attempt.stale)))
    if row.note[0]:
        words.append(visible_text(row.note[0]))
    if row.kept:
        words.append(QCoreApplication.translate("RunRows", "kept from the run before"))
    return ", ".join(words)


def _tip_text(row: Row) -> str:
    """The name and the state; of a grade what the grader says, of a tool what it gave."""
    if row.tool is not None:
        return f"{row.tool.name} {row.tool.arguments[:500]}\n→ {row.tool.output[:500]}"
    text = f"{row.name}: {_state_text(row)}"
    return f"{text}\n{grade_sentence(row.grade)}" if row.grade is not None and row.grade.explanation else text


def _time_text(row: Row, now: float) -> str:
    if row.tool is not None:
        return seconds_text(row.tool.seconds)
    part = row.attempt or row.branch or row.step
    if part is None or row.state in (State.QUEUED, State.CACHED, State.FROZEN):
        return "–"
    return seconds_text(part.seconds(now))


def _only_attempt(row: Row) -> Attempt | None:
    if row.attempt is not None:
        return row.attempt
    if row.branch is not None:
        return row.branch.attempts[0] if len(row.branch.attempts) == 1 else None
    if row.step is not None and row.step.asked == 1:
        return next(iter(row.step.attempts()), None)
    return None


def _sums(row: Row) -> tuple[Totals, list[Attempt]]:
    """What the line's finished requests used, and those still under way."""
    if row.step is not None:
        return row.step.totals, list(row.step.open_attempts)
    attempts = row.branch.attempts if row.branch is not None else []
    done = Totals.of(one.statistics for one in attempts if one.statistics is not None)
    return done, [one for one in attempts if one.statistics is None]


def _tokens_text(row: Row) -> str:
    single = _only_attempt(row)
    if single is not None:
        content, estimated = single.content_tokens()
        out = content + single.reasoning_tokens()[0]
        text = tokens_text(out, estimated) if out or not estimated else "–"
        return _in_and_out(single.statistics, text) if single.statistics is not None else text
    sums, under_way = _sums(row)
    if sums.cached_prompts and not sums.requests and not under_way:
        return f"{tokens_text(sums.kept_in)} → {tokens_text(sums.kept_out)}"
    total = sums.statistics()
    out = total.out_tokens + total.reasoning_out_tokens
    out += sum(one.content_tokens()[0] + one.reasoning_tokens()[0] for one in under_way)
    text = tokens_text(out, total.estimated or bool(under_way)) if out or total.requests else "–"
    return _in_and_out(total, text)


def _in_and_out(used: Statistics, out: str) -> str:
    """`115 → 27`, or only what came out while the server has not counted what went in."""
    given = used.in_tokens + used.cached_in_tokens
    return f"{tokens_text(given, used.estimated)} → {out}" if given else out


def _cost_text(row: Row) -> str:
    single = _only_attempt(row)
    if single is not None:
        return cost_of_attempt(single)
    sums, under_way = _sums(row)
    total = sums.statistics()
    if not total.requests:
        if row.state is State.FROZEN:
            return QCoreApplication.translate("RunRows", "frozen")
        return QCoreApplication.translate("RunRows", "cached") if total.cached_prompts else "–"
    return cost_text(total.cost, total.provenance, lower_bound=bool(under_way))
