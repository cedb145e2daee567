"""The documentation, read in a window of its own: the pages of `docs/`, without any network."""

import sys
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QTextBlockFormat, QTextCursor
from PySide6.QtWidgets import QDialog, QHBoxLayout, QListWidget, QTextBrowser, QWidget

from workbench.theme import theme
from workbench.widgets.row_delegate import RowDelegate

FIRST_PAGES = ("running-flows", "flow-format", "profiles", "local-models", "cli", "reliability")
"""What a newcomer asks about, before what a developer asks about."""
INSTALLED = Path("share", "doc", "flow-workbench")
"""Where an installation keeps the pages, below its prefix."""


def documentation_folder() -> Path | None:
    """Where the pages are: in the checkout, or where the installation put them."""
    beside = Path(__file__).parents[1]
    for folder in (beside / "docs", Path(sys.prefix) / INSTALLED, beside / INSTALLED):
        if (folder / f"{FIRST_PAGES[0]}.md").is_file():
            return folder
    return None


def pages(folder: Path) -> list[Path]:
    """All pages, the first ones first."""
    order = {name: place for place, name in enumerate(FIRST_PAGES)}
    return sorted(folder.glob("*.md"), key=lambda page: (order.get(page.stem, len(order)), page.stem))


def page_title(text: str) -> str:
    """The first heading of a page."""
    return next((line.removeprefix("# ").strip() for line in text.splitlines() if line.startswith("# ")), "")


class Documentation(QDialog):
    """Pages at the left, the chosen one at the right; `show` it."""

    def __init__(self, found: Sequence[Path], parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("Documentation"))
        self._pages = [page.resolve() for page in found]
        self._texts = [page.read_text(encoding="utf-8") for page in self._pages]
        self.list = QListWidget(self)
        self.list.setAccessibleName(self.tr("Pages"))
        self.list.setItemDelegate(RowDelegate(28, self))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.addItems([page_title(text) for text in self._texts])
        self.text = QTextBrowser(self)
        self.text.setAccessibleName(self.tr("Page"))
        self.text.setOpenLinks(False)
        self.text.setProperty("pane", "true")
        self.text.anchorClicked.connect(self._follow)
        self.list.currentRowChanged.connect(self._show)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.list)
        row.addWidget(self.text, 1)
        theme.changed.connect(self._restyle)
        self._restyle()
        self.list.setCurrentRow(0)
        self.text.setFocus()

    def _show(self, row: int) -> None:
        if row >= 0:
            self.text.setSearchPaths([str(self._pages[row].parent)])
            self.text.setMarkdown(self._texts[row])
            self._space()
            self.text.moveCursor(QTextCursor.MoveOperation.Start)

    def _space(self) -> None:
        """Give headings and paragraphs the gaps that Markdown leaves to its reader."""
        cursor = QTextCursor(self.text.document())
        block = self.text.document().begin()
        while block.isValid():
            heading = block.blockFormat().headingLevel() > 0
            if block.text() and cursor.currentTable() is None:
                gaps = QTextBlockFormat()
                gaps.setTopMargin(theme.px(16 if heading else 0))
                gaps.setBottomMargin(theme.px(7 if block.textList() is None else 3))
                cursor.mergeBlockFormat(gaps)
            block = block.next()
            cursor.setPosition(block.position() if block.isValid() else 0)

    def _follow(self, link: QUrl) -> None:
        """Go to another page; what is no page is opened by the system."""
        if link.scheme() in ("http", "https"):
            QDesktopServices.openUrl(link)
            return
        wanted = (self._pages[max(0, self.list.currentRow())].parent / link.path()).resolve()
        if wanted in self._pages:
            self.list.setCurrentRow(self._pages.index(wanted))
        elif wanted.exists():
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(wanted)))

    def _restyle(self) -> None:
        self.list.setFixedWidth(theme.px(240))
        self.list.setFont(theme.font(13))
        self.list.setStyleSheet(f"padding: {theme.px(8)}px 0 0 {theme.px(8)}px;")
        self.text.setFont(theme.font(13))
        self.text.document().setDocumentMargin(theme.px(16))
        self.text.document().setDefaultFont(theme.font(13))
        self.resize(theme.px(960), theme.px(680))
        self._show(self.list.currentRow())
