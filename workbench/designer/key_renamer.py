"""Which fields of the inspector rename a key wherever it is used when their text is changed, and when they do."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QCoreApplication

from engine.flow.flow_keys import agent_keys, known_keys
from engine.flow.flow_spec import FlowSpec
from workbench.designer.fields import Binding
from workbench.designer.key_edits import rename_key
from workbench.designer.targets import AgentTarget

translate = QCoreApplication.translate

Rename = Callable[[str, str], bool]
"""Renames a key with everything that names it, as one step; False when the field alone is to change.

Raises CannotRename when a text cannot hold the new name."""


class KeyRenamer:
    """Renames the keys of the one agent that is shown."""

    def __init__(self, target: AgentTarget) -> None:
        self._target = target

    @property
    def _spec(self) -> FlowSpec:
        return self._target.editor.document.spec

    def made(self, old: str, new: str) -> bool:
        """Rename a key that the agent makes."""
        return self._rename(old, new, self._target.names[0]) if len(self._target.names) == 1 else False

    def made_once(self, old: str, new: str) -> bool:
        """Rename a key that the agent makes in one place; of several, each is changed by itself."""
        agent = self._target.agent
        return agent is not None and agent_keys(agent)[0].count(old) == 1 and self.made(old, new)

    def used(self, old: str, new: str) -> bool:
        """Rename a key that is read here, when nothing makes one of the new name: else another key is meant."""
        known = known_keys(self._spec).names
        return old in known and new not in known and self._rename(old, new, "")

    def _rename(self, old: str, new: str, agent: str) -> bool:
        if not old or not new or old == new:
            return False
        spec = rename_key(self._spec, old, new, agent=agent)
        step = translate("Inspector", "Rename key %1 to %2").replace("%2", new).replace("%1", old)
        self._target.editor.edit(step, spec)
        return True


def renamed_with(
    binding: Binding, rename: Rename, *, prefix: Callable[[], str] = str, default: str = ""
) -> Callable[[str | None], None]:
    """What a field does with the name of a key that was typed: rename the key, else change this place alone.

    `prefix` stands before the name to make the key; `default` is the key's name while the field is empty.
    """

    def take(new: str | None) -> None:
        old, before = binding.value() or default, prefix()
        if not (isinstance(old, str) and new and rename(before + old, before + new)):
            binding.put(new)

    return take


def one_renamed_with(
    binding: Binding, rename: Rename, *, prefix: Callable[[], str] = str
) -> Callable[[Sequence[str]], None]:
    """As `renamed_with` for a list of names, of which one was changed; any other edit changes this place alone."""

    def take(new: Sequence[str]) -> None:
        value, before = binding.value(), prefix()
        old = value if isinstance(value, tuple) else ()
        changed = [pair for pair in zip(old, new, strict=False) if pair[0] != pair[1]]
        is_one = len(old) == len(new) and len(changed) == 1 and changed[0][1] not in old
        if not (is_one and rename(before + changed[0][0], before + changed[0][1])):
            binding.put(new)

    return take
