"""The text of a profile, which form and source edit alike: comments, order and unknown keys stay."""

from collections.abc import Mapping

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QTextCursor, QTextDocument
from PySide6.QtWidgets import QPlainTextDocumentLayout

from engine.profile_edit import with_property
from engine.profile_file import parse_properties
from engine.profile_keys import key_named
from workbench.profiles.source_colors import SourceColors

LEFT_OUT = "(left-out)"
"""Stands in recovery files where a key in plain was."""


class ProfileDocument(QObject):
    """One profile; its edits are undone in the source as they are made, whichever side made them."""

    changed = Signal()
    """The text is another one."""

    def __init__(self, name: str, data: bytes, *, is_bundled: bool, parent: QObject) -> None:
        """Begin with the bytes of a file."""
        super().__init__(parent)
        self.name = name
        self.is_bundled = is_bundled
        """It came with the workbench: saving makes a file of the person's own."""
        self.source = QTextDocument(self)
        self.source.setDocumentLayout(QPlainTextDocumentLayout(self.source))
        self._colors = SourceColors(self.source)
        self._text = ""
        self.values: Mapping[str, str] = {}
        self.take(data)
        self.source.contentsChanged.connect(self._take_text)

    def take(self, data: bytes, text: str | None = None) -> None:
        """Begin anew with the bytes of the file, edited to `text` if there is one."""
        self.saved = data
        self._encoding = encoding_of(data)
        decoded = data.decode(self._encoding)
        self._end = "\r\n" if "\r\n" in decoded else "\n"
        self._known = decoded.replace("\r\n", "\n")
        self.source.setPlainText(self._known)
        if text is not None and text != self._known:
            self._replace(text)
        self._take_text()

    def _take_text(self) -> None:
        text = self.source.toPlainText()
        if text == self._text:
            return
        self._text = text
        entries = parse_properties(text.encode("utf-8"), self.name).entries
        self.values = {key: entry.value.strip() for key, entry in entries.items()}
        self.changed.emit()

    @property
    def text(self) -> str:
        """The text as it is now, lines ended by `\\n`."""
        return self._text

    @property
    def data(self) -> bytes:
        """What is to be written: every byte of the file but those that were edited."""
        if not self.is_modified:
            return self.saved
        text = self._text.replace("\n", self._end)
        try:
            return text.encode(self._encoding)
        except UnicodeEncodeError:
            return text.encode("utf-8")

    @property
    def is_modified(self) -> bool:
        """Whether it was edited."""
        return self._text != self._known

    def value(self, key: str) -> str:
        """What a key says, without outer blanks; empty without it."""
        return self.values.get(key, "")

    def set_value(self, key: str, value: str) -> None:
        """Set a key, or take its line out for an empty value; one step of undo."""
        if value == self.value(key) and (value or key not in self.values):
            return
        data = self._text.encode("utf-8")
        self._replace(with_property(data, key, value or None).decode("utf-8"))

    def _replace(self, text: str) -> None:
        """Edit what differs, and nothing else."""
        old = self.source.toPlainText()
        start = next((place for place, (a, b) in enumerate(zip(old, text, strict=False)) if a != b), None)
        start = min(len(old), len(text)) if start is None else start
        rest = min(len(old), len(text)) - start
        same = next((n for n in range(rest) if old[len(old) - 1 - n] != text[len(text) - 1 - n]), rest)
        cursor = QTextCursor(self.source)
        cursor.beginEditBlock()
        cursor.setPosition(start)
        cursor.setPosition(len(old) - same, QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText(text[start : len(text) - same])
        cursor.endEditBlock()


def encoding_of(data: bytes) -> str:
    """UTF-8 for what is valid as such, as the files are read (docs/profiles.md), else ISO-8859-1."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "iso-8859-1"
    return "utf-8"


def without_keys(text: str) -> str:
    """The text for a recovery file: keys in plain are left out, and marked."""
    data = text.encode("utf-8")
    for key, entry in parse_properties(data, "").entries.items():
        known = key_named(key)
        if known is not None and known.secret and entry.value.strip() and "${" not in entry.value:
            data = with_property(data, key, LEFT_OUT)
    return data.decode("utf-8")


def with_keys(text: str, saved: Mapping[str, str]) -> str:
    """A text of a recovery file with the keys that the file of the profile has; later ones are to be typed again."""
    data = text.encode("utf-8")
    for key, entry in parse_properties(data, "").entries.items():
        if entry.value.strip() == LEFT_OUT:
            data = with_property(data, key, saved.get(key) or None)
    return data.decode("utf-8")
