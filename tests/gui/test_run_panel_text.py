"""Streaming text in panes: nothing lost, nothing done in vain, nothing loaded."""

import random
import time

import pytest
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from workbench.run_panel.error_guard import ErrorGuard
from workbench.run_panel.markdown_text import ClosedDocument, rendering
from workbench.run_panel.run_state import StreamedText
from workbench.run_panel.stream_text import MAX_BLOCKS, PaneFlusher, StreamText, View


def render_markdown(document: ClosedDocument, text: str) -> None:
    """Render to the end at once."""
    for _ in rendering(document, text):
        pass


class Bench(QWidget):
    """A flusher and one text in a window."""

    def __init__(self) -> None:
        super().__init__()
        self.flusher = PaneFlusher(ErrorGuard(), self)
        self.text = StreamText(self.flusher, parent=self)
        self.text.resize(300, 120)
        self.source = StreamedText()

    def stream(self, *pieces: str) -> None:
        for piece in pieces:
            self.source.append(piece)
        self.flusher.wake()


@pytest.fixture
def bench(qtbot: QtBot) -> Bench:
    made = Bench()
    qtbot.addWidget(made)
    made.text.choose_view(View.RAW)
    made.text.bind(made.source, live=True)
    made.show()
    qtbot.waitUntil(lambda: not made.flusher.active)
    return made


def settled(qtbot: QtBot, bench: Bench) -> str:
    qtbot.waitUntil(lambda: not bench.flusher.active)
    return bench.text.toPlainText()


def test_every_character_arrives_in_order(qtbot: QtBot, bench: Bench) -> None:
    seeded = random.Random(7)
    text = "".join(seeded.choice("abc dé中\n") for _ in range(20_000))
    place = 0
    while place < len(text):
        size = seeded.randint(1, 9)
        bench.stream(text[place : place + size])
        place += size
        if seeded.random() < 0.02:
            qtbot.wait(1)
    assert settled(qtbot, bench) == text


def test_many_pieces_are_few_insertions(qtbot: QtBot, bench: Bench) -> None:
    changes = 0

    def count() -> None:
        nonlocal changes
        changes += 1

    bench.text.document().contentsChanged.connect(count)
    bench.stream(*("word" for _ in range(5000)))
    assert len(settled(qtbot, bench).replace("\n", "")) == 20_000
    assert changes <= 30


def test_a_hidden_text_costs_nothing_and_catches_up(qtbot: QtBot, bench: Bench) -> None:
    bench.text.hide()
    bench.stream("unseen words")
    qtbot.waitUntil(lambda: not bench.flusher.active)
    assert bench.text.document().isEmpty()
    bench.text.show()
    assert settled(qtbot, bench) == "unseen words"


def test_the_timer_rests_when_nothing_comes(qtbot: QtBot, bench: Bench) -> None:
    bench.stream("one")
    assert bench.flusher.active
    assert settled(qtbot, bench) == "one"
    assert not bench.flusher.active


def test_it_follows_until_the_person_scrolls_up(qtbot: QtBot, bench: Bench) -> None:
    bench.stream("line\n" * 60)
    settled(qtbot, bench)
    bar = bench.text.verticalScrollBar()
    assert bench.text.following
    assert bar.value() == bar.maximum() > 0
    bar.setValue(10)
    assert not bench.text.following
    bench.stream("line\n" * 60)
    settled(qtbot, bench)
    assert bar.value() == 10
    bench.text.jump_to_end()
    assert bench.text.following
    bench.stream("more\n" * 10)
    settled(qtbot, bench)
    assert bar.value() == bar.maximum()


def test_display_is_limited_and_the_text_is_whole(qtbot: QtBot, bench: Bench) -> None:
    text = "".join(f"{number}\n" for number in range(MAX_BLOCKS + 2000))
    bench.stream(text)
    settled(qtbot, bench)
    document = bench.text.document()
    assert document.blockCount() <= MAX_BLOCKS
    assert document.lastBlock().previous().text() == str(MAX_BLOCKS + 1999)
    assert bench.text.full_text == text
    assert not document.isUndoRedoEnabled()


def test_an_endless_line_is_closed_for_display(qtbot: QtBot, bench: Bench) -> None:
    bench.stream("x" * 262_144)
    shown = settled(qtbot, bench)
    assert max(len(line) for line in shown.split("\n")) <= 2000
    assert shown.replace("\n", "") == "x" * 262_144


def test_megabytes_at_once_are_cut_for_display_only(qtbot: QtBot, bench: Bench) -> None:
    text = "start " + "x" * (4 * 1024 * 1024) + " end"
    bench.stream(text)
    qtbot.waitUntil(lambda: not bench.flusher.active, timeout=30_000)
    shown = bench.text.toPlainText()
    assert shown.replace("\n", "").endswith(" end")
    assert "characters are not shown here" in shown
    assert len(shown) < 600_000
    assert bench.text.full_text == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nul\x00 stays", "nul‹NUL› stays"),
        ("\ud800 lone", "\ufffd lone"),
        ("\x1b]52;c;aGk=\x07", "‹ESC›]52;c;aGk=‹BEL›"),
        ("exe\u202etxt", "exe‹RLO›txt"),
    ],
)
def test_strange_characters(qtbot: QtBot, bench: Bench, text: str, shown: str) -> None:
    bench.stream(text)
    assert settled(qtbot, bench) == shown


def test_a_replaced_text_is_shown_anew(qtbot: QtBot, bench: Bench) -> None:
    bench.stream("<think>hm</think>answer")
    settled(qtbot, bench)
    bench.source.settle("answer")
    bench.flusher.wake()
    assert settled(qtbot, bench) == "answer"


def test_the_work_of_one_turn_is_bounded(qtbot: QtBot, bench: Bench) -> None:
    bench.stream("some words\n" * 100_000)
    bench.flusher.flush()
    read = len(bench.text.toPlainText())
    assert 0 < read < 1_100_000
    bench.text.bind(None, live=False)


def test_a_finished_answer_is_rendered(qtbot: QtBot, bench: Bench) -> None:
    bench.text.choose_view(View.RENDERED)
    bench.stream("# Title\n\nIt **works**.\n")
    assert "**works**" in settled(qtbot, bench)
    bench.text.bind(bench.source, live=False)
    assert settled(qtbot, bench) == "Title\nIt works."


def test_a_part_is_not_rendered(qtbot: QtBot, bench: Bench) -> None:
    bench.text.choose_view(View.RENDERED)
    bench.stream("It **works")
    bench.text.bind(bench.source, live=False, whole=False)
    assert settled(qtbot, bench) == "It **works"


def test_json_is_recognised_and_laid_out_at_the_end(qtbot: QtBot, bench: Bench) -> None:
    bench.text.choose_view(None)
    bench.stream('{"a": [1, 2]', ', "b": "x"}')
    assert settled(qtbot, bench) == '{"a": [1, 2], "b": "x"}'
    assert bench.text.view is View.JSON
    bench.text.bind(bench.source, live=False)
    assert settled(qtbot, bench) == '{\n  "a": [\n    1,\n    2\n  ],\n  "b": "x"\n}'


def test_broken_json_stays_as_it_came(qtbot: QtBot, bench: Bench) -> None:
    bench.text.choose_view(View.JSON)
    bench.stream('{"a": ')
    bench.text.bind(bench.source, live=False)
    assert settled(qtbot, bench) == '{"a": '


@pytest.mark.parametrize(
    "markdown",
    [
        "![photo](file:///etc/hostname)",
        "![photo](http://127.0.0.1:9/x.png)",
        "![photo][one]\n\n[one]: /etc/hostname",
        '<img src="/etc/hostname">',
        "<svg><image href='/etc/hostname'/></svg>",
        "![photo](data:image/png;base64,iVBORw0KGgo=)",
    ],
)
def test_pictures_are_never_loaded(qtbot: QtBot, markdown: str) -> None:
    document = ClosedDocument()
    render_markdown(document, markdown)
    assert "\ufffc" not in document.toPlainText()
    assert any(part in document.toPlainText() for part in ("hostname", "x.png", "base64"))


def test_the_document_gives_a_blank_for_every_resource(qtbot: QtBot) -> None:
    document = ClosedDocument()
    for kind in (QTextDocument.ResourceType.ImageResource, QTextDocument.ResourceType.StyleSheetResource):
        image = document.resource(kind.value, "/etc/hostname")
        assert (image.width(), image.height()) == (1, 1)


def test_a_table_after_code_has_no_empty_cell(qtbot: QtBot) -> None:
    document = ClosedDocument()
    render_markdown(document, "```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    assert document.toPlainText().split("\n") == ["x = 1", "a", "b", "1", "2", ""]


def test_rendering_long_text_is_fast_enough_not_to_be_felt(qtbot: QtBot) -> None:
    """A generous bound: a quadratic renderer would take minutes."""
    document = ClosedDocument()
    started = time.perf_counter()
    render_markdown(document, "Some **words** in a `line`.\n\n" * 2000)
    assert time.perf_counter() - started < 20
    assert document.blockCount() == 2000
