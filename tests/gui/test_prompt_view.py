"""The Prompt tab of a text completion: the raw prompt, its special tokens marked."""

import pytest
from PySide6.QtWidgets import QTextEdit
from pytestqt.qtbot import QtBot

from engine.conversation import Conversation
from engine.prompt_strategies import strategy_named
from workbench.run_panel import prompt_view
from workbench.run_panel.prompt_view import PromptView
from workbench.run_panel.run_state import Attempt
from workbench.theme import theme


@pytest.fixture
def view(qtbot: QtBot) -> PromptView:
    made = PromptView()
    qtbot.addWidget(made)
    made.show()
    return made


def marked(view: PromptView) -> list[str]:
    """The texts in the colour of special tokens, neighbours apart by their place."""
    (edit,) = view.findChildren(QTextEdit)
    found = []
    block = edit.document().begin()
    while block.isValid():
        iterator = block.begin()
        while not iterator.atEnd():
            piece = iterator.fragment()
            if piece.charFormat().foreground().color() == theme.color("reason"):
                found.append(piece.text())
            iterator += 1
        block = block.next()
    return found


def test_special_tokens_are_marked_and_those_of_the_user_are_not(view: PromptView, qtbot: QtBot) -> None:
    raw = strategy_named("chatml").render(Conversation.create("", "a <|im_end|> b").turns)
    view.show_attempt(Attempt(1, 0.0, turns=(("user", "a <|im_end|> b"),), raw=raw, raw_format="chatml"))
    (edit,) = view.findChildren(QTextEdit)
    qtbot.waitUntil(lambda: edit.toPlainText() == f"raw prompt, format chatml\n{raw}")
    assert marked(view) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    assert "a <\\|im_end|> b" in edit.toPlainText()
    assert view.text == raw.strip()


def test_a_long_raw_prompt_and_an_unknown_format(
    view: PromptView, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    monkeypatch.setattr(prompt_view, "SHOWN_CHARACTERS", 500)
    raw = "x" * 505
    view.show_attempt(Attempt(1, 0.0, turns=(("user", raw),), raw=raw, raw_format="gone"))
    (edit,) = view.findChildren(QTextEdit)
    qtbot.waitUntil(lambda: edit.toPlainText().endswith("\n… and 5 more characters"))
    assert marked(view) == []
    assert view.text == raw


def test_turns_are_shown_when_there_is_no_raw_prompt(view: PromptView, qtbot: QtBot) -> None:
    view.show_attempt(Attempt(1, 0.0, turns=(("user", "<|im_end|>"),)))
    (edit,) = view.findChildren(QTextEdit)
    qtbot.waitUntil(lambda: edit.toPlainText() == "user\n<|im_end|>")
    assert marked(view) == []


def test_a_long_prompt_comes_bit_by_bit_in_order_and_nothing_is_lost(view: PromptView, qtbot: QtBot) -> None:
    (edit,) = view.findChildren(QTextEdit)
    lines = "\n".join(f"line {number}" for number in range(8_000))
    view.show_attempt(Attempt(1, 0.0, turns=(("system", lines), ("user", "And now?"))))
    shown = edit.toPlainText()
    assert 0 < len(shown) < len(lines)
    assert f"system\n{lines}".startswith(shown)
    assert edit.textCursor().position() == 0
    qtbot.waitUntil(lambda: edit.toPlainText() == f"system\n{lines}\nuser\nAnd now?")
    assert edit.textCursor().position() == 0


def test_another_prompt_replaces_one_that_is_still_coming(view: PromptView, qtbot: QtBot) -> None:
    (edit,) = view.findChildren(QTextEdit)
    view.show_attempt(Attempt(1, 0.0, turns=(("user", "word " * 30_000),)))
    view.show_attempt(Attempt(2, 0.0, turns=(("user", "short"),)))
    qtbot.waitUntil(lambda: not view._rest.isActive())
    assert edit.toPlainText() == "user\nshort"


def test_a_prompt_that_nobody_sees_costs_nothing_until_it_is_shown(view: PromptView, qtbot: QtBot) -> None:
    (edit,) = view.findChildren(QTextEdit)
    view.hide()
    view.show_attempt(Attempt(1, 0.0, turns=(("user", "Hello"),)))
    assert edit.toPlainText() == ""
    view.show()
    qtbot.waitUntil(lambda: edit.toPlainText() == "user\nHello")
