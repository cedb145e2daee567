"""The Loop tab: rounds and agents of a grader with feedback, a curve of the score, the words between two rounds."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QSplitter,
    QStackedWidget,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from workbench.run_panel.labels import GRADE_LOOKS, grade_word
from workbench.run_panel.loop_rounds import Loop, Part, Round, loops
from workbench.run_panel.run_model import RunModel
from workbench.run_panel.run_state import grade_outcome
from workbench.run_panel.score_curve import ScoreCurve
from workbench.text_format import cost_text, seconds_text, tokens_text, visible_text
from workbench.theme import theme
from workbench.widgets.difference_view import DifferenceView
from workbench.widgets.empty_place import EmptyPlace
from workbench.widgets.row_delegate import RowDelegate

FIGURES = (2, 4, 5, 6)
"""Columns of numbers."""


class LoopView(QWidget):
    """A table and a curve above two differences."""

    branch_chosen = Signal(int, str)
    """A line was opened: step number, branch path."""

    def __init__(self, model: RunModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._loops: list[Loop] = []
        self._lines: list[Part] = []
        self._shown: tuple[object, ...] = ()
        self.choice = QComboBox(self)
        self.choice.setAccessibleName(self.tr("Loop"))
        self.choice.currentIndexChanged.connect(self._fill)
        self.table = self._make_table()
        self.curve = ScoreCurve(self)
        self.first, self.second = QComboBox(self), QComboBox(self)
        self.first.setAccessibleName(self.tr("First round to compare"))
        self.second.setAccessibleName(self.tr("Second round to compare"))
        for box in (self.first, self.second):
            box.currentIndexChanged.connect(self._show_difference)
        self.candidate, self.feedback = DifferenceView(self), DifferenceView(self)
        self.candidate.text.setAccessibleName(self.tr("Difference of the candidates"))
        self._empty = EmptyPlace(
            "loop",
            self.tr("No verdict yet"),
            self.tr("When a grader judges an answer, each round of it stands here,\nwith its score and what changed."),
            self,
        )
        self._pages = QStackedWidget(self)
        self._pages.addWidget(self._empty)
        self._pages.addWidget(self._whole())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._pages)
        theme.changed.connect(self._restyle)
        self._restyle()

    def _whole(self) -> QWidget:
        upper = QSplitter(Qt.Orientation.Horizontal, self)
        left = QWidget(upper)
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.choice)
        column.addWidget(self.table, 1)
        upper.addWidget(left)
        upper.addWidget(self.curve)
        upper.setSizes([1400, 600])
        lower = QWidget(self)
        below = QVBoxLayout(lower)
        below.setContentsMargins(theme.px(12), theme.px(4), theme.px(12), theme.px(4))
        head = QHBoxLayout()
        for widget in (
            QLabel(self.tr("Difference, round"), lower),
            self.first,
            QLabel(self.tr("to"), lower),
            self.second,
        ):
            head.addWidget(widget)
        head.addStretch(1)
        below.addLayout(head)
        sides = QHBoxLayout()
        for name, view in ((self.tr("Candidate"), self.candidate), (self.tr("Feedback"), self.feedback)):
            side = QVBoxLayout()
            label = QLabel(name, lower)
            label.setBuddy(view.text)
            side.addWidget(label)
            side.addWidget(view, 1)
            sides.addLayout(side, 2 if view is self.candidate else 1)
        below.addLayout(sides, 1)
        splitter = QSplitter(Qt.Orientation.Vertical, self)
        for part in (upper, lower):
            splitter.addWidget(part)
        for part in (splitter, upper):
            part.setChildrenCollapsible(False)
            part.setHandleWidth(1)
        return splitter

    def _make_table(self) -> QTableWidget:
        names = (
            self.tr("Round"),
            self.tr("Agent"),
            self.tr("Score"),
            self.tr("Grade"),
            self.tr("Tokens"),
            self.tr("Cost"),
            self.tr("Time"),
            self.tr("Feedback"),
        )
        table = QTableWidget(0, len(names), self)
        table.setHorizontalHeaderLabels(names)
        table.setAccessibleName(self.tr("Rounds of the loop"))
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.verticalHeader().hide()
        table.setTabKeyNavigation(False)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        table.setItemDelegate(RowDelegate(28, table))
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(len(names) - 1, QHeaderView.ResizeMode.Stretch)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        for column in FIGURES:
            if (head := table.horizontalHeaderItem(column)) is not None:
                head.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        table.itemActivated.connect(self._open_line)
        return table

    def _restyle(self) -> None:
        self.table.setFont(theme.font(12))
        self.table.horizontalHeader().setFont(theme.font(11))
        self.table.horizontalHeader().setFixedHeight(theme.px(26))
        self.table.verticalHeader().setDefaultSectionSize(theme.px(28))
        self._fill()

    # -- what is shown ----------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take what the run has now, if somebody can see it."""
        if not self.isVisible():
            return
        found = loops(self._model)
        state = (self._model.run_id, tuple((one.grader, one.path, len(one.rounds)) for one in found))
        if state == self._shown:
            return
        self._shown, self._loops = state, found
        kept = self.choice.currentText()
        self.choice.blockSignals(True)
        self.choice.clear()
        self.choice.addItems([" · ".join(filter(None, (visible_text(one.grader), one.path))) for one in found])
        self.choice.setCurrentIndex(max(0, self.choice.findText(kept)) if found else -1)
        self.choice.setVisible(len(found) > 1)
        self.choice.blockSignals(False)
        self._fill()

    @property
    def rounds(self) -> list[Round]:
        """The rounds on show."""
        place = self.choice.currentIndex()
        return self._loops[place].rounds if 0 <= place < len(self._loops) else []

    def _fill(self) -> None:
        rounds = self.rounds
        self._pages.setCurrentIndex(1 if rounds else 0)
        lines = [(one, part) for one in rounds for part in one.parts]
        self._lines = [part for _, part in lines]
        self.table.setRowCount(len(lines))
        for number, (one, part) in enumerate(lines):
            self._fill_line(number, one, part)
        self.curve.show_rounds(rounds)
        names = [str(one.number) for one in rounds]
        for box, place in ((self.first, len(names) - 2), (self.second, len(names) - 1)):
            box.blockSignals(True)
            box.clear()
            box.addItems(names)
            box.setCurrentIndex(max(0, place) if names else -1)
            box.blockSignals(False)
        self._show_difference()

    def _fill_line(self, number: int, one: Round, part: Part) -> None:
        is_grader = part is one.parts[-1]
        used = part.totals.statistics()
        tokens = used.in_tokens + used.cached_in_tokens + used.out_tokens + used.reasoning_out_tokens
        asked = bool(used.requests)
        cost = cost_text(used.cost, used.provenance) if asked else self.tr("cached") if used.cached_prompts else "–"
        icon, token = GRADE_LOOKS[grade_outcome(one.grade)]
        rating = one.grade.rating
        texts = (
            str(one.number) if part is one.parts[0] else "",
            part.agent,
            ("–" if rating is None else f"{rating:g}") if is_grader else "",
            grade_word(grade_outcome(one.grade)) if is_grader else "",
            tokens_text(tokens, used.estimated) if asked else "–",
            cost,
            seconds_text(part.seconds),
            " ".join(one.feedback.split()) if is_grader else "",
        )
        for column, text in enumerate(texts):
            item = QTableWidgetItem(visible_text(text[:300]))
            right = column in FIGURES
            side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
            item.setTextAlignment(side | Qt.AlignmentFlag.AlignVCenter)
            item.setFont(theme.font(12, 600 if is_grader and column == 2 else 400))
            item.setForeground(theme.color(token if column == 3 else "text" if is_grader else "text2"))
            if column == 3 and is_grader:
                item.setIcon(theme.icon(icon, 14, token))
            self.table.setItem(number, column, item)

    def _show_difference(self) -> None:
        rounds = self.rounds
        places = (self.first.currentIndex(), self.second.currentIndex())
        if not rounds or min(places) < 0:
            self.candidate.show_texts("", "")
            self.feedback.show_texts("", "")
            return
        one, other = (rounds[place] for place in places)
        self.candidate.show_texts(one.candidate, other.candidate)
        self.feedback.show_texts(one.feedback, other.feedback)

    def _open_line(self, item: QTableWidgetItem) -> None:
        part = self._lines[item.row()]
        self.branch_chosen.emit(part.step, part.path)

    @property
    def text(self) -> str:
        """The table as lines with tabs, for the clipboard."""
        heads = (self.table.horizontalHeaderItem(column) for column in range(self.table.columnCount()))
        lines = ["\t".join(head.text() if head is not None else "" for head in heads)]
        for row in range(self.table.rowCount()):
            items = (self.table.item(row, column) for column in range(self.table.columnCount()))
            lines.append("\t".join(item.text() if item is not None else "" for item in items))
        return "\n".join(lines)
