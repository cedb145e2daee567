"""Completion of keys while a prompt or an expression is typed."""

import re
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QStringListModel, Qt
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QAbstractItemView, QCompleter, QPlainTextEdit

from workbench.theme import theme

LONGEST = 100
"""Characters of a key; what stands further from the cursor is not looked at."""

Open = tuple[str, str]
"""What was typed of a key, and what belongs behind it."""
_OF_LIST = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab, Qt.Key.Key_Backtab, Qt.Key.Key_Escape)
_NAME = re.compile(r"[^\W\d]\w*$")


def open_placeholder(before: str) -> Open | None:
    """The key of a placeholder that is open at the cursor: `{{`, `{{{` or `[[` and no end."""
    tail = before[-LONGEST:]
    start = max(tail.rfind("{{"), tail.rfind("[["))
    if start < 0:
        return None
    typed = tail[start + 2 :]
    if any(sign in typed for sign in "{}[]|\n"):
        return None
    if tail[start] == "[":
        return typed, "]]"
    return typed, "}}}" if start > 0 and tail[start - 1] == "{" else "}}"


def open_name(before: str) -> Open | None:
    """The name at the cursor in an expression."""
    found = _NAME.search(before[-LONGEST:])
    return (found[0], "") if found else None


class KeyCompletion(QObject):
    """Offers the known keys where one is being typed; Ctrl+Space asks for them, Enter or Tab takes one."""

    def __init__(self, edit: QPlainTextEdit, find: Callable[[str], Open | None]) -> None:
        super().__init__(edit)
        self._edit, self._find = edit, find
        self._names: tuple[str, ...] = ()
        self._model = QStringListModel(self)
        self.completer = QCompleter(self._model, self)
        self.completer.setWidget(edit)
        self.completer.setCompletionMode(QCompleter.CompletionMode.PopupCompletion)
        self.completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.completer.setFilterMode(Qt.MatchFlag.MatchContains)
        self.completer.activated.connect(self._insert)

    def offer(self, names: Sequence[str]) -> None:
        """These can be completed."""
        if tuple(names) != self._names:
            self._names = tuple(names)
            self._model.setStringList(list(names))

    @property
    def popup(self) -> QAbstractItemView:
        """The list of keys."""
        popup = self.completer.popup()
        assert popup is not None  # noqa: S101 - the completer shows one
        return popup

    def takes(self, event: QKeyEvent) -> bool:
        """Whether a pressed key is meant for the list; Enter and Esc are then left to it, which is told so."""
        if event.key() == Qt.Key.Key_Space and event.modifiers() == Qt.KeyboardModifier.ControlModifier:
            self.show(asked=True)
            event.accept()
            return True
        if not self.popup.isVisible() or event.key() not in _OF_LIST:
            return False
        event.ignore()
        index = self.popup.currentIndex()
        if event.key() == Qt.Key.Key_Tab and index.isValid():
            self.popup.hide()
            self._insert(str(index.data()))
            event.accept()
        return True

    def show(self, *, asked: bool = False) -> None:
        """Open, narrow or close the list, as the text before the cursor is."""
        found = self._find(self._before())
        if found is None and asked:
            found = ("", "")
        if found is None or self._edit.isReadOnly() or not (asked or self._edit.hasFocus()):
            self.popup.hide()
            return
        if found[0] != self.completer.completionPrefix() or not self.popup.isVisible():
            self.completer.setCompletionPrefix(found[0])
        count = self.completer.completionCount()
        if not count or (count == 1 and self.completer.currentCompletion() == found[0]):
            self.popup.hide()
            return
        self.popup.setFont(theme.font(12, mono=True))
        self.popup.setAccessibleName(self.tr("Known keys"))
        self.popup.setCurrentIndex(self.completer.completionModel().index(0, 0))
        place = self._edit.cursorRect()
        place.setWidth(max(theme.px(160), self.popup.sizeHintForColumn(0) + theme.px(24)))
        self.completer.complete(place)

    def _before(self) -> str:
        cursor = self._edit.textCursor()
        return cursor.block().text()[: cursor.positionInBlock()]

    def _insert(self, name: str) -> None:
        typed, ending = self._find(self._before()) or ("", "")
        cursor = self._edit.textCursor()
        cursor.movePosition(QTextCursor.MoveOperation.Left, QTextCursor.MoveMode.KeepAnchor, len(typed))
        after = cursor.block().text()[self._edit.textCursor().positionInBlock() :]
        have = next((size for size in range(len(ending), 0, -1) if after.startswith(ending[:size])), 0)
        cursor.insertText(name + ending[have:])
        if have:
            cursor.movePosition(QTextCursor.MoveOperation.Right, QTextCursor.MoveMode.MoveAnchor, have)
        self._edit.setTextCursor(cursor)
