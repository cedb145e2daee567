"""Banners over a view: the newest is shown, a count opens the rest."""

from PySide6.QtWidgets import QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from workbench.widgets.banner import Banner, BannerButton, Message
from workbench.widgets.banner_stack import BannerStack


def banner(title: str, *buttons: BannerButton) -> Banner:
    return Banner(Message(kind="warn", title=title), buttons)


def shown(stack: BannerStack) -> list[str]:
    return [each.title() for each in stack.banners if each.isVisible()]


def test_the_newest_is_shown_and_a_count_opens_the_rest(qtbot: QtBot) -> None:
    stack = BannerStack()
    qtbot.addWidget(stack)
    stack.show()
    more = stack.findChild(QToolButton)
    assert isinstance(more, QToolButton)
    stack.push(banner("first"))
    assert (shown(stack), more.isVisible()) == (["first"], False)
    stack.push(banner("second"))
    stack.push(banner("third"))
    assert (shown(stack), more.text()) == (["third"], "2 more messages")
    more.click()
    assert shown(stack) == ["third", "second", "first"]
    more.click()
    stack.banners[0].closed.emit()
    assert (shown(stack), more.text()) == (["second"], "1 more message")


def test_the_same_message_replaces_itself_and_an_answer_closes(qtbot: QtBot) -> None:
    pressed: list[str] = []
    stack = BannerStack()
    qtbot.addWidget(stack)
    stack.show()
    stack.push(banner("full"))
    stack.push(banner("full", BannerButton("Retry", lambda: pressed.append("retry"))))
    assert len(stack.banners) == 1
    button = next(child for child in stack.banners[0].findChildren(QPushButton) if child.text() == "Retry")
    button.click()
    assert (pressed, stack.banners) == (["retry"], [])
