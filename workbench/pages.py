"""The views of the window by name, as `workbench screenshot --page` knows them."""

from collections.abc import Callable, Mapping
from functools import partial

from workbench.desk import Desk

Show = Callable[[Desk], object]


def pages(desk: Desk) -> dict[str, Show]:
    """Page → what brings it to the front; the tabs of the run dock are pages by their names."""
    tab = desk.documents.current
    views: dict[str, Show] = {}
    if tab is not None:
        panel = tab.panel
        views = {name.lower(): partial(lambda name, _desk: panel.show_tab(name), name) for name in panel.tab_names}
    return {**PAGES, **views}


def _inspector(desk: Desk) -> None:
    tab = desk.documents.current
    if tab is not None:
        tab.editor.select([agent.name for agent in tab.document.spec.agents[:1]])


SETTINGS = ("appearance", "keys", "environment", "network", "cache", "limits", "alarms", "masking", "tools", "data")
"""Pages of the settings (SettingsDialog.by_name)."""


def _settings(name: str, desk: Desk) -> None:
    from workbench.settings_dialog.dialog import SettingsDialog

    _act("settings", desk)
    dialog = desk.window.findChild(SettingsDialog)
    if isinstance(dialog, SettingsDialog):
        dialog.show_page(dialog.by_name[name])


def _act(action_id: str, desk: Desk) -> None:
    desk.window.actions_by_id[action_id].trigger()


def _page(page_id: str, desk: Desk) -> None:
    desk.pages.show(page_id)


PAGES: Mapping[str, Show] = {
    "flow": lambda _desk: None,
    "inspector": _inspector,
    "problems": lambda desk: desk.window.show_dock("problems"),
    "log": lambda desk: desk.window.show_dock("log"),
    "palette": partial(_act, "palette"),
    "settings": partial(_settings, SETTINGS[0]),
    **{f"settings-{name}": partial(_settings, name) for name in SETTINGS[1:]},
    "prompts": partial(_page, "prompts"),
    "tools": partial(_page, "tools"),
    "profiles": partial(_page, "profiles"),
    "compare": partial(_page, "compare"),
    "dashboard": partial(_page, "dashboard"),
    "compare-runs": lambda desk: desk.run_actions.compare(),
    "shortcuts": partial(_act, "shortcuts"),
    "documentation": partial(_act, "documentation"),
    "about": partial(_act, "about"),
    "empty": partial(_act, "close"),
}
"""Pages beside those of the run."""
