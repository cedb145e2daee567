"""Two recorded runs side by side: what is the same, what differs, and the words that came and went."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QToolButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from engine import Engine, RunRow
from engine.errors import RunNotFound
from engine.events import RunFinished
from engine.history_queries import RecordedRun
from engine.run_comparison import Pair, RunComparison, compare_runs, figures
from engine.run_story import Branch
from engine.statistics import weakest
from workbench.run_looks import run_look, run_text
from workbench.run_panel.labels import Figures
from workbench.tasks import Tasks
from workbench.text_format import cost_text, seconds_text, tokens_text, visible_text
from workbench.theme import theme
from workbench.widgets.difference_view import DifferenceView
from workbench.widgets.elided import ElidedComboBox
from workbench.widgets.empty_place import EmptyPlace
from workbench.widgets.row_delegate import RowDelegate

MOST_RUNS = 200
"""Runs to choose from, the newest."""
STEP, CHANGED, TOKENS, TIME, COST = range(5)
NAME_WIDTH = 160
"""What the name of a step has at least, in px of the design."""
ROW_ROLE = Qt.ItemDataRole.UserRole + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line of the table: texts of both runs by page (answer, prompt, keys)."""

    name: str
    changed: str
    same: bool
    figures: tuple[str, str, str]
    pages: tuple[tuple[str, str], ...]


class RunComparisonDialog(QDialog):
    """`show_runs` and show it; both runs can be chosen anew."""

    compared = Signal()
    """What was chosen is on show."""

    def __init__(self, engine: Engine, tasks: Tasks, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("Compare runs"))
        self.setObjectName("run_comparison")
        self._engine = engine
        self._tasks = tasks
        self._rows: dict[str, RunRow] = {}
        self._lines: list[_Line] = []
        self._asked = 0
        """How often a comparison was asked for; only the last one is shown."""
        self.choices = (ElidedComboBox(self), ElidedComboBox(self))
        self._facts = (Figures(12, 400, "text2", self), Figures(12, 400, "text2", self))
        self._swap = QToolButton(self)
        self._swap.setToolTip(self.tr("Swap the two runs"))
        self._swap.setAccessibleName(self._swap.toolTip())
        self._swap.clicked.connect(self._swap_runs)
        self.summary = QLabel(self)
        self.summary.setTextFormat(Qt.TextFormat.PlainText)
        self.summary.setWordWrap(True)
        self.only_different = QCheckBox(self.tr("&Only what differs"), self)
        self.only_different.toggled.connect(self._fill)
        self.table = self._build_table()
        self.table.viewport().installEventFilter(self)
        self.pages = QTabBar(self)
        self.pages.setProperty("flat", True)
        self.pages.setDrawBase(False)
        self.pages.setExpanding(False)
        self.pages.setAccessibleName(self.tr("What is compared"))
        for name in (self.tr("Answer"), self.tr("Prompt"), self.tr("Keys")):
            self.pages.addTab(name)
        self.pages.currentChanged.connect(lambda _index: self._show_line())
        self.difference = DifferenceView(self)
        self._empty = EmptyPlace("compare", self.tr("Nothing to compare yet"), "", self)
        self._stack = QStackedWidget(self)
        self._lay_out()
        theme.changed.connect(self._restyle)
        self._restyle()
        for choice in self.choices:
            choice.activated.connect(lambda _index: self._compare_soon())
        room = self.screen().availableGeometry().size() * 0.95
        self.resize(QSize(theme.px(1080), theme.px(680)).boundedTo(room))

    # -- building -----------------------------------------------------------------------------------------------------

    def _build_table(self) -> QTreeWidget:
        table = QTreeWidget(self)
        table.setHeaderLabels(
            [self.tr("Step"), self.tr("Differs"), f"  {self.tr('Tokens out')}", self.tr("Time"), self.tr("Cost")]
        )
        table.setRootIsDecorated(False)
        table.setUniformRowHeights(True)
        table.setAllColumnsShowFocus(True)
        table.setItemDelegate(RowDelegate(28, table))
        table.setAccessibleName(self.tr("Steps of both runs"))
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = table.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(STEP, QHeaderView.ResizeMode.Stretch)
        for column in (TOKENS, TIME, COST):
            table.headerItem().setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        table.currentItemChanged.connect(lambda _now, _before: self._show_line())
        return table

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """The table has another width: leave out figures rather than the names."""
        if event.type() == QEvent.Type.Resize and watched is self.table.viewport():
            self._fit_columns()
        return super().eventFilter(watched, event)

    def _fit_columns(self) -> None:
        room = self.table.viewport().width() - theme.px(NAME_WIDTH) - self.table.sizeHintForColumn(CHANGED)
        for column in (TIME, TOKENS, COST):  # the last ones are left out first
            room -= max(self.table.sizeHintForColumn(column), self.table.header().sectionSizeHint(column))
            self.table.setColumnHidden(column, room < 0)

    def _lay_out(self) -> None:
        head = QGridLayout()
        head.setHorizontalSpacing(theme.px(12))
        names = (self.tr("&First run"), self.tr("&Second run"))
        for side, (choice, facts, name) in enumerate(zip(self.choices, self._facts, names, strict=True)):
            label = QLabel(name, self)
            label.setBuddy(choice)
            label.setProperty("role", "secondary")
            choice.setAccessibleName(name.replace("&", ""))
            choice.setMinimumContentsLength(12)
            column = 2 * side
            head.addWidget(label, 0, column)
            head.addWidget(choice, 1, column)
            head.addWidget(facts, 2, column)
            head.setColumnStretch(column, 1)
        head.addWidget(self._swap, 1, 1)
        line = QHBoxLayout()
        line.addWidget(self.summary, 1)
        line.addWidget(self.only_different)
        right = QWidget(self)
        column_layout = QVBoxLayout(right)
        column_layout.setContentsMargins(theme.px(12), 0, 0, 0)
        column_layout.setSpacing(theme.px(4))
        column_layout.addWidget(self.pages)
        column_layout.addWidget(self.difference, 1)
        splitter = QSplitter(Qt.Orientation.Horizontal, self)
        splitter.setHandleWidth(1)
        splitter.setChildrenCollapsible(False)
        splitter.addWidget(self.table)
        splitter.addWidget(right)
        splitter.setSizes([theme.px(560), theme.px(500)])
        shown = QWidget(self)
        inner = QVBoxLayout(shown)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(theme.px(8))
        inner.addLayout(line)
        inner.addWidget(splitter, 1)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(shown)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(theme.px(16),) * 4)
        layout.setSpacing(theme.px(12))
        layout.addLayout(head)
        layout.addWidget(self._stack, 1)

    def _restyle(self) -> None:
        self._swap.setIcon(theme.icon("compare", 16))
        self._swap.setIconSize(QSize(theme.px(16), theme.px(16)))
        self.summary.setFont(theme.font(13, 600))
        self.table.setFont(theme.font(12))
        self.table.header().setFont(theme.font(11))
        self.pages.setFont(theme.font(12, 500))
        for choice in self.choices:
            choice.setIconSize(QSize(theme.px(16), theme.px(16)))
            for index in range(choice.count()):
                row = self._rows[choice.itemData(index)]
                icon, color = run_look(row)
                choice.setItemIcon(index, theme.icon(icon, 16, color, checked=None))
        self._fill()

    # -- choosing -----------------------------------------------------------------------------------------------------

    def show_runs(self, first: str, second: str) -> None:
        """Compare these runs; what is empty is filled with the newest other run of the same flow, if there is one."""
        self._tasks.start(self._load(first, second), self)

    async def _load(self, first: str, second: str) -> None:
        rows = await self._engine.recorded.runs(MOST_RUNS)
        self._rows = {row.id: row for row in rows}
        for wanted in (first, second):
            if wanted and wanted not in self._rows:  # an old one
                self._rows[wanted] = (await self._engine.recorded.run(wanted)).row
        first, second = self._completed(first, second)
        for choice, wanted in zip(self.choices, (first, second), strict=True):
            choice.clear()
            for row in self._rows.values():
                icon, color = run_look(row)
                choice.addItem(theme.icon(icon, 16, color, checked=None), f"{run_text(row)} · {row.id}", row.id)
            choice.setCurrentIndex(choice.findData(wanted))
            choice.setEnabled(bool(rows))
        await self._compare()

    def _completed(self, first: str, second: str) -> tuple[str, str]:
        if not first:
            first = next((run for run in self._rows if run != second), "")
        if not second:
            others = [run for run in self._rows if run != first]
            flow = self._rows[first].flow if first else ""
            second = next((run for run in others if self._rows[run].flow == flow), "")
        return first, second

    def _swap_runs(self) -> None:
        one, other = (choice.currentIndex() for choice in self.choices)
        self.choices[0].setCurrentIndex(other)
        self.choices[1].setCurrentIndex(one)
        self._compare_soon()

    def _compare_soon(self) -> None:
        self._tasks.start(self._compare(), self)

    async def _compare(self) -> None:
        self._asked += 1
        number = self._asked
        first, second = (choice.currentData() for choice in self.choices)
        if not first or not second or first == second:
            self._show_empty(first == second and bool(first))
            return
        try:
            runs = [await self._engine.recorded.run(run_id) for run_id in (first, second)]
        except RunNotFound:  # deleted meanwhile
            await self._load("", "")
            return
        compared = await asyncio.to_thread(compare_runs, runs[0], runs[1])
        lines = await asyncio.to_thread(self._made, compared)
        if number == self._asked:
            self._show(compared, lines)

    def _show_empty(self, same: bool) -> None:
        text = self.tr("Choose two runs above. A run is recorded whenever a flow runs.")
        if same:
            text = self.tr("It is the same run twice. Choose another one above.")
        self._empty.say(text)
        for facts in self._facts:
            facts.setText("")
        self._stack.setCurrentIndex(0)
        self.compared.emit()

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show(self, compared: RunComparison, lines: list[_Line]) -> None:
        self._lines = lines
        for facts, run in zip(self._facts, (compared.first, compared.second), strict=True):
            facts.setText(_facts(run.row))
        self.summary.setText(self._summary(compared))
        self._fill()
        self._stack.setCurrentIndex(1)
        if not self.isVisible() or self.focusWidget() is None:
            self.table.setFocus()
        self.compared.emit()

    def _summary(self, compared: RunComparison) -> str:
        changed = sum(not pair.same for pair in compared.pairs)
        parts = [self.tr("All %1 steps are the same.") if not changed else self.tr("%2 of %1 steps differ.")]
        if compared.flow_changed:
            parts.append(self.tr("The flow differs."))
        if compared.changed_inputs:
            keys = visible_text(", ".join(compared.changed_inputs))
            parts.append(self.tr("Inputs differ: %1.").replace("%1", keys))
        parts[0] = parts[0].replace("%1", str(len(compared.pairs))).replace("%2", str(changed))
        return " ".join(parts)

    def _made(self, compared: RunComparison) -> list[_Line]:
        left, right = _outputs(compared.first), _outputs(compared.second)
        lines = [
            _Line(
                name=self.tr("Output %1").replace("%1", key),
                changed=self.tr("differs") if key in compared.output_difference else "",
                same=key not in compared.output_difference,
                figures=("", "", ""),
                pages=((left.get(key, ""), right.get(key, "")), ("", ""), ("", "")),
            )
            for key in {**left, **right}
        ]
        asked = {pair.agent for pair in compared.pairs if _has_asked(pair)}
        return [*lines, *(self._line(pair, asked) for pair in compared.pairs)]

    def _line(self, pair: Pair, asked: Collection[str]) -> _Line:
        name = f"{pair.agent} {pair.branch}".rstrip()
        if pair.agent in asked and not _has_asked(pair):
            name = self.tr("%1, merged").replace("%1", name)
        if pair.visit > 1:
            name = f"{name} · {self.tr('pass %1').replace('%1', str(pair.visit))}"
        words = []
        if pair.first is None or pair.second is None:
            words.append(self.tr("only in the second") if pair.first is None else self.tr("only in the first"))
        if pair.prompt_changed:
            words.append(self.tr("prompt"))
        if pair.answer_difference:
            words.append(self.tr("answer"))
        if pair.changed_keys:
            words.append(self.tr("keys"))
        keys = pair.changed_keys or _keys(pair)
        return _Line(
            name=visible_text(name),
            changed=", ".join(words),
            same=pair.same,
            figures=_figures(pair),
            pages=(
                (_answer(pair.first), _answer(pair.second)),
                (_prompt(pair.first), _prompt(pair.second)),
                (_values(pair.first, keys), _values(pair.second, keys)),
            ),
        )

    def _fill(self) -> None:
        """Show the lines that are wanted; the current one stays current."""
        before = self.table.currentItem()
        name = before.text(STEP) if before is not None else ""
        self.table.clear()
        items = []
        for number, line in enumerate(self._lines):
            if self.only_different.isChecked() and line.same:
                continue
            item = QTreeWidgetItem([line.name, line.changed or self.tr("same"), *line.figures])
            item.setData(STEP, ROW_ROLE, number)
            item.setToolTip(STEP, line.name)
            item.setForeground(CHANGED, theme.color("muted" if line.same else "text"))
            item.setIcon(CHANGED, theme.icon("check" if line.same else "diff", 14, "muted" if line.same else "warn"))
            for column in (TOKENS, TIME, COST):
                item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                item.setForeground(column, theme.color("text2"))
                item.setText(column, f"  {item.text(column)}")  # the columns keep apart
            items.append(item)
        self.table.addTopLevelItems(items)
        first = next((item for item in items if not self._lines[item.data(STEP, ROW_ROLE)].same), None)
        chosen = (
            next((item for item in items if item.text(STEP) == name), None) or first or (items[0] if items else None)
        )
        if chosen is not None:
            self.table.setCurrentItem(chosen)
        self._fit_columns()
        self._show_line()

    def _show_line(self) -> None:
        item = self.table.currentItem()
        if item is None:
            self.difference.show_texts("", "")
            return
        line = self._lines[item.data(STEP, ROW_ROLE)]
        for page, (first, second) in enumerate(line.pages):
            self.pages.setTabEnabled(page, bool(first or second))
        first, second = line.pages[self.pages.currentIndex()]
        self.difference.show_texts(first, second)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter in the table is no answer to the dialog."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)


def _has_asked(pair: Pair) -> bool:
    return any(branch is not None and (branch.attempts or branch.error) for branch in (pair.first, pair.second))


def _facts(row: RunRow) -> str:
    parts = [] if row.seconds is None else [seconds_text(row.seconds)]
    tokens = f"{tokens_text(row.in_tokens + row.cached_in_tokens)} → "
    parts.append(f"{tokens}{tokens_text(row.out_tokens + row.reasoning_out_tokens)} tok")
    return "  ·  ".join([*parts, cost_text(row.cost, row.provenance)])


def _figures(pair: Pair) -> tuple[str, str, str]:
    left, right = figures(pair.first), figures(pair.second)
    both = (pair.first, left), (pair.second, right)
    return (
        _two(*(tokens_text(used.out_tokens) if used.out_tokens else "–" for _, used in both)),
        _two(*(seconds_text(used.seconds) if branch is not None and used.requests else "–" for branch, used in both)),
        _two(*(_cost(branch) for branch, _ in both)),
    )


def _two(first: str, second: str) -> str:
    return first if first == second else f"{first} → {second}"


def _cost(branch: Branch | None) -> str:
    used = [attempt.statistics for attempt in branch.attempts if attempt.statistics] if branch is not None else []
    if not any(one.requests for one in used):
        return "–"
    return cost_text(sum((one.cost for one in used), Decimal(0)), weakest({one.provenance for one in used}))


def _answer(branch: Branch | None) -> str:
    if branch is None:
        return ""
    return branch.answer or (branch.error.message if branch.error is not None else "")


def _prompt(branch: Branch | None) -> str:
    if branch is None or not branch.attempts:
        return ""
    attempt = branch.attempts[0]
    turns = [f"[{role}]\n{text}" for role, text in attempt.turns]
    settings = [f"{name}: {value}" for name, value in attempt.parameters.items()]
    return "\n\n".join([*turns, "\n".join([attempt.profile, *settings])])


def _keys(pair: Pair) -> tuple[str, ...]:
    """Of a step that only one run has: all of its keys."""
    one = pair.first or pair.second
    return tuple(one.values) if one is not None and (pair.first is None or pair.second is None) else ()


def _values(branch: Branch | None, keys: tuple[str, ...]) -> str:
    if branch is None:
        return ""
    return "\n\n".join(f"{key}:\n{_joined(branch.values[key])}" for key in keys if key in branch.values)


def _joined(values: list[object]) -> str:
    return "\n\n".join(map(str, values))


def _outputs(run: RecordedRun) -> dict[str, str]:
    ended = next((event for event in reversed(run.events) if isinstance(event, RunFinished)), None)
    return {key: _joined(values) for key, values in ended.outputs.items()} if ended is not None else {}
