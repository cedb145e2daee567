"""Which keys trigger which action: those of the table, over them what a person chose, remembered."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QKeySequence

from workbench.actions import ACTIONS, MENUS, Actions, translated
from workbench.settings import Settings

MOST_KEYS = 2
"""Keys an action may have."""
MOVING = ("Tab", "Shift+Tab", "Esc", "Return", "Enter", "Space", "Up", "Down", "Left", "Right", "Menu", "Backspace")
"""Keys that move about and choose everywhere."""
CANVAS_KEYS = (
    "D",
    "Alt+Up",
    "Alt+Down",
    "Alt+Left",
    "Alt+Right",
    "Shift+Up",
    "Shift+Down",
    "Shift+Left",
    "Shift+Right",
)
"""Keys that mean something on the canvas and hang in no menu."""


class KeyBindings(QObject):
    """Gives the actions their keys; each key triggers one action at most."""

    changed = Signal()
    """Some action has other keys now."""

    def __init__(self, actions: Actions, settings: Settings, parent: QObject) -> None:
        super().__init__(parent)
        self._actions = actions
        self._settings = settings
        self._own = _known(settings.keys)
        self._give()

    def keys(self, action_id: str) -> tuple[str, ...]:
        """The keys of an action as `Ctrl+K`, the first one is shown in menus."""
        return tuple(key.toString() for key in self._actions[action_id].shortcuts())

    def is_changed(self, action_id: str) -> bool:
        """Whether an action has other keys than at first."""
        return self.keys(action_id) != first_keys(action_id)

    @property
    def any_changed(self) -> bool:
        """Whether any action has."""
        return any(self.is_changed(row.id) for row in ACTIONS)

    def owner(self, key: str) -> str:
        """The action that a key triggers, empty for none."""
        return next((row.id for row in ACTIONS if key in self.keys(row.id)), "")

    def menu_of(self, key: str) -> str:
        """The menu that a key opens, without its mark; empty for none."""
        titles = (translated(title) for title in MENUS.values())
        found = (title for title in titles if key == f"Alt+{title.partition('&')[2][:1].upper()}")
        return next(found, "").replace("&", "")

    def assign(self, action_id: str, keys: Sequence[str]) -> None:
        """Give an action these keys and no others; whatever had one of them loses it."""
        wanted = tuple(dict.fromkeys(key for key in keys if key))[:MOST_KEYS]
        for row in ACTIONS:
            left = tuple(key for key in self.keys(row.id) if key not in wanted)
            if row.id != action_id and left != self.keys(row.id):
                self._own[row.id] = left
        self._own[action_id] = wanted
        self._keep()

    def missing_defaults(self, action_id: str) -> dict[str, str]:
        """First keys of an action that others have now: key → the other action."""
        owners = {key: self.owner(key) for key in first_keys(action_id)}
        return {key: owner for key, owner in owners.items() if owner not in ("", action_id)}

    def reset(self, action_id: str) -> None:
        """Give an action its first keys again; whatever had one of them loses it."""
        self.assign(action_id, first_keys(action_id))

    def reset_all(self) -> None:
        """Give all actions their first keys."""
        self._own.clear()
        self._keep()

    def _keep(self) -> None:
        self._own = {name: keys for name, keys in self._own.items() if keys != first_keys(name)}
        self._settings.keys = self._own
        self._give()
        self.changed.emit()

    def _give(self) -> None:
        """Own keys first: a key that an action got at first may be another's by choice."""
        taken = {key for keys in self._own.values() for key in keys}
        self._actions.set_keys(
            {
                row.id: self._own.get(row.id, tuple(key for key in first_keys(row.id) if key not in taken))
                for row in ACTIONS
            }
        )


def first_keys(action_id: str) -> tuple[str, ...]:
    """The keys an action has at first."""
    row = next(row for row in ACTIONS if row.id == action_id)
    return tuple(key.toString() for key in row.first_keys)


def _known(kept: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """What was remembered, as far as it makes sense: known actions, readable keys, each key once."""
    ids, taken = {row.id for row in ACTIONS}, set[str]()
    found = {}
    for name, keys in kept.items():
        if name in ids:
            readable = [QKeySequence(key).toString() for key in keys]
            found[name] = tuple(key for key in dict.fromkeys(readable) if key and key not in taken)[:MOST_KEYS]
            taken.update(found[name])
    return found
