"""The pages beside the flows, prompts and tools for instance: one tab each, opened from menu, palette and Explorer."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from workbench.documents import Documents
from workbench.main_window import MainWindow
from workbench.page import Page
from workbench.settings import Settings
from workbench.tasks import Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOffer:
    """A page there can be."""

    id: str
    """Also the id of the action that opens it."""
    title: str
    tip: str
    icon: str
    make: Callable[[], Page]


class PageTabs(QObject):
    """Owns the pages."""

    changed = Signal()
    """Pages were opened or closed, or have other unsaved changes."""

    def __init__(self, window: MainWindow, documents: Documents, settings: Settings, tasks: Tasks) -> None:
        super().__init__(window)
        self._window = window
        self._documents = documents
        self._settings = settings
        self._tasks = tasks
        self.offers: dict[str, PageOffer] = {}
        """What can be opened, by id."""
        self._open: dict[str, Page] = {}
        window.tab_close_requested.connect(self._close_tab)
        window.actions_by_id["save"].triggered.connect(self._save_current)
        window.actions_by_id["close"].triggered.connect(lambda: self._close_tab(self.current))

    def offer(self, offer: PageOffer) -> None:
        """Make a page known, and connect the action of its id."""
        self.offers[offer.id] = offer
        self._window.actions_by_id[offer.id].triggered.connect(lambda: self.show(offer.id))

    @property
    def open(self) -> list[Page]:
        """The pages that have a tab."""
        return list(self._open.values())

    @property
    def current(self) -> Page | None:
        """The page in front, None when a flow or nothing is."""
        widget = self._window.tabs.currentWidget()
        return widget if isinstance(widget, Page) else None

    def id_of(self, page: Page) -> str:
        """The id of an open page."""
        return next(page_id for page_id, one in self._open.items() if one is page)

    def title(self, page: Page) -> str:
        """What the tab of an open page is called."""
        return self.offers[self.id_of(page)].title

    def show(self, page_id: str) -> Page:
        """Open a page, or bring its tab to the front."""
        page = self._opened(page_id)
        self._window.tabs.setCurrentWidget(page)
        page.setFocus()
        return page

    def reopen(self) -> None:
        """Open the pages of the last time, behind the tab in front."""
        for page_id in self._settings.open_pages:
            if page_id in self.offers:
                self._opened(page_id)

    def _opened(self, page_id: str) -> Page:
        page = self._open.get(page_id)
        if page is None:
            offer = self.offers[page_id]
            page = self._open[page_id] = offer.make()
            self._window.add_page(page, offer.title)
            page.changed.connect(lambda: self._name(page_id))
            self._name(page_id)
            self._remember()
        return page

    @property
    def modified(self) -> dict[Page, str]:
        """The open pages with unsaved changes, and their titles."""
        return {page: self.title(page) for page in self.open if page.is_modified}

    def _save_current(self) -> None:
        if (page := self.current) is not None:
            self._tasks.start(page.save())

    def _close_tab(self, page: object) -> None:
        """Close a page; asks when it has changes. Flows close elsewhere."""
        if not isinstance(page, Page):
            return
        if page.is_modified:
            self._documents.ask_to_close([], lambda: self._tasks.start(self._close(page)), {page: self.title(page)})
        else:
            self._tasks.start(self._close(page))

    async def _close(self, page: Page) -> None:
        await page.close_page()
        self._open = {page_id: one for page_id, one in self._open.items() if one is not page}
        self._window.remove_page(page)
        page.deleteLater()
        self._remember()

    async def shut_down(self) -> None:
        """End what all pages have under way."""
        for page in self.open:
            await page.close_page()

    def _name(self, page_id: str) -> None:
        offer, page = self.offers[page_id], self._open[page_id]
        mark = " •" if page.is_modified else ""
        self._window.set_tab_title(page, offer.title + mark, offer.tip, offer.icon)
        self.changed.emit()

    def _remember(self) -> None:
        self._settings.open_pages = list(self._open)
        self.changed.emit()
