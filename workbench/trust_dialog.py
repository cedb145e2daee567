"""The question whether a flow from elsewhere may do all it can: abilities, code, and what has changed."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from engine.flow_access import Access
from workbench.text_format import visible_text
from workbench.theme import theme


class TrustDialog(QDialog):
    """Lists what the flow can do; `open` it and wait for `trusted`. Keeping it restricted is what Esc and Enter do."""

    trusted = Signal(object)
    """The Access that was shown."""

    def __init__(self, access: Access, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._access = access
        self.panes: list[QPlainTextEdit] = []
        """What is shown of changes and code."""
        name = visible_text(access.name)
        self.setWindowTitle(self.tr("Trust %1?").replace("%1", name))
        head = self._label(self._question(access, name))
        head.setFont(theme.font(13, 600))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*(theme.px(16),) * 4)
        layout.setSpacing(theme.px(12))
        layout.addWidget(head)
        layout.addWidget(self._abilities(access))
        if (pages := self._pages(access)) is not None:
            layout.addWidget(pages, 1)
        if access.has_code:
            rights = self.tr(
                "Its code runs in a process of its own with limits on time, memory, files and processes, but with your"
                " rights: it can read and change your files and use the network."
            )
            layout.addWidget(self._label(rights))
        layout.addLayout(self._buttons())
        room = self.screen().availableSize()
        self.resize(min(theme.px(640), room.width() * 9 // 10), min(theme.px(560), room.height() * 9 // 10))

    def _question(self, access: Access, name: str) -> str:
        if access.trust.state == "changed":
            text = self.tr("%1 has changed since you trusted it. It can do this:")
        else:
            text = self.tr("%1 was not made here. It can do this:")
        return text.replace("%1", name)

    def _abilities(self, access: Access) -> QListWidget:
        """What needs trust, then what happens in any case."""
        self.abilities = QListWidget(self)
        self.abilities.setAccessibleName(self.tr("What the flow can do"))
        self.abilities.setWordWrap(True)
        self.abilities.setSelectionMode(QListWidget.SelectionMode.NoSelection)
        for ability in access.abilities:
            item = QListWidgetItem(visible_text(ability.text), self.abilities)
            icon, color = ("warning", "warn") if ability.restricted else ("info", "text2")
            item.setIcon(theme.icon(icon, color=color))
            item.setToolTip(self.tr("Waits for your trust") if ability.restricted else self.tr("Runs in a sandbox"))
        rows = min(max(len(access.abilities), 2), 7)
        self.abilities.setFixedHeight(theme.px(12 + 22 * rows))
        return self.abilities

    def _pages(self, access: Access) -> QTabWidget | None:
        """The code and the difference, as plain text with hidden characters made visible."""
        pages = QTabWidget(self)
        if access.trust.difference:
            pages.addTab(self._text(access.trust.difference), self.tr("Changes"))
        if access.parts:
            text = "\n\n".join(f"— {place}\n{part}" for place, part in access.parts.items())
            pages.addTab(self._text(text), self.tr("Code"))
        if pages.count() == 0:
            pages.deleteLater()
            return None
        return pages

    def _text(self, text: str) -> QPlainTextEdit:
        pane = QPlainTextEdit(self)
        pane.setReadOnly(True)
        pane.setFont(theme.font(12, mono=True))
        pane.setTabChangesFocus(True)
        pane.setPlainText(visible_text(text))
        self.panes.append(pane)
        return pane

    def _label(self, text: str) -> QLabel:
        label = QLabel(text, self)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        return label

    def _buttons(self) -> QHBoxLayout:
        keep = QPushButton(self.tr("Keep restricted"), self)
        keep.setDefault(True)
        keep.clicked.connect(self.reject)
        self.accept_button = QPushButton(self.tr("Trust"), self)
        self.accept_button.setAutoDefault(False)
        self.accept_button.clicked.connect(self._trust)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.accept_button)
        row.addWidget(keep)
        keep.setFocus()
        return row

    def _trust(self) -> None:
        self.trusted.emit(self._access)
        self.accept()
