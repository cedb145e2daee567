"""The page Compare as a person uses it: a new comparison by form, answers as they come, marks, blind, words, export."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QMenu

from engine.comparison_values import Cell, CellResult, CellStatus, CompareJob, CompareRow, Mark
from engine.folders import Folders
from tests.helpers.fake_server import Answer, FakeServer, Received, chat, failure
from tests.helpers.model_answers import prompt_of, write_profile
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import Workbench, button, choose_file, opened
from workbench.comparison import board as boards
from workbench.comparison.cell_painter import Part
from workbench.comparison.page import ComparePage
from workbench.comparison.setup_form import SetupForm
from workbench.widgets.difference_dialog import DifferenceDialog

pytestmark = pytest.mark.usefixtures("qapp")


def echo(request: Received) -> Answer:
    prompt = prompt_of(request)
    if "three" in prompt:
        return chat("The very same answer.")
    return chat(f"{request.json()['model']} ", f"says {prompt}", usage=(10, 5))


def profiles(home: Path, server: FakeServer | str, *names: str) -> None:
    url = server if isinstance(server, str) else server.url
    for name in names or ("left", "right"):
        write_profile(Folders(home), name, url, modelName=f"model-{name}")


def page(bench: Workbench) -> ComparePage:
    bench.press("Ctrl+Alt+C")
    found = bench.desk.pages.current
    assert isinstance(found, ComparePage)
    return found


async def begun(bench: Workbench, shown: ComparePage, *words: str, prompt: str = "Say {{word}}") -> None:
    """Fill the form of a new comparison by keyboard and start it."""
    bench.click(shown.view.first if shown.work.record is None else shown.view.new)
    form = await bench.dialog(SetupForm)
    form.prompt.setFocus()
    QTest.keyClicks(form.prompt, prompt)
    form.check_profiles(("left", "right"))
    form.rows.setCurrentCell(0, 0)
    QApplication.clipboard().setText("\n".join(words))
    QTest.keySequence(form.rows, "Ctrl+V")
    bench.click(button(form, "Start"))
    await bench.until(lambda: shown.work.record is not None and shown._form is None)
    await bench.reactivate()


async def ended(bench: Workbench, shown: ComparePage, cells: int) -> None:
    await bench.until(lambda: not shown.work.is_running and len(shown.board.answers) == cells)


def test_a_new_comparison_is_asked_shown_judged_and_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"

    async def story() -> None:
        with FakeServer(echo) as server:
            profiles(home, server)
            async with opened(home) as bench:
                shown = page(bench)
                await begun(bench, shown, "one", "two", "three")
                await ended(bench, shown, 6)
                board, grid = shown.board, shown.view.grid
                assert board.answers[Cell(1, "left", 1)].result.content == "model-left says Say one"
                assert board.prompts_agree is True
                await bench.until(lambda: shown.view.different.text() == "Only different: 2 of 3")
                assert board.same("left") == (1, 3)
                bench.click(shown.view.different)
                assert [line.row.row for line in board.lines] == [1, 2]
                bench.click(shown.view.different)
                grid.setFocus()
                for _ in range(2):
                    QTest.keyClick(grid, Qt.Key.Key_Down)
                QTest.keyClick(grid, Qt.Key.Key_Right)
                assert grid.current == Cell(3, "right", 1)
                assert "row 3" in grid.accessibleDescription()
                for key in (Qt.Key.Key_Plus, Qt.Key.Key_Asterisk, Qt.Key.Key_Asterisk):
                    QTest.keyClick(grid, key)
                await bench.until(lambda: board.marks == {Cell(3, "right", 1): Mark(thumb=1, stars=2)})
                await bench.until(lambda: shown.view.table.figures.figures(1).thumbs == 1)
                await bench.until(lambda: grid._text.isVisible())
                assert grid._text.toPlainText() == "The very same answer."
                assert bench.engine.history is not None
                recorded = {row.id: row for row in await bench.engine.history.runs(10)}
                left = [one.result for cell, one in board.answers.items() if cell.profile == "left"]
                cost = shown.view.table.figures.figures(0).cost
                assert cost == sum(recorded[one.run_id].cost for one in left) > 0
            async with opened(home) as bench:
                shown = page(bench)
                await bench.until(lambda: len(shown.board.answers) == 6)
                await bench.until(lambda: shown.board.marks == {Cell(3, "right", 1): Mark(thumb=1, stars=2)})
                assert len(server.requests) == 6

    run_qt(story(), 60)


def test_answers_stream_stop_keeps_them_and_the_rest_is_asked_later(tmp_path: Path) -> None:
    home = tmp_path / "home"
    slow = [True]

    def script(request: Received) -> Answer:
        answer = chat("Half of ", "an answer")
        if not slow[0] or "one" in prompt_of(request):
            return answer
        return Answer(pieces=[answer.pieces[0], 30.0])

    async def story() -> None:
        with FakeServer(script) as server:
            profiles(home, server)
            async with opened(home) as bench:
                shown = page(bench)
                await begun(bench, shown, "one", "two")
                waiting = Cell(2, "left", 1)
                live = shown.board.live
                await bench.until(lambda: waiting in live and live[waiting].content == "Half of ")
                bench.press("Shift+F5")
                await ended(bench, shown, 1)
                assert shown.board.live == {}
                assert shown.view.run.text() == "Ask 3 left"
                slow[0] = False
                bench.click(shown.view.run)
                await ended(bench, shown, 4)
                asked = [(request.json()["model"], prompt_of(request)) for request in server.requests]
                assert asked.count(("model-left", "Say one")) == 1
                assert not shown.view.run.isVisible()

    run_qt(story(), 60)


def test_names_are_hidden_until_somebody_has_judged(tmp_path: Path) -> None:
    home = tmp_path / "home"

    async def story() -> None:
        with FakeServer(echo) as server:
            profiles(home, server)
            async with opened(home) as bench:
                shown = page(bench)
                await begun(bench, shown, *(f"word {number}" for number in range(8)))
                await ended(bench, shown, 16)
                bench.click(shown.view.blind)
                board, grid = shown.board, shown.view.grid
                assert not shown.view.table.isVisible()
                orders = {board.columns(line) for line in board.lines}
                assert orders == {("left", "right"), ("right", "left")}
                grid.setFocus()
                QTest.keyClick(grid, Qt.Key.Key_Plus)
                assert "Answer A" in grid.accessibleDescription()
                assert "left," not in grid.accessibleDescription()
                first = grid.current
                assert first is not None
                await bench.until(lambda: board.marks.get(first) == Mark(thumb=1, blind=True))
                assert board.voted == 1
                bench.click(shown.view.reveal)
                assert shown.view.table.isVisible()
                assert {board.columns(line) for line in board.lines} == {("left", "right")}

    run_qt(story(), 60)


def test_words_are_compared_and_a_cell_is_asked_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    answers = ["first try"]

    def script(request: Received) -> Answer:
        if request.json()["model"] == "model-right":
            return chat(answers[-1])
        return failure(400, "too odd")

    async def story() -> None:
        with FakeServer(script) as server:
            profiles(home, server)
            async with opened(home) as bench:
                shown = page(bench)
                await begun(bench, shown, "one")
                await ended(bench, shown, 2)
                left, right = Cell(1, "left", 1), Cell(1, "right", 1)
                assert shown.board.answers[left].result.status is CellStatus.FAILED
                answers.append("second try")
                grid = shown.view.grid
                grid.setFocus()
                QTest.keyClick(grid, Qt.Key.Key_Right)
                shown._show_menu(right, grid.mapToGlobal(grid.rect().center()))
                menu = next(one for one in shown.findChildren(QMenu) if one.isVisible())
                next(action for action in menu.actions() if action.text() == "Ask again").trigger()
                menu.close()
                await bench.until(lambda: len(server.requests) == 3 and right in shown.board.answers)
                assert shown.board.answers[right].result.content == "second try"
                await ended(bench, shown, 2)
                assert len(server.requests) == 3
                grid.pressed.emit(right, Part.DIFF)
                dialog = await bench.dialog(DifferenceDialog)
                assert [choice.currentText() for choice in dialog.choices] == ["right", "left"]
                assert [piece.kind for piece in dialog.difference.pieces] == ["removed"]
                dialog.reject()
                await bench.reactivate()

    run_qt(story(), 60)


def test_the_winner_answers_for_a_category_and_all_is_exported(tmp_path: Path) -> None:
    home = tmp_path / "home"

    async def story() -> None:
        with FakeServer(echo) as server:
            profiles(home, server)
            async with opened(home) as bench:
                shown = page(bench)
                await begun(bench, shown, "one")
                await ended(bench, shown, 2)
                menu = shown.view.winner.menu()
                menu.aboutToShow.emit()
                assert [action.isEnabled() for action in menu.actions()] == [False]
                shown.work.mark(Cell(1, "right", 1), Mark(stars=5))
                menu.aboutToShow.emit()
                assert menu.actions()[0].text() == "right"
                next(action for action in menu.actions() if action.text().startswith("COLD")).trigger()
                await bench.until(lambda: bench.engine.profiles.categories().get("COLD") == "right")
                await bench.until(lambda: shown.view.banners.banners)
                before = bench.engine.profiles.categories().get("M")
                bench.click(button(shown.view.banners.banners[0], "Undo"))
                await bench.until(lambda: bench.engine.profiles.categories().get("COLD") != "right")
                assert bench.engine.profiles.categories().get("M") == before
                shown._ask_export("JSONL (*.jsonl)")
                await bench.dialog(QFileDialog)
                target = tmp_path / "out.jsonl"
                await choose_file(bench, target)
                await bench.until(target.exists)
                lines = [json.loads(line) for line in target.read_text().splitlines()]
                assert [(line["profile"], line["content"]) for line in lines] == [
                    ("left", "model-left says Say one"),
                    ("right", "model-right says Say one"),
                ]
                assert lines[1]["mark"] == {"stars": 5}

    run_qt(story(), 60)


def test_what_keeps_a_comparison_from_beginning_is_told_in_the_form(tmp_path: Path) -> None:
    home = tmp_path / "home"
    profiles(home, "http://127.0.0.1:9")
    dataset = tmp_path / "odd.csv"
    dataset.write_text("other\n1\n")

    async def story() -> None:
        async with opened(home) as bench:
            shown = page(bench)
            bench.click(shown.view.first)
            form = await bench.dialog(SetupForm)
            bench.click(button(form, "Start"))
            assert form._fault.text() == "The prompt is empty."
            QTest.keyClicks(form.prompt, "Say {{word}}")
            bench.click(button(form, "Start"))
            assert form._fault.text() == "Found 0 profiles, expected 2 to 8."
            form.check_profiles(("left", "right"))
            form._from_file.setChecked(True)
            form.dataset.line.setText(str(dataset))
            bench.click(button(form, "Start"))
            await bench.until(lambda: 'no column for the input "word"' in form._fault.text())
            assert shown.work.record is None
            form.reject()
            await bench.reactivate()

    run_qt(story(), 60)


def test_ten_thousand_cells_are_laid_out_only_where_they_are_seen(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path / "home") as bench:
            shown = page(bench)
            names = tuple(f"profile-{number}" for number in range(8))
            rows = [CompareRow(row=number, values={"q": f"question {number}"}) for number in range(1, 1251)]
            shown.board.show("x", CompareJob(title="Many", flow_text="", profiles=names), rows)
            shown.view.show_work(True)
            text = "an answer of many words " * 400
            one = CellResult(row=1, profile="", repeat=1, status=CellStatus.ANSWERED, content=text)
            answers = [boards.Answer.of(replace(one, row=row.row, profile=name)) for row in rows for name in names]
            shown.board.take_answers(answers)
            shown.board.all_taken()
            grid = shown.view.grid
            grid.setFocus()
            QTest.keyClick(grid, Qt.Key.Key_End)
            assert grid.current == Cell(1250, "profile-0", 1)
            grid.viewport().grab()
            assert len(grid._texts._kept) <= 200
            assert sum(len(one.result.content) for one in shown.board.answers.values()) <= 10_000 * 4_000

    run_qt(story(), 120)
