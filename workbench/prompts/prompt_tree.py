"""The tree of prompts: by agent or tool, then prompt, then language."""

from collections.abc import Collection, Iterable, Mapping

from PySide6.QtCore import QCoreApplication, QModelIndex, QSize, QSortFilterProxyModel, Qt, Signal
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QLineEdit, QTreeView, QVBoxLayout, QWidget

from engine.prompt_library import PromptEntry
from workbench.drafts import Place
from workbench.text_format import language_name, plain_tip, visible_text
from workbench.theme import theme
from workbench.widgets.row_delegate import RowDelegate

PLACE_ROLE = Qt.ItemDataRole.UserRole + 1
KEY_ROLE = Qt.ItemDataRole.UserRole + 2

translate = QCoreApplication.translate


def group_names() -> dict[str, str]:
    """The first part of a key → whose prompts those are, in the order they are shown."""
    return {
        "planner": translate("PromptTree", "Planner"),
        "executor": translate("PromptTree", "Executor"),
        "react": translate("PromptTree", "ReAct agent"),
        "summary": translate("PromptTree", "Summary"),
        "task": translate("PromptTree", "Tasks"),
        "sop": translate("PromptTree", "Procedures"),
        "output_style": translate("PromptTree", "Output styles"),
        "struct_parse": translate("PromptTree", "Tool calls in text"),
        "tool": translate("PromptTree", "Descriptions of tools"),
        "code": translate("PromptTree", "Code interpreter"),
        "report": translate("PromptTree", "Reports"),
    }


def prompt_name(key: str) -> str:
    """What a prompt is called below its group: `System prompt`."""
    words = (key.partition(".")[2].removesuffix(".desc").replace("_", " ").replace(".", " ") or key).split(" ")
    first, *rest = (word.upper() if word in ("sop", "html", "ppt") else word for word in words)
    return " ".join([first[:1].upper() + first[1:], *rest])


class PromptTree(QWidget):
    """The tree with a filter."""

    chosen = Signal(object)
    """The Place of the text to show."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._preferred = "en"
        self._showing = False
        self._filter = QLineEdit(self)
        self._filter.setPlaceholderText(self.tr("Filter"))
        self._filter.setClearButtonEnabled(True)
        self._filter.setAccessibleName(self.tr("Filter the prompts"))
        self._filter_icon = self._filter.addAction(theme.icon("search", 14), QLineEdit.ActionPosition.LeadingPosition)
        self._model = QStandardItemModel(self)
        self._proxy = QSortFilterProxyModel(self)
        self._proxy.setSourceModel(self._model)
        self._proxy.setRecursiveFilteringEnabled(True)
        self._proxy.setAutoAcceptChildRows(True)
        self._proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.view = QTreeView(self)
        self.view.setModel(self._proxy)
        self.view.setHeaderHidden(True)
        self.view.setUniformRowHeights(True)
        self.view.setEditTriggers(QTreeView.EditTrigger.NoEditTriggers)
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.view.setAccessibleName(self.tr("Prompts"))
        self.view.setItemDelegate(RowDelegate(24, self))
        self.view.selectionModel().currentChanged.connect(self._current_changed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.px(8), theme.px(8), theme.px(8), 0)
        layout.setSpacing(theme.px(6))
        layout.addWidget(self._filter)
        layout.addWidget(self.view, 1)
        self._filter.textChanged.connect(self._filter_changed)
        self.setFocusProxy(self.view)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_entries(self, entries: Iterable[PromptEntry], unsaved: Collection[Place], preferred: str) -> None:
        """List these texts and those that are not saved yet; `preferred` is shown when a prompt itself is chosen."""
        self._preferred = preferred
        by_place: dict[Place, PromptEntry | None] = dict.fromkeys(unsaved)
        by_place |= {(entry.key, entry.language): entry for entry in entries}
        current, opened = self.place(), self._opened()
        self._showing = True
        self._model.clear()
        known = group_names()
        groups = sorted({key.partition(".")[0] for key, _ in by_place}, key=lambda name: _order(name, known))
        for group in groups:
            head = QStandardItem(visible_text(known.get(group, group)))
            head.setFont(theme.font(12, 600))
            head.setData(group, KEY_ROLE)
            head.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
            keys = {key for key, _ in by_place if key.partition(".")[0] == group}
            for key in sorted(keys, key=lambda key: (".system" not in key, key)):
                head.appendRow(self._prompt_row(key, by_place, unsaved))
            self._model.appendRow(head)
        self._unfold(opened)
        if current is not None:
            self._select(current)
        self._showing = False

    def _prompt_row(
        self, key: str, by_place: Mapping[Place, PromptEntry | None], unsaved: Collection[Place]
    ) -> QStandardItem:
        row = QStandardItem(visible_text(prompt_name(key)))
        row.setToolTip(plain_tip(key))
        row.setData(key, KEY_ROLE)
        texts = [place for place in by_place if place[0] == key]
        marked = [place for place in texts if place in unsaved or _differs(by_place[place])]
        row.setIcon(theme.icon("edit" if marked else "content", 16, "accent" if marked else "text2", checked=None))
        for place in sorted(texts):
            row.appendRow(_text_row(place, by_place[place], place in unsaved))
        return row

    def place(self) -> Place | None:
        """The text that is chosen; of a prompt that in the preferred language."""
        index = self.view.currentIndex()
        place: Place | None = index.data(PLACE_ROLE)
        if place is not None or not index.parent().isValid():
            return place
        model = index.model()
        texts: list[Place] = [model.index(row, 0, index).data(PLACE_ROLE) for row in range(model.rowCount(index))]
        wanted = (self._preferred, self._preferred.partition("-")[0], "default", "en")
        preferred = (text for language in wanted for text in texts if text[1] == language)
        return next(preferred, next(iter(texts), None))

    def choose(self, place: Place) -> None:
        """Make a text the current one and show it."""
        self._select(place)

    def _select(self, place: Place) -> None:
        for head in (self._model.item(row) for row in range(self._model.rowCount())):
            for row in (head.child(line) for line in range(head.rowCount())):
                for text in (row.child(line) for line in range(row.rowCount())):
                    if text.data(PLACE_ROLE) == place:
                        self.view.setCurrentIndex(self._proxy.mapFromSource(text.index()))
                        return

    def _opened(self) -> set[str] | None:
        """Keys of the rows that are unfolded; None before anything was shown."""
        if not self._model.rowCount():
            return None
        rows = [self._proxy.index(row, 0) for row in range(self._proxy.rowCount())]
        rows += [self._proxy.index(line, 0, row) for row in rows for line in range(self._proxy.rowCount(row))]
        return {row.data(KEY_ROLE) for row in rows if self.view.isExpanded(row)}

    def _unfold(self, opened: set[str] | None) -> None:
        for row in range(self._proxy.rowCount()):
            head = self._proxy.index(row, 0)
            self.view.setExpanded(head, opened is None or head.data(KEY_ROLE) in opened)
            for line in range(self._proxy.rowCount(head)):
                prompt = self._proxy.index(line, 0, head)
                self.view.setExpanded(prompt, opened is not None and prompt.data(KEY_ROLE) in opened)

    def _current_changed(self, _current: QModelIndex, _before: QModelIndex) -> None:
        place = self.place()
        if not self._showing and place is not None:
            self.chosen.emit(place)

    def _filter_changed(self, text: str) -> None:
        self._proxy.setFilterFixedString(text)
        for row in range(self._proxy.rowCount()):
            self.view.setExpanded(self._proxy.index(row, 0), True)

    def _restyle(self) -> None:
        self.view.setIndentation(theme.px(14))
        self.view.setIconSize(QSize(theme.px(16), theme.px(16)))
        self._filter_icon.setIcon(theme.icon("search", 14))


def _text_row(place: Place, entry: PromptEntry | None, unsaved: bool) -> QStandardItem:
    row = QStandardItem(visible_text(language_name(place[1])) + (" •" if unsaved else ""))
    row.setData(place, PLACE_ROLE)
    icon, color, tip = "ok", "muted", translate("PromptTree", "The shipped text")
    if entry is not None and entry.fault:
        icon, color, tip = "warning", "warn", visible_text(entry.fault)
    elif entry is None:
        icon, color, tip = "edit", "accent", translate("PromptTree", "Not saved yet")
    elif not entry.shipped:
        icon, color, tip = "edit", "accent", translate("PromptTree", "A text of yours")
    elif entry.differs:
        icon, color, tip = "diff", "accent", translate("PromptTree", "Differs from the shipped text")
    row.setIcon(theme.icon(icon, 16, color, checked=None))
    row.setToolTip(tip)
    return row


def _differs(entry: PromptEntry | None) -> bool:
    return entry is None or entry.differs or bool(entry.fault)


def _order(group: str, known: Mapping[str, str]) -> tuple[int, str]:
    return (list(known).index(group) if group in known else len(known), group)
