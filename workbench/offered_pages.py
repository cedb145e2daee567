"""The pages the window offers; each is loaded when it is first opened."""

from PySide6.QtCore import QCoreApplication

from engine import Engine
from engine.folders import Folders
from workbench.documents import Documents
from workbench.engine_options import EngineOptions
from workbench.page import Page
from workbench.page_tabs import PageOffer, PageTabs
from workbench.tasks import Tasks

translate = QCoreApplication.translate


def offer_pages(
    pages: PageTabs, engine: Engine, documents: Documents, folders: Folders, options: EngineOptions, tasks: Tasks
) -> None:
    """Make all pages known."""

    def prompts() -> Page:
        from workbench.prompts.page import PromptsPage
        from workbench.running_prompts import RunningPrompts

        recovery = folders.recovery / "prompts"
        page = PromptsPage(engine, folders.prompts, recovery, options, tasks)
        running = RunningPrompts(documents, page)
        page.uses = running.uses
        running.changed.connect(page.show_running)
        return page

    pages.offer(
        PageOffer(
            id="prompts",
            title=translate("pages", "Prompts"),
            tip=translate("pages", "The prompts of agents and tools"),
            icon="content",
            make=prompts,
        )
    )
