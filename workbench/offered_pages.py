"""The pages the window offers; each is loaded when it is first opened."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from engine import Engine
from engine.folders import Folders
from workbench.documents import Documents
from workbench.engine_options import EngineOptions
from workbench.page import Page
from workbench.page_tabs import PageOffer, PageTabs
from workbench.tasks import Tasks

translate = QCoreApplication.translate


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """What pages can show elsewhere, or know from there."""

    open_run: Callable[[str], object]
    """Show a recorded run."""
    show_settings: Callable[[str], object]
    """Show a page of the settings."""
    profile_used: Callable[[str], str]
    """What a profile has used since the start."""
    flows: Callable[[], Sequence[tuple[str, str]]]
    """Title and source of the flows there are."""


def offer_pages(
    pages: PageTabs,
    engine: Engine,
    documents: Documents,
    folders: Folders,
    options: EngineOptions,
    tasks: Tasks,
    views: Views,
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

    def compare() -> Page:
        from workbench.comparison.page import ComparePage
        from workbench.comparison.setup_form import FlowChoice

        page = ComparePage(engine, folders.comparisons, tasks)
        page.flows = lambda: [FlowChoice(title=title, source=source) for title, source in views.flows()]
        page.run_wanted.connect(views.open_run)
        page.profile_wanted.connect(lambda name: show_profile(pages, name))
        return page

    pages.offer(
        PageOffer(
            id="compare",
            title=translate("pages", "Compare"),
            tip=translate("pages", "The same over several profiles, side by side"),
            icon="compare",
            make=compare,
        )
    )
    pages.offer(
        PageOffer(
            id="prompts",
            title=translate("pages", "Prompts"),
            tip=translate("pages", "The prompts of agents and tools"),
            icon="content",
            make=prompts,
        )
    )

    def profiles() -> Page:
        from workbench.profiles.page import ProfilesPage

        page = ProfilesPage(engine, folders.profiles, folders.recovery / "profiles", tasks)
        page.used = views.profile_used
        return page

    pages.offer(
        PageOffer(
            id="profiles",
            title=translate("pages", "Profiles"),
            tip=translate("pages", "The models, how they are reached, and which answers for a category"),
            icon="profile",
            make=profiles,
        )
    )

    def tools() -> Page:
        from workbench.tool_access import ToolAccess
        from workbench.tool_question import ToolQuestion
        from workbench.toolbox.page import ToolsPage

        asker = translate("pages", "The page Tools")
        page = ToolsPage(engine, options, tasks, lambda: ToolQuestion(page.window(), asker))
        access = ToolAccess(documents, engine, page)
        page.flow_tools, page.run_grants, page.trust_withdrawn = access.flow_tools, access.run_grants, access.withdrawn
        access.changed.connect(page.refresh)
        return page

    pages.offer(
        PageOffer(
            id="tools",
            title=translate("pages", "Tools"),
            tip=translate("pages", "What models may call, and what was approved"),
            icon="tool",
            make=tools,
        )
    )

    def dashboard() -> Page:
        from workbench.dashboard.page import DashboardPage

        page = DashboardPage(engine, options, tasks, documents.newest_branches)
        page.run_wanted.connect(views.open_run)
        page.settings_wanted.connect(views.show_settings)
        return page

    pages.offer(
        PageOffer(
            id="dashboard",
            title=translate("pages", "Dashboard"),
            tip=translate("pages", "What requests cost, used and how they ended"),
            icon="dashboard",
            make=dashboard,
        )
    )


def show_profile(pages: PageTabs, name: str) -> None:
    """Open the page of the profiles with one of them."""
    from workbench.profiles.page import ProfilesPage

    page = pages.show("profiles")
    assert isinstance(page, ProfilesPage)  # noqa: S101 - what is offered by that id
    page.open_profile(name)
