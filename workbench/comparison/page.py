"""The page *Compare*: what its buttons, menus and keys do."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import QPoint, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMenu, QMessageBox, QWidget

from engine import Engine, EngineError
from engine.comparison_values import Cell, CompareProgress, ComparisonRecord, Mark
from engine.profile import PREDEFINED_CATEGORIES
from workbench.comparison.board import Board, words_of
from workbench.comparison.cell_painter import Part
from workbench.comparison.page_view import CompareView
from workbench.comparison.setup_form import FlowChoice, Setup, SetupForm
from workbench.comparison.summary_view import winner
from workbench.comparison.work import ComparisonWork
from workbench.error_presenter import error_banner
from workbench.page import Page
from workbench.tasks import Tasks
from workbench.text_format import clean_text, cost_text, seconds_text, when_text
from workbench.widgets.banner import Banner, BannerButton, Message
from workbench.widgets.difference_dialog import DifferenceDialog

FIGURES_MILLISECONDS = 300
"""From a change to the figures that follow it."""
ENDINGS = {"CSV (*.csv)": ".csv", "JSONL (*.jsonl)": ".jsonl", "Markdown (*.md)": ".md", "HTML (*.html)": ".html"}


class ComparePage(Page):
    """Shows one comparison; earlier ones can be chosen."""

    run_wanted = Signal(str)
    """A recorded run should be opened."""
    profile_wanted = Signal(str)
    """A profile should be shown."""

    def __init__(self, engine: Engine, database: Path, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._tasks = tasks
        self.flows: Callable[[], Sequence[FlowChoice]] = tuple
        """The flows that can be compared."""
        self.board = Board(self)
        self.work = ComparisonWork(engine, database, self.board, tasks, self)
        self.view = CompareView(self, self.board)
        self._records: list[ComparisonRecord] = []
        self._begun = False
        self._form: SetupForm | None = None
        self._figures = QTimer(self)
        self._figures.setSingleShot(True)
        self._figures.setInterval(FIGURES_MILLISECONDS)
        self._figures.timeout.connect(self._show_figures)
        self._connect()
        self._show_state()

    def _connect(self) -> None:
        view, grid = self.view, self.view.grid
        view.first.clicked.connect(lambda: self.ask())
        view.new.clicked.connect(lambda: self.ask())
        view.run.clicked.connect(self._go_on)
        view.stop.clicked.connect(self.work.stop)
        QShortcut(QKeySequence("Shift+F5"), self).activated.connect(self.work.stop)
        view.choice.activated.connect(self._choose)
        view.filter.textChanged.connect(self._filter)
        view.different.toggled.connect(self._filter)
        view.blind.toggled.connect(self._set_blind)
        view.reveal.clicked.connect(lambda: view.blind.setChecked(False))
        view.reasoning.toggled.connect(self._show_reasoning)
        view.lock.toggled.connect(self._set_lock)
        view.export.setMenu(menu := QMenu(self))
        for kind in ENDINGS:
            menu.addAction(f"{kind.partition(' ')[0]}…").triggered.connect(partial(self._ask_export, kind))
        view.winner.setMenu(QMenu(self))
        view.winner.menu().aboutToShow.connect(self._fill_winner)
        view.more.setMenu(more := QMenu(self))
        more.addAction(self.tr("Ask again what failed")).triggered.connect(lambda: self._resume(retry_failed=True))
        more.addAction(self.tr("Delete this comparison…")).triggered.connect(self._ask_delete)
        grid.opened.connect(self._open_run)
        grid.pressed.connect(self._press)
        grid.menu_wanted.connect(self._show_menu)
        grid.column_menu_wanted.connect(self._show_column_menu)
        grid.selected.connect(self._selected)
        self.board.figures_changed.connect(self._figures.start)
        self.board.cell_changed.connect(self._cell_changed)
        self.work.changed.connect(self._show_state)
        self.work.progressed.connect(self._show_progress)
        self.work.failed.connect(self._tell)
        self.work.begun.connect(self._form_done)

    def _start(self, work: Coroutine[object, object, object]) -> None:
        self._tasks.start(self._told(work), self)

    async def _told(self, work: Coroutine[object, object, object]) -> None:
        try:
            await work
        except EngineError as error:
            self._tell(error)

    def _tell(self, error: EngineError) -> None:
        self.view.banners.push(error_banner(error))

    # -- comparisons --------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Read what was compared when somebody first looks."""
        super().showEvent(event)
        if not self._begun:
            self._begun = True
            self._start(self._begin())

    async def _begin(self) -> None:
        await self._list()
        if self._records and self.work.record is None:
            await self.work.show(self._records[0].id)

    async def _list(self) -> None:
        self._records = await self.work.records()
        self.view.choice.clear()
        for record in self._records:
            self.view.choice.addItem(f"{record.job.title}   {when_text(record.started.timestamp())}", record.id)
        if self.work.record is not None:
            self.view.choice.setCurrentIndex(self.view.choice.findData(self.work.record.id))

    def _choose(self, index: int) -> None:
        if not self.work.is_running:
            self._start(self.work.show(str(self.view.choice.itemData(index))))

    def ask(self, flow: str = "") -> None:
        """Show the form of a new comparison; with a flow, that is chosen."""
        if self.work.is_running:
            return
        names = [entry.name for entry in self._engine.profiles.profiles() if entry.usable]
        form = SetupForm(names, self.flows(), list(self._engine.profiles.categories()), self.window())
        if flow:
            form.compare_flow(flow)
        if self.work.record is not None:
            form.check_profiles(self.work.record.job.profiles)
        form.submitted.connect(self._submitted)
        form.finished.connect(self._form_closed)
        self._form = form
        form.open()

    def _form_closed(self) -> None:
        self._form = None

    def _submitted(self, setup: Setup) -> None:
        async def begin() -> None:
            try:
                await self.work.begin(setup)
            except EngineError as error:
                if self._form is None:
                    raise
                self._form.show_fault(f"{error} {error.hint}".strip())

        self._start(begin())

    def _form_done(self) -> None:
        if self._form is not None:
            self._form.accept()
        self._start(self._list())
        self.view.grid.setFocus()

    def _go_on(self) -> None:
        record = self.work.record
        if record is not None and record.done >= record.cells:
            self.ask()
        else:
            self._resume()

    def _resume(self, *, again: frozenset[Cell] = frozenset(), retry_failed: bool = False) -> None:
        self._start(self.work.resume(again=again, retry_failed=retry_failed))

    def _ask_delete(self) -> None:
        record = self.work.record
        if record is None or self.work.is_running:
            return
        question = QMessageBox(self.window())
        question.setIcon(QMessageBox.Icon.NoIcon)
        question.setText(self.tr("Delete the comparison %1?").replace("%1", record.job.title))
        question.setInformativeText(self.tr("Its answers, grades and marks are gone for good. The recorded runs stay."))
        delete = question.addButton(self.tr("Delete"), QMessageBox.ButtonRole.DestructiveRole)
        question.setDefaultButton(question.addButton(QMessageBox.StandardButton.Cancel))

        async def gone() -> None:
            await self.work.delete()
            await self._list()
            if self._records:
                await self.work.show(self._records[0].id)

        def answered() -> None:
            if question.clickedButton() is delete:
                self._start(gone())
            question.deleteLater()

        question.finished.connect(answered)
        question.open()

    # -- showing ------------------------------------------------------------------------------------------------------

    def _show_state(self) -> None:
        view, record, running = self.view, self.work.record, self.work.is_running
        view.show_work(record is not None)
        left = 0 if record is None else record.cells - len(self.board.answers)
        view.run.setText(self.tr("Ask %1 left").replace("%1", str(left)) if left else self.tr("New comparison"))
        view.run.setVisible(running or bool(left))
        view.run.setEnabled(not running)
        view.new.setEnabled(not running)
        view.stop.setEnabled(running)
        view.choice.setEnabled(not running)
        view.more.setEnabled(not running)
        if not running and record is not None:
            done = self.tr("%1 of %2 cells").replace("%1", str(len(self.board.answers)))
            view.progress.setText(done.replace("%2", str(record.cells)))
        self._show_figures()

    def _show_progress(self, progress: CompareProgress) -> None:
        text = self.tr("%1 of %2 cells").replace("%1", str(progress.done)).replace("%2", str(progress.total))
        parts = [text, cost_text(progress.statistics.cost, progress.statistics.provenance)]
        if progress.grading.requests:
            judging = cost_text(progress.grading.cost, progress.grading.provenance)
            parts.append(self.tr("judging %1").replace("%1", judging))
        if progress.status == "running" and progress.seconds_left:
            parts.append(self.tr("%1 left").replace("%1", seconds_text(progress.seconds_left)))
        if progress.fault or progress.reason:
            parts.append(progress.fault or progress.reason)
        self.view.progress.setText("   ".join(parts))
        self.view.run.setText(self.tr("Ask %1 left").replace("%1", str(progress.total - progress.done)))

    def _show_figures(self) -> None:
        view = self.view
        view.table.figures.refresh()
        view.chart.refresh()
        view.show_agreement(self.board.prompts_agree)
        different = self.tr("Only different: %1 of %2").replace("%1", str(self.board.different))
        view.different.setText(different.replace("%2", str(self.board.line_count)))
        view.show_blind(self.board.blind, self.board.voted, self.board.line_count)

    def _filter(self) -> None:
        self.board.filter(self.view.filter.text(), only_different=self.view.different.isChecked())

    def _set_blind(self, blind: bool) -> None:
        self.board.set_blind(blind)
        self._show_figures()

    def _show_reasoning(self, shown: bool) -> None:
        self.board.shows_reasoning = shown
        self.view.grid.refresh()

    def _set_lock(self, locked: bool) -> None:
        self.view.grid.lock_scrolling = locked

    # -- cells --------------------------------------------------------------------------------------------------------

    def _selected(self, cell: Cell | None) -> None:
        if cell is not None and cell in self.board.answers:
            self._start(self._show_whole(cell))

    def _cell_changed(self, cell: Cell) -> None:
        if cell == self.view.grid.current and cell in self.board.answers and cell not in self.board.live:
            self._selected(cell)

    async def _show_whole(self, cell: Cell) -> None:
        whole = await self.work.whole(cell)
        if whole is not None:
            self.view.grid.show_full(cell, whole.content)

    def _open_run(self, cell: Cell) -> None:
        answer = self.board.answers.get(cell)
        if answer is not None and answer.result.run_id and not self.board.blind:
            self.run_wanted.emit(answer.result.run_id)

    def _press(self, cell: Cell, part: Part) -> None:
        mark = self.board.marks.get(cell, Mark())
        match part:
            case Part.UP:
                self._mark(cell, msgspec.structs.replace(mark, thumb=0 if mark.thumb > 0 else 1))
            case Part.DOWN:
                self._mark(cell, msgspec.structs.replace(mark, thumb=0 if mark.thumb < 0 else -1))
            case Part.STAR:
                self._mark(cell, msgspec.structs.replace(mark, stars=(mark.stars + 1) % 6))
            case Part.DIFF:
                self._start(self._compare_words(cell))
            case Part.REASONING:
                self.view.reasoning.toggle()
            case _:
                pass

    def _mark(self, cell: Cell, mark: Mark) -> None:
        if cell in self.board.answers:
            self.work.mark(cell, msgspec.structs.replace(mark, blind=self.board.blind))

    async def _compare_words(self, cell: Cell) -> None:
        """Show what differs between an answer and another one of its row."""
        names = self.board.job.profiles
        cells = [Cell(cell.row, name, repeat) for repeat in range(1, self.board.job.repeats + 1) for name in names]
        texts = {}
        for one in cells:
            found = await self.work.whole(one)
            if found is not None:
                texts[self._cell_name(one)] = found.content
        if len(texts) > 1:
            dialog = DifferenceDialog(self.tr("Compare answers"), texts, self._cell_name(cell), self.window())
            dialog.open()

    def _cell_name(self, cell: Cell) -> str:
        name = cell.profile
        if self.board.blind:
            line = next(line for line in self.board.lines if line.row.row == cell.row)
            letter = chr(ord("A") + self.board.columns(line).index(cell.profile))
            name = self.tr("Answer %1").replace("%1", letter)
        return name if cell.repeat == 1 else f"{name} #{cell.repeat}"

    def _show_menu(self, cell: Cell, place: QPoint) -> None:
        menu = QMenu(self)
        there = cell in self.board.answers
        entries: tuple[tuple[str, Callable[[], object], bool], ...] = (
            (self.tr("Open the run"), partial(self._open_run, cell), there and not self.board.blind),
            (self.tr("Compare word by word…"), partial(self._press, cell, Part.DIFF), there),
            (self.tr("Copy the answer"), lambda: self._start(self._copy(cell)), there),
            (self.tr("Note…"), partial(self._ask_note, cell), there),
            (self.tr("Ask again"), lambda: self._resume(again=frozenset([cell])), not self.work.is_running),
        )
        for text, run, enabled in entries:
            action = menu.addAction(text)
            action.setEnabled(enabled)
            action.triggered.connect(lambda _checked=False, run=run: run())
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(place)

    def _show_column_menu(self, profile: str, place: QPoint) -> None:
        if self.board.blind:
            return
        menu = QMenu(self)
        menu.addAction(self.tr("Show the profile")).triggered.connect(lambda: self.profile_wanted.emit(profile))
        self._add_categories(menu.addMenu(self.tr("Use for category")), profile)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(place)

    async def _copy(self, cell: Cell) -> None:
        whole = await self.work.whole(cell)
        if whole is not None:
            QGuiApplication.clipboard().setText(clean_text(whole.content))

    def _ask_note(self, cell: Cell) -> None:
        mark = self.board.marks.get(cell, Mark())
        dialog = QInputDialog(self.window())
        dialog.setWindowTitle(self.tr("Note"))
        dialog.setLabelText(self.tr("What you think of this answer"))
        dialog.setTextValue(mark.note)
        dialog.textValueSelected.connect(
            lambda text: self._mark(cell, msgspec.structs.replace(mark, note=text.strip()))
        )
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    # -- what comes of it ---------------------------------------------------------------------------------------------

    def _fill_winner(self) -> None:
        menu = self.view.winner.menu()
        menu.clear()
        profile = self.view.table.chosen or winner(self.board.figures())
        if not profile:
            menu.addAction(self.tr("Select a profile, or let graders or marks tell the best")).setEnabled(False)
            return
        menu.addAction(profile).setEnabled(False)
        self._add_categories(menu, profile)

    def _add_categories(self, menu: QMenu, profile: str) -> None:
        known = self._engine.profiles.categories()
        for label in dict.fromkeys([*PREDEFINED_CATEGORIES, *known]):
            now = known.get(label, "")
            text = f"{label}   ({self.tr('now')} {now})" if now else label
            menu.addAction(text).triggered.connect(partial(self._use_for, label, profile))

    def _use_for(self, label: str, profile: str, _checked: bool = False) -> None:
        self._start(self._map(label, profile))

    async def _map(self, label: str, profile: str) -> None:
        before = self._engine.profiles.categories().get(label)
        await asyncio.to_thread(self._engine.profiles.map_category, label, profile)
        title = self.tr("%1 answers for category %2 from now on.").replace("%1", profile).replace("%2", label)
        undo = BannerButton(self.tr("Undo"), lambda: self._start(self._unmap(label, before)))
        self.view.banners.push(Banner(Message(kind="accent", title=title, icon="check"), [undo]))

    async def _unmap(self, label: str, before: str | None) -> None:
        await asyncio.to_thread(self._engine.profiles.map_category, label, before)

    def _ask_export(self, kind: str, _checked: bool = False) -> None:
        if self.work.record is None:
            return
        words = "-".join(words_of(self.work.record.job.title)[:6]) or "comparison"
        place = str(Path.home() / f"{words}{ENDINGS[kind]}")
        dialog = QFileDialog(self.window(), self.tr("Export comparison as"), place, kind)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(ENDINGS[kind][1:])
        dialog.fileSelected.connect(lambda chosen: self._start(self._export(Path(chosen))))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    async def _export(self, path: Path) -> None:
        count = await self.work.export(path, self._engine.profiles.secrets())
        title = self.tr("%1 cells were written to %2.").replace("%1", str(count)).replace("%2", path.name)
        self.view.banners.push(Banner(Message(kind="accent", title=title, text=str(path), icon="export")))

    async def close_page(self) -> None:
        """Stop what runs; it goes on when somebody wants it to."""
        await self.work.close()
